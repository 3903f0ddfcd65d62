"""An environment whose code breaks in every second row, which a peer must see masked and never as 0; an odd name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gymwire.servers import Row
from gymwire.servers.environment import tool
from gymwire.servers.environments.ledger import Ledger


class OddlyNamed(Ledger):
    """A name that no package and no class can have as it stands, and that a class of verifiers' own begins with."""

    name = "NeMo-Gym."


class BrokenLedger(Ledger):
    """The ledger, with a lookup that fails on our side where the row says so."""

    class Data(Ledger.Data):
        broken: bool = False

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int) -> Iterator[Row]:
        for index, row in enumerate(super().rows(split, count, seed)):
            yield replace(row, data={**row.data, "broken": index % 2 == 1})

    @tool
    async def lookup(self, entry: str) -> str:
        """Read one entry of the ledger.

        Args:
            entry: The entry's name, such as "rent Leeds" or "Miete Ulm".
        """
        if self.data.broken:
            raise RuntimeError("the ledger's disk is gone")
        return await super().lookup(entry)
