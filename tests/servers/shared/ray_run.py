"""A Ray cluster on this machine with two replicas of the app, driven over the wires, one of them killed meanwhile.

    python ray_run.py STORE FOLDER ENV...     prints what happened, one JSON object, on its last line

Runs in an environment that holds Ray; `test_ray` reads what it prints.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import ray
from gymwire.adapters import Connection, SessionFailed, connect
from gymwire.adapters.drive import Played, drive
from gymwire.servers.catalog import find
from gymwire.servers.environment import DefinitionError
from gymwire.servers.ray import deployment
from gymwire.servers.types import Json, Row
from ray import serve

WIRES = ("nemo-gym", "openenv", "mcp")
EPISODES = 8
POLICY = "rule"
SMALL = {"num_cpus": 2, "object_store_memory": 80 * 2**20, "include_dashboard": False, "log_to_driver": False}
#: Refused before a replica starts, by what is wrong.
REFUSED: dict[str, Json] = {
    "pinned": {"environments": "tests.worlds:Secrets,counter", "store": "redis://127.0.0.1:1/0", "max_replicas": "2"},
    "unshared": {"environments": "counter", "max_replicas": "2"},
    "twice": {"environments": "counter,counter"},
    "unknown": {"environments": "counterr"},
    "argument": {"environments": "counter", "replicas": "2"},
    "stranger": {"environments": "counter", "rows": '{"checkout": "rows.jsonl"}'},
}


def main() -> None:
    store, folder, port, *names = sys.argv[1:]
    key = Path(folder, "key")
    key.write_text("0123456789abcdef" * 2)
    with cluster(Path(folder), int(port)):
        deploy(store, names, key)
        print(json.dumps({"refused": refused(), **asyncio.run(played(f"http://127.0.0.1:{port}", names))}))


@contextmanager
def cluster(folder: Path, port: int) -> Iterator[None]:
    ray.init(_temp_dir=str(folder), **SMALL)
    try:
        serve.start(http_options=serve.HTTPOptions(host="127.0.0.1", port=port))
        yield
    finally:
        serve.shutdown()
        ray.shutdown()


def deploy(store: str, names: list[str], key: Path) -> None:
    """By the command that operators use."""
    address = ray.get_runtime_context().gcs_address
    words = [str(Path(sys.executable).parent / "serve"), "run", "--non-blocking", "--address", address]
    what = [f"environments={','.join(names)}", f"store={store}", f"signing_key_file={key}"]
    what += ["min_replicas=2", "max_replicas=2", "num_cpus=0.5"]
    subprocess.run([*words, "gymwire.servers.ray:app_builder", *what], check=True, stdout=sys.stderr)


def refused() -> dict[str, str]:
    said = {}
    for name, arguments in REFUSED.items():
        try:
            deployment(arguments)
            said[name] = "nothing"
        except DefinitionError as error:
            said[name] = str(error)
    return said


async def played(url: str, names: list[str]) -> dict[str, Any]:
    expected = {name: await round_of(connect(find(name)), name) for name in names}
    quiet = {
        f"{name} {wire}": await round_of(connect(url, env=name, wire=wire), name) for name in names for wire in WIRES
    }
    name = names[0]
    before = replicas()
    disturbed = await asyncio.gather(*(disturbed_round(url, name, wire) for wire in WIRES))
    return {
        "expected": {name: rewards(episodes) for name, episodes in expected.items()},
        "quiet": {key: rewards(episodes) for key, episodes in quiet.items()},
        "disturbed": {wire: rewards(episodes) for wire, episodes in zip(WIRES, disturbed, strict=True)},
        "failures": [str(item.failure) for episodes in disturbed for item in episodes if item.failure],
        "replicas": [sorted(before), sorted(replicas())],
    }


async def round_of(connection: Connection, name: str) -> list[Played]:
    async with connection:
        return await asyncio.gather(*(episode(connection, name, index) for index in range(EPISODES)))


async def episode(connection: Connection, name: str, index: int, paced: Any = None) -> Played:
    environment = find(name)
    rows = list(environment.rows(environment.splits[0], EPISODES, 0))
    try:
        async with connection.session(split=environment.splits[0], index=index, seed=index) as session:
            script = environment.policies[POLICY](Row(prompt=rows[index].prompt), Random(index))
            if paced is not None:
                await paced(session)
            return await drive(session, script)
    except SessionFailed as failure:
        return Played(failure=failure)


class Meeting:
    """Everybody waits here, seeded; then one replica is killed, and everybody goes on at once."""

    def __init__(self) -> None:
        self.here, self.killed = 0, asyncio.Event()

    async def __call__(self, session: Any) -> None:
        self.here += 1
        if self.here == EPISODES * len(WIRES):
            victim = min(replicas())
            ray.kill(ray.get_actor(victim, namespace="serve"))
            self.killed.set()
        await self.killed.wait()


_meeting = Meeting()


async def disturbed_round(url: str, name: str, wire: str) -> list[Played]:
    async with connect(url, env=name, wire=wire) as connection:
        return await asyncio.gather(*(episode(connection, name, index, _meeting) for index in range(EPISODES)))


def rewards(episodes: list[Played]) -> list[float | None]:
    return [item.reward for item in episodes]


def replicas() -> list[str]:
    named = ray.util.list_named_actors(all_namespaces=True)
    return [item["name"] for item in named if "REPLICA" in item["name"]]


if __name__ == "__main__":
    main()
