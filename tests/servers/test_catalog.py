"""Finding environments, and an environment as a server holds it."""

from __future__ import annotations

from typing import Any

import pytest
from gymwire.servers import DefinitionError, Environment, Row, Transcript
from gymwire.servers.catalog import Served, find, installed
from gymwire.servers.environments.counter import Counter
from gymwire.servers.types import RowError
from pydantic import BaseModel, field_validator

from tests.servers.engine import Engine, Notes, refused


def test_the_bundled_environments_are_installed() -> None:
    assert {"counter", "battery", "ledger", "checkout", "codebook"} <= set(installed())


def test_an_environment_is_found_by_name_or_by_place() -> None:
    assert find("counter") is Counter
    assert find("gymwire.servers.environments.counter:Counter") is Counter


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("countr", "Did you mean 'counter'"),
        ("nothing.like.it", "no environment is called"),
        ("nowhere:Counter", "no module 'nowhere'"),
        ("gymwire.servers.types:Nothing", "has no Nothing"),
        ("gymwire.servers.types:Row", "no Environment"),
        ("", "no environment is called"),
    ],
)
def test_a_name_that_is_none_is_refused_with_the_way_out(name: str, words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        find(name)


def test_an_environment_without_verify_is_refused() -> None:
    with pytest.raises(DefinitionError, match="verify"):
        Served(type("NoVerify", (Environment,), {}))


class Settings(Notes):
    def __init__(self, size: int, color: str = "red") -> None:
        self.size, self.color = size, color

    def verify(self, transcript: Transcript) -> float:
        return float(self.size)


async def test_settings_reach_the_constructor(engine: Engine) -> None:
    session = await engine.start(Served(Settings, {"size": 3}))
    assert (await session.verify()).reward == 3.0


@pytest.mark.parametrize(("settings", "words"), [({}, "needs --set size"), ({"size": 1, "sze": 2}, "takes no setting")])
def test_settings_that_do_not_fit_are_refused_at_the_start(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(DefinitionError, match=words):
        Served(Settings, settings)
    with pytest.raises(DefinitionError, match="takes no setting"):
        Served(Notes, {"x": 1})


async def test_setup_gets_the_settings_it_names() -> None:
    class Prepared(Settings):
        given: Any = None

        @classmethod
        def setup(cls, color: str = "") -> None:  # type: ignore[override]  # pyright: ignore
            cls.given = color

    await Served(Prepared, {"size": 1, "color": "blue"}).setup()
    assert Prepared.given == "blue"


async def test_a_setup_that_breaks_fails_every_seed_and_never_passes(engine: Engine) -> None:
    class Broken(Notes):
        @classmethod
        async def setup(cls, **settings: Any) -> None:
            raise OSError("no data")

    served = Served(Broken)
    for _ in range(2):
        refusal = await refused(engine.start(served))
        assert refusal.failure is not None and "no data" in refusal.failure.reason
    assert engine.all_free


class Typed(Notes):
    class Data(BaseModel):  # pyright: ignore[reportIncompatibleVariableOverride]
        budget: int
        names: list[str] = []

        @field_validator("names")
        @classmethod
        def _odd(cls, value: list[str]) -> list[str]:
            if value == ["crash"]:
                raise RuntimeError("a validator of ours")
            return value


def test_row_data_is_checked_and_the_field_named() -> None:
    served = Served(Typed)
    assert served.check_data(Row.of("x", budget=1)).budget == 1
    with pytest.raises(RowError, match="budget"):
        served.check_data(Row.of("x"))
    assert Served(Notes).check_data(Row.of("x")) is None


async def test_a_validator_that_breaks_is_our_failure(engine: Engine) -> None:
    refusal = await refused(engine.start(Typed, Row.of("x", budget=1, names=["crash"])))
    assert refusal.failure is not None and "a validator of ours" in refusal.failure.reason and engine.all_free
