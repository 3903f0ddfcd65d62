"""swe: every bug is caught by hidden tests and mended by its own edit; the workspace; what cannot be forged."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from statistics import mean
from typing import Any

import pytest
import pytest_asyncio
from gymwire.servers import Row, ToolError, ToolResult
from gymwire.servers.environments.swe import environment as module
from gymwire.servers.environments.swe import hidden
from gymwire.servers.environments.swe.environment import Swe
from gymwire.servers.environments.swe.repositories import HELD_OUT, load, names
from gymwire.servers.policies import Call
from gymwire.servers.rows import generated_lines
from gymwire.servers.sandbox.jobs import PYTHON, Job, Limits, Sandbox
from gymwire.servers.sandbox.select import SharedSandbox
from gymwire.servers.types import RowError

from tests.sandboxes import skip_without

on_its_loop = pytest.mark.asyncio(loop_scope="module")
DATASET = Path(__file__).parents[3] / "datasets" / "swe"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sandbox() -> AsyncIterator[Sandbox]:
    skip_without(Swe)
    shared = SharedSandbox()
    yield await shared.get()
    await shared.close()


async def begun(sandbox: Sandbox, repository: str = "intervals", bug: str = "touching") -> Any:
    return await seeded(sandbox, Row.of("", repository=repository, bug=bug))


async def seeded(sandbox: Sandbox, row: Row) -> Any:
    environment: Any = Swe(sandbox)
    environment.row, environment.data = row, Swe.Data.model_validate(dict(row.data))
    await environment.reset(row)
    return environment


async def score(environment: Any) -> float:
    return await environment.verify(None)


async def played(sandbox: Sandbox, row: Row, policy: str) -> float:
    environment = await seeded(sandbox, row)
    script = Swe.policies[policy](row if policy == "oracle" else Row(prompt=row.prompt), environment.rng)
    action = next(script)
    try:
        while True:
            assert isinstance(action, Call)
            text = await getattr(environment, action.name)(**action.arguments)
            action = script.send(ToolResult(text))
    except StopIteration:
        return await score(environment)


def test_there_are_twenty_repositories_with_several_bugs_each() -> None:
    assert len(names()) == 20 and set(HELD_OUT) < set(names())
    for name in names():
        assert len(load(name).bugs) >= 5
        assert all(bug.name == key and bug.report.strip() for key, bug in load(name).bugs.items())


@pytest.mark.parametrize("name", names())
@on_its_loop
async def test_every_bug_is_caught_and_the_right_files_pass(sandbox: Sandbox, name: str) -> None:
    repository = load(name)
    own = await sandbox.run(Job((PYTHON, "-m", "unittest"), repository.files))
    assert own.exit_code == 0 and b"Ran 0" not in own.stderr, own.stderr
    assert await hidden.passes(sandbox, repository, repository.files)
    for bug in repository.bugs.values():
        assert not await hidden.passes(sandbox, repository, repository.with_bug(bug)), bug.name


@pytest.mark.parametrize("split", Swe.splits)
def test_datasets_are_what_the_generator_writes(split: str) -> None:
    assert (DATASET / f"{split}.jsonl").read_bytes() == b"".join(generated_lines(Swe, split))


def test_splits_share_no_repository_and_seeds_change_the_order() -> None:
    rows = {split: list(Swe.rows(split, None, 0)) for split in Swe.splits}
    of = {split: {row.data["repository"] for row in rows[split]} for split in rows}
    assert of["eval"] == set(HELD_OUT) and not of["eval"] & of["train"]
    assert [row.data for row in Swe.rows("train", 5, 0)] == [row.data for row in rows["train"][:5]]
    assert [row.data for row in Swe.rows("train", None, 1)] != [row.data for row in rows["train"]]


def test_no_prompt_shows_a_hidden_file_or_the_bug() -> None:
    for row in (*Swe.rows("train", None, 0), *Swe.rows("eval", None, 0)):
        prompt = row.prompt[-1]["content"]
        bug = load(row.data["repository"]).bugs[row.data["bug"]]
        assert "probes" not in prompt and "repository.toml" not in prompt and bug.name not in prompt.split("\n")
        assert bug.right.strip() not in prompt


@pytest.mark.parametrize("policy", Swe.policies)
@on_its_loop
async def test_the_readme_states_what_the_policies_score(sandbox: Sandbox, policy: str) -> None:
    readme = (DATASET / "README.md").read_text(encoding="utf-8")
    stated = dict(re.findall(r"^\| `(random|rule|oracle)` \| ([0-9.]+) \|", readme, flags=re.MULTILINE))
    rewards = [await played(sandbox, row, policy) for row in Swe.rows("eval", None, 0)]
    assert stated[policy] == f"{mean(rewards):.3f}"


@on_its_loop
async def test_commands_see_the_workspace_and_leave_their_files(sandbox: Sandbox) -> None:
    environment = await begun(sandbox)
    assert "intervals" in await environment.bash("ls")
    assert (
        await environment.bash("echo note > notes.txt; rm README.md; mkdir deep; cp notes.txt deep/b") == "(no output)"
    )
    assert "notes.txt" in environment.files and "README.md" not in environment.files
    assert await environment.bash("cat deep/b; echo gone >&2; exit 3") == "note\ngone\n\n(exit status 3)"
    assert "OK" in await environment.bash("python -m unittest 2>&1 || python3 -m unittest")
    assert not any("__pycache__" in path for path in environment.files)


@on_its_loop
async def test_a_command_that_never_ends_is_the_policys_and_changes_nothing(
    sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "COMMAND_LIMITS", Limits(wall_s=0.5))
    environment = await begun(sandbox)
    before = dict(environment.files)
    said = await environment.bash("echo begun; rm -rf *; sleep 30")
    assert said.startswith("begun") and "changes to files were dropped" in said
    assert environment.files == before


@on_its_loop
async def test_files_are_shown_in_parts_and_edited_where_a_text_is_unique(sandbox: Sandbox) -> None:
    environment = await begun(sandbox)
    assert (await environment.read_file("intervals/text.py")).startswith('   1  """Ranges as people write them')
    assert await environment.edit_file("long.txt", "", "\n".join("abc" for _ in range(1000))) == "long.txt was written."
    shown = await environment.read_file("long.txt", 500)
    assert shown.startswith(" 500  abc") and shown.endswith("(101 more lines)")
    for path, old, said in (
        ("nothing.py", "a", "no file"),
        ("intervals/ranges.py", "merge", "times"),
        ("intervals/ranges.py", "not there at all", "0 times"),
        ("intervals/ranges.py", "", "0 times"),
        ("../up.py", "", "plain path"),
        ("/etc/passwd", "", "plain path"),
        ("intervals", "", "a folder, too"),
        ("intervals/ranges.py/more.py", "", "a folder, too"),
        ("\ud800.py", "", "plain path"),
        ("ü" * 200, "", "too long"),
    ):
        with pytest.raises(Exception, match=said):
            await environment.edit_file(path, old, "x")


#: Commands that leave, or are, what no later job could have.
HOSTILE = {
    "too much": "head -c 9000000 /dev/zero > big",
    "too many": "for i in $(seq 5000); do echo $i > f$i; done",
    "as many as there is room for": "i=0; while [ $i -lt 5000 ]; do : > f$i; i=$((i+1)); done",
    "folders without end": "for i in $(seq 60); do mkdir -p a$i/$(seq -s / 60); : > a$i/$(seq -s / 60)/f; done",
    "bytes that are no text": 'n=$(printf \'\\377\'); touch "$n"; mkdir "$n-"; mv README.md "$n-"',
    "a line end in a name": "printf x > \"$(printf 'a\\nb')\"",
    "tests as a file": "rm -r tests; echo x > tests",
    "hidden names as folders": "for n in probes.py answers.json; do mkdir hidden_$n; touch hidden_$n/x; done",
    "links and pipes": "ln -s /etc/passwd link; ln -s loop loop; mkfifo pipe",
    "unreadable": "chmod 000 intervals/text.py intervals",
    "deep": "for i in $(seq 200); do mkdir dddddddddd; cd dddddddddd; done; echo 1 > f",
    "nothing": "rm -rf * .[a-z]*",
    "a NUL": "echo \0",
    "half a character": "echo \ud800",
    "very long": "x" * 3_000_000,
}


@on_its_loop
@pytest.mark.parametrize("command", HOSTILE)
async def test_whatever_a_command_leaves_is_the_policys_and_is_scored(sandbox: Sandbox, command: str) -> None:
    environment = await begun(sandbox)
    with suppress(ToolError):
        await environment.bash(HOSTILE[command])
    with suppress(ToolError):
        await environment.bash("ls; find . | wc -l")
    assert await score(environment) == 0.0
    second = await begun(sandbox)
    second.set_state(json.loads(json.dumps(environment.get_state())))
    assert second.files == environment.files


@on_its_loop
async def test_files_that_fill_the_workspace_are_still_scored(sandbox: Sandbox) -> None:
    environment = await begun(sandbox)
    for number in range(8):
        with suppress(ToolError):
            await environment.edit_file(f"big{number}.txt", "", "x" * 900_000)
    assert 3_000_000 < sum(map(len, environment.files.values())) <= module.WORKSPACE_BYTES
    assert await score(environment) == 0.0


#: What solves nothing: files a policy might leave instead of mending the bug.
FORGERIES = {
    "ends early": {"intervals/__init__.py": "import os\nos._exit(0)\n"},
    "exits well": {"intervals/__init__.py": "raise SystemExit(0)\n"},
    "equal to everything": {
        "intervals/ranges.py": "class All(list):\n    def __eq__(self, other): return True\n"
        "def merge(*a): return All()\nsubtract = gaps = total = covers = merge\n"
    },
    "a json of its own": {"json.py": "def dump(*a, **k): pass\ndef dumps(*a, **k): return '{}'\n"},
    "writes the answers first": {
        "intervals/__init__.py": "open('hidden_answers.json', 'w').write('{}')\nimport os\nos._exit(0)\n"
    },
    "probes of its own": {"hidden_probes.py": "", "hidden_runner.py": "print('passed')\n"},
    "changes the tests": {"tests/test_intervals.py": "print('OK')\n"},
    "empty package": {"intervals/__init__.py": "", "intervals/ranges.py": "", "intervals/text.py": ""},
    "takes the probes away": {
        "intervals/__init__.py": "import sys, types\nsys.modules['hidden_probes'] = types.ModuleType('hidden_probes')\n"
    },
    "raises whatever is asked": {"intervals/ranges.py": "def __getattr__(name):\n    raise ValueError\n"},
}


@pytest.mark.parametrize("forgery", FORGERIES)
@on_its_loop
async def test_what_mends_nothing_scores_nothing(sandbox: Sandbox, forgery: str) -> None:
    environment = await begun(sandbox)
    for path, text in FORGERIES[forgery].items():
        environment.files = {**environment.files, path: text.encode()}
    assert await score(environment) == 0.0


@on_its_loop
async def test_broken_tests_do_not_matter_when_the_bug_is_mended(sandbox: Sandbox) -> None:
    environment = await begun(sandbox)
    await environment.bash("rm -r tests")
    await environment.edit_file("intervals/ranges.py", "start <= merged[-1][1]:", "start <= merged[-1][1] + 1:")
    assert await score(environment) == 1.0


@on_its_loop
async def test_another_object_goes_on_from_the_state(sandbox: Sandbox) -> None:
    first, second = await begun(sandbox), await begun(sandbox)
    await first.bash("printf '\\377' > raw.bin")
    second.set_state(first.get_state())
    assert second.files == first.files and second.files["raw.bin"] == b"\xff"


@pytest.mark.parametrize("data", [{"repository": "nowhere", "bug": "x"}, {"repository": "intervals", "bug": "x"}])
@on_its_loop
async def test_a_row_of_no_repository_or_bug_is_told(sandbox: Sandbox, data: dict[str, str]) -> None:
    with pytest.raises(RowError, match="there are: "):
        await seeded(sandbox, Row.of("", **data))
