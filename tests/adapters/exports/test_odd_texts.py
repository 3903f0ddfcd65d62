"""Whatever an environment, a split, a model or a folder is called: every file parses, and says what was meant."""

from __future__ import annotations

import ast
import re
import shlex
import tomllib
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from gymwire.adapters.endpoint import EnvironmentInfo
from gymwire.adapters.exports.facts import Facts
from gymwire.adapters.exports.target import Options, Target
from gymwire.adapters.exports.text import literal, uninterpolated
from gymwire.servers.environment import NAME
from gymwire.servers.types import Json, Row, Tool
from yarl import URL

from tests.adapters.exports.command import refused

TARGETS = ("prime-rl", "nemo-rl", "nemo-gym", "verifiers", "openenv")
NAMES = ("class", "4x4", "a.b-c", "_", "x-", "1e5", "None", "NeMoGym", "nemo_gym", "Env.Client", "A" * 64)
ODD = 'x"""\\ \'q\' ${a} {b} %s %(c)s #: | ` @@name@@ \n- y: z \x7f\x85\u2028\ufeff é 😀'
LIMITS = {"lifetime_s": 60, "idle_timeout_s": 60, "queue_timeout_s": 5, "max_sessions": 1}
HERE = "http://127.0.0.1:8932"


def facts(name: str = "odd", root: str = HERE, *, has_token: bool = False) -> Facts:
    wires = {wire: f"/{name}/{face}" for wire, face in (("nemo-gym", "gym"), ("openenv", "openenv"), ("mcp", "mcp"))}
    tools = (Tool(name="true", description=ODD, parameters={"type": "object"}),)
    info = EnvironmentInfo(name=name, description=ODD, splits={ODD: 1}, tools=tools, wires=wires)
    rows: list[Json] = [Row.of(ODD, answer=ODD).to_json()]
    return Facts(URL(root), info, LIMITS, rows, ODD, has_token)


def files(target: str, given: Facts, **options: Any) -> dict[str, str]:
    chosen: Target = import_module(f"gymwire.adapters.exports.{target.replace('-', '_')}").TARGET
    return dict(chosen.export(given, Options(chosen.versions[0], Path("/out") / ODD, **options)).files)


def parsed(path: str, text: str) -> Any:
    if path.endswith(".toml"):
        return tomllib.loads(text)
    if path.endswith(".yaml"):
        return yaml.safe_load(text)
    return ast.parse(text) if path.endswith(".py") else text


def ending(made: dict[str, str], end: str) -> Any:
    return next(parsed(path, text) for path, text in made.items() if path.endswith(end))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NAMES)
def test_any_name_of_an_environment_makes_packages_that_can_be_had(name: str, target: str) -> None:
    assert NAME.fullmatch(name)
    made = files(target, facts(name))
    for path, text in made.items():
        tree = parsed(path, text)
        if isinstance(tree, ast.Module):
            assert all(part.isidentifier() for part in Path(path).with_suffix("").parts), path
        if path == "pyproject.toml":
            assert re.fullmatch(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?", tree["project"]["name"])
            packages = tree["tool"]["setuptools"]["packages"]
            assert all(part.isidentifier() for package in packages for part in package.split("."))
            assert packages[0] == tree["project"]["name"].replace("-", "_")  # where verifiers looks for it


@pytest.mark.parametrize("name", NAMES)
def test_no_class_of_the_package_hides_the_one_it_is_made_from(name: str) -> None:
    tree = ending(files("verifiers", facts(name)), "taskset.py")
    own = {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    imported = {a.asname or a.name for node in tree.body if isinstance(node, ast.ImportFrom) for a in node.names}
    assert not own & imported


@pytest.mark.parametrize(("lifetime_s", "stopped"), [(3600, 3360), (240, 120), (30, 15), (0.5, 1)])
def test_a_rollout_is_stopped_before_its_session_expires(lifetime_s: float, stopped: int) -> None:
    given = replace(facts(), limits=LIMITS | {"lifetime_s": lifetime_s})
    source = ending(files("prime-rl", given), "rl.toml")["orchestrator"]["train"]["source"][0]
    assert source["env"]["agent"]["timeout"]["rollout"] == stopped


def test_models_and_folders_are_read_as_they_were_given() -> None:
    rows = str(Path("/out") / ODD / "rows.jsonl")
    made = files("prime-rl", facts(), model=ODD)
    training, evaluation = ending(made, "rl.toml"), ending(made, "eval.toml")
    assert training["model"]["name"] == evaluation["model"] == ODD
    assert training["orchestrator"]["train"]["source"][0]["env"]["taskset"]["dataset"] == rows
    assert evaluation["env"]["taskset"]["dataset"] == rows
    assert ending(files("verifiers", facts(), model=ODD), "eval.toml")["model"] == ODD
    recipe = ending(files("nemo-rl", facts(), model=ODD), "grpo_odd.yaml")
    assert recipe["policy"]["model_name"] == uninterpolated(ODD)
    assert recipe["data"]["train"]["data_path"] == uninterpolated(rows)
    declared = ending(files("openenv", facts()), "openenv.yaml")["validation"]["capabilities"]
    assert declared["declared_task_count"] == {ODD: 1} and declared["declared_tools"] == ["true"]


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("a/b", "a/b"), ("${x}", r"\${x}"), (r"a\b ${x}", r"a\b \${x}"), (r"\${x}", r"\\\${x}"), ("$x {y}", "$x {y}")],
)
def test_omegaconf_fills_nothing_in(text: str, escaped: str) -> None:
    assert uninterpolated(text) == escaped


def test_what_json_leaves_and_yaml_or_toml_do_not_is_escaped() -> None:
    assert yaml.safe_load(literal({ODD: [ODD]})) == {ODD: [ODD]}
    assert tomllib.loads(f"x = {literal(ODD)}") == {"x": ODD}


def test_a_readmes_commands_hold_what_was_given_as_words() -> None:
    model, url = "a b; $(c) 'd'", "http://h/v1?a=b&c=d"
    chosen: Target = import_module("gymwire.adapters.exports.nemo_gym").TARGET
    made = chosen.export(facts(), Options("0.7.0", Path("/a folder"), model, url, "MY_KEY"))
    text = made.files["README.md"].split("```sh\n")[1].split("\n```\n")[0]
    words = shlex.split(text.replace("\\\n", " "), comments=True)
    assert {f"+policy_model_name={model}", f"+policy_base_url={url}", "+policy_api_key=$MY_KEY"} <= set(words)
    assert "export MY_KEY=..." in files("verifiers", facts(), api_key_var="MY_KEY")["README.md"]


@pytest.mark.parametrize(
    ("root", "said"),
    [
        (HERE, "gymwire serve odd --port 8932"),
        ("http://[::1]:8932", "gymwire serve odd --host ::1 --port 8932"),
        ("https://gym.example/team", "# the server at https://gym.example/team must be running"),
    ],
)
def test_the_readme_serves_what_is_a_server_here(root: str, said: str) -> None:
    for target in ("prime-rl", "nemo-rl", "nemo-gym"):
        assert said in files(target, facts(root=root))["README.md"]
    assert "--token-file FILE" in files("nemo-gym", facts(has_token=True))["README.md"]


def test_a_container_reaches_a_server_of_loopback_and_one_elsewhere() -> None:
    here = files("openenv", facts("Odd", has_token=True))["README.md"]
    assert "docker run --network host -e GYMWIRE_TOKEN gymwire-odd\n" in here
    assert "docker run -p 8000:8000 gymwire-odd\n" in files("openenv", facts(root="https://gym.example"))["README.md"]


def test_a_name_with_a_line_feed_breaks_no_list_and_no_table() -> None:
    for target in TARGETS:
        *_, table = files(target, facts(), model="a\n- b")["README.md"].split("```")
        assert "\n- y: z" not in table and "\n- b" not in table, target


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--base-url", "http://user:secret@host/v1"), "a key does not belong into --base-url"),
        (("--base-url", "host/v1"), "--base-url is no http(s) URL"),
        (("--api-key-var", "sk-secret"), "--api-key-var takes the name of a variable"),
    ],
)
def test_a_key_is_refused_before_it_is_written(options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    assert said in refused("verifiers", HERE, tmp_path / "out", *options)
