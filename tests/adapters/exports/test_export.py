"""What every export promises: rows that play, a README, nothing overwritten, one sentence for every wrong call."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from gymwire.adapters.connect import connect
from gymwire.adapters.endpoint import EnvironmentInfo
from gymwire.adapters.exports import openenv
from gymwire.adapters.exports.facts import Facts
from gymwire.adapters.exports.target import Options
from gymwire.servers.environments.battery import Battery
from gymwire.servers.policies import Call
from gymwire.servers.rows import generated_lines
from gymwire.servers.types import PARAMS_KEY, PLACE_KEY, Row
from yarl import URL

from tests.adapters.exports.command import exported, gymwire_export, keys_of, refused, rows_of, toml, yaml_of
from tests.peers.parts import parts_of, played
from tests.serving import free_port, serving

TARGETS = ("prime-rl", "nemo-rl", "nemo-gym", "verifiers", "openenv")
ROWS = {
    "prime-rl": "rows.jsonl",
    "nemo-rl": "rows.jsonl",
    "nemo-gym": "resources_servers/gymwire_battery/data/rows.jsonl",
    "verifiers": "gymwire_battery/rows.jsonl",
}
DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory):
    with serving(tmp_path_factory.mktemp("exports") / "log", "battery", "ledger", "--max-sessions", "40") as running:
        yield running.url


@pytest.fixture(scope="module")
def folders(served: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """battery, exported for everybody."""
    at = tmp_path_factory.mktemp("folders")
    few = {target: () if target == "openenv" else ("--count", "3") for target in TARGETS}
    return {target: exported(target, f"{served}/battery", at / target, *few[target]) for target in TARGETS}


# ---- rows


@pytest.mark.parametrize("target", ROWS)
async def test_rows_of_a_server_show_what_the_policy_sees_and_no_task_data(target: str, folders) -> None:
    rows = rows_of(folders[target] / ROWS[target])
    assert [row[PLACE_KEY] for row in rows] == [{"split": "train", "index": index} for index in range(3)]
    own = [part.to_json() for part in parts_of(Battery, 3)]
    assert [row[PARAMS_KEY] for row in rows] == [row[PARAMS_KEY] for row in own]
    assert {key for row in rows for key in row} <= {PARAMS_KEY, PLACE_KEY, "agent_ref"}


@pytest.mark.parametrize("wire", ["nemo-gym", "openenv", "mcp"])
async def test_such_a_row_plays_as_the_servers_own_on_every_wire(wire: str, folders, served: str) -> None:
    row = rows_of(folders["verifiers"] / ROWS["verifiers"])[1]
    part = parts_of(Battery, 3)[1]
    (own,) = await played([part])
    async with connect(served, env="battery", wire=wire) as env, env.session(row=row) as session:
        texts: list[str] = []
        while isinstance(move := part.move(texts), Call):
            texts.append((await session.call(move.name, move.arguments)).text)
        outcome = await session.verify([{"role": "assistant", "content": move}])
    assert outcome.reward == own.reward


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"split": "train", "index": 10**9}, "no row"),
        ({"split": "dev", "index": 0}, "no split 'dev'"),
        ({"split": "train"}, "`gymwire_row` is an object with `split` and `index`"),
        ({"split": "train", "index": True}, "`gymwire_row` is an object with `split` and `index`"),
        ("train.1", "`gymwire_row` is an object with `split` and `index`"),
    ],
)
async def test_a_place_that_is_none_is_refused(place: Any, said: str, served: str) -> None:
    row = {PARAMS_KEY: {"input": "x"}, PLACE_KEY: place}
    async with connect(served, env="battery") as env:
        with pytest.raises(ValueError, match=said):
            await env.session(row=row)


def test_a_row_with_data_beside_its_place_stands_for_itself() -> None:
    assert Row.of("x", gymwire_row={"split": "train", "index": 1}, answer=3).place() is None


@pytest.mark.parametrize("target", ROWS)
def test_rows_of_a_file_are_written_whole(target: str, served: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_bytes(b"".join(generated_lines(Battery, "eval", 5)))
    out = exported(target, f"{served}/battery", tmp_path / "out", "--rows", str(file), "--count", "4")
    rows = [{key: row[key] for key in row if key != "agent_ref"} for row in rows_of(out / ROWS[target])]
    assert rows == rows_of(file)[:4]
    assert "mine.jsonl" in (out / "README.md").read_text()


def test_a_row_that_names_no_tools_gets_the_servers(served: str, tmp_path: Path) -> None:
    (raw,) = (json.loads(line) for line in generated_lines(Battery, "eval", 1))
    tools = raw[PARAMS_KEY].pop("tools")
    (tmp_path / "bare.jsonl").write_text(json.dumps(raw))
    out = exported("verifiers", f"{served}/battery", tmp_path / "out", "--rows", str(tmp_path / "bare.jsonl"))
    assert rows_of(out / ROWS["verifiers"])[0][PARAMS_KEY]["tools"] == tools


def test_looking_at_rows_leaves_no_session_behind(served: str, tmp_path: Path) -> None:
    from urllib.request import urlopen

    exported("verifiers", f"{served}/ledger", tmp_path / "out", "--split", "eval", "--count", "60")
    with urlopen(f"{served}/metrics") as answer:
        metrics = answer.read().decode()
    assert "gymwire_slots_free 40.0" in metrics
    own = [line for line in metrics.splitlines() if line.startswith('gymwire_sessions{environment="ledger"')]
    assert all(line.endswith(" 0.0") for line in own)


# ---- what is written


@pytest.mark.parametrize("target", TARGETS)
def test_each_has_a_readme_with_commands_and_what_happens_without_a_setting(target: str, folders) -> None:
    text = (folders[target] / "README.md").read_text()
    assert "| setting | value | what happens without it |" in text
    assert "```sh\n" in text and "(40 sessions at once)" in text
    table = [line for line in text.splitlines() if line.startswith("| `")]
    assert len(table) >= 5
    assert all(line.count("|") == 4 and all(cell.strip() for cell in line.split("|")[1:-1]) for line in table)


@pytest.mark.parametrize("target", TARGETS)
def test_nothing_written_needs_gymwire_and_no_place_of_a_template_is_left(target: str, folders) -> None:
    for file in (path for path in folders[target].rglob("*") if path.is_file()):
        text = file.read_text()
        assert "@@" not in text, file
        if file.suffix == ".py":
            tree = ast.parse(text)
            found = [node.names[0].name for node in ast.walk(tree) if isinstance(node, ast.Import)]
            found += [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
            assert not [name for name in found if name.split(".")[0] == "gymwire"], file


@pytest.mark.parametrize("version", ["0.10.0", "0.9"])
def test_prime_rls_keys_are_those_of_the_version(version: str, served: str, tmp_path: Path) -> None:
    out = exported("prime-rl", f"{served}/battery", tmp_path / "out", "--count", "1", "--target-version", version)
    config = toml(out / "rl.toml")
    for source in config["orchestrator"]["train"]["source"]:
        del source["env"]  # verifiers' models check it, in tests/peers
    assert keys_of(config) == set(json.loads((DATA / "prime_rl_keys.json").read_text())[version])


def test_prime_rls_numbers_come_from_the_server(folders, served: str) -> None:
    config = toml(folders["prime-rl"] / "rl.toml")
    orchestrator = config["orchestrator"]
    env = orchestrator["train"]["source"][0]["env"]
    assert orchestrator["concurrency"]["max_inflight"] == 35  # of 40 places
    assert orchestrator["train"]["group_size"] <= 35
    assert orchestrator["batch_size"] % orchestrator["train"]["group_size"] == 0
    assert env["taskset"]["task"]["resources_url"] == f"{served}/battery/gym"
    assert env["taskset"]["task"]["headers"] == {"X-Gymwire-Masked": "error"}
    assert env["taskset"]["task"]["request_timeout"] > 45  # the queue
    assert env["agent"]["timeout"]["setup"] > env["taskset"]["task"]["request_timeout"]
    assert env["agent"]["timeout"]["rollout"] < 3600  # a session's lifetime
    assert env["agent"]["max_turns"] == Battery.max_turns
    assert config["inference"]["server"]["port"] == 8000


def test_a_server_of_one_place_gets_a_group_of_one(tmp_path: Path) -> None:
    with serving(tmp_path / "log", "battery", "--max-sessions", "1") as running:
        config = toml(exported("prime-rl", running.url, tmp_path / "out", "--count", "2") / "rl.toml")
        recipe = yaml_of(exported("nemo-rl", running.url, tmp_path / "rl", "--count", "2") / "grpo_battery.yaml")
    assert config["orchestrator"]["concurrency"]["max_inflight"] == 1
    assert config["orchestrator"]["train"]["group_size"] == 1
    assert recipe["grpo"]["num_prompts_per_step"] * recipe["grpo"]["num_generations_per_prompt"] == 1


@pytest.mark.parametrize(
    ("model", "renderer", "parser"),
    [
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3", "hermes"),
        ("PrimeIntellect/Qwen3-0.6B-Reverse-Text-SFT", "prime-qwen3", "hermes"),
        ("Qwen/Qwen3.5-9B", "qwen3.5", "qwen3_coder"),
        ("openai/gpt-oss-20b", "gpt-oss", "openai"),
    ],
)
def test_renderer_and_parser_are_the_models(model: str, renderer: str, parser: str, served: str, tmp_path) -> None:
    out = exported("prime-rl", f"{served}/battery", tmp_path / "out", "--count", "1", "--model", model)
    config = toml(out / "rl.toml")
    assert config["model"]["name"] == model
    assert config["orchestrator"]["renderer"]["name"] == renderer
    assert config["inference"]["vllm"]["tool_call_parser"] == parser


def test_an_unknown_model_is_said_to_be_one(served: str, tmp_path: Path) -> None:
    done = gymwire_export("prime-rl", f"{served}/battery", tmp_path / "out", "--count", "1", "--model", "me/mine")
    assert done.exit_code == 0
    assert "No renderer is known for me/mine" in done.stderr
    assert "inference.vllm" not in (tmp_path / "out" / "rl.toml").read_text()


@pytest.mark.parametrize("version", ["main", "2025"])
def test_nemo_rls_keys_are_those_of_the_version(version: str, served: str, tmp_path: Path) -> None:
    out = exported("nemo-rl", f"{served}/battery", tmp_path / "out", "--count", "1", "--target-version", version)
    config = yaml_of(out / "grpo_battery.yaml")
    agent = config["env"]["nemo_gym"].pop("gymwire_battery_simple_agent")
    assert agent == {"responses_api_agents": {"simple_agent": {"max_steps": Battery.max_turns}}}
    assert keys_of(config) == set(json.loads((DATA / "nemo_rl_keys.json").read_text())[version])
    assert {row["agent_ref"]["name"] for row in rows_of(out / "rows.jsonl")} == {"gymwire_battery_simple_agent"}
    (_, own) = config["env"]["nemo_gym"]["config_paths"]
    assert "gymwire_battery_simple_agent" in yaml_of(out / own)


def test_nemo_gym_of_old_has_no_environment_server(served: str, tmp_path: Path) -> None:
    name = "resources_servers/gymwire_battery/configs/gymwire_battery.yaml"
    new = exported("nemo-gym", f"{served}/battery", tmp_path / "new", "--count", "1")
    old = exported("nemo-gym", f"{served}/battery", tmp_path / "old", "--count", "1", "--target-version", "0.4.0")
    assert yaml_of(new / name).keys() - yaml_of(old / name).keys() == {"gymwire_battery_environment_server"}


# ---- a token


def test_no_token_is_written_anywhere(tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("a-secret-of-at-least-sixteen-characters\n")
    with serving(tmp_path / "log", "battery", "--token-file", str(tmp_path / "tokens")) as running:
        assert "asks for a token" in refused("prime-rl", running.url, tmp_path / "none")
        for target in TARGETS:
            options = () if target == "openenv" else ("--count", "1")
            out = tmp_path / target
            exported(target, running.url, out, *options, "--token", "a-secret-of-at-least-sixteen-characters")
            assert not [file for file in out.rglob("*") if file.is_file() and "a-secret" in file.read_text()]
    assert "cannot name a variable" in (tmp_path / "prime-rl" / "README.md").read_text()


def test_a_token_that_nobody_asks_for_is_not_spoken_of(served: str, tmp_path: Path) -> None:
    options = ("--count", "1", "--token", "a-secret-of-at-least-sixteen-characters")
    out = exported("prime-rl", f"{served}/battery", tmp_path / "out", *options)
    said = (out / "README.md").read_text()
    assert "asks for a token" not in said and "--token-file" not in said


# ---- the folder


def test_what_exists_is_not_overwritten_without_force(served: str, tmp_path: Path) -> None:
    out = exported("verifiers", f"{served}/battery", tmp_path / "out", "--count", "1")
    (out / "eval.toml").write_text("mine")
    (out / "notes").write_text("kept")
    assert "--force" in refused("verifiers", f"{served}/battery", out, "--count", "1")
    assert (out / "eval.toml").read_text() == "mine"
    exported("verifiers", f"{served}/battery", out, "--count", "2", "--force")
    assert (out / "eval.toml").read_text() != "mine" and (out / "notes").read_text() == "kept"
    assert len(rows_of(out / ROWS["verifiers"])) == 2


def test_an_empty_folder_is_filled_and_a_file_is_in_the_way(served: str, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    exported("openenv", f"{served}/battery", tmp_path / "empty")
    (tmp_path / "file").write_text("")
    assert "is no folder" in refused("openenv", f"{served}/battery", tmp_path / "file")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "file"]


def test_a_folder_that_cannot_be_written_whole_keeps_no_parts(served: str, tmp_path: Path) -> None:
    (tmp_path / "out" / "README.md").mkdir(parents=True)
    assert "cannot be written" in refused("openenv", f"{served}/battery", tmp_path / "out", "--force")
    assert not [path for path in (tmp_path / "out").rglob("*") if path.name.endswith(".part")]


def test_what_is_no_utf_8_ends_with_one_sentence(served: str, tmp_path: Path) -> None:
    wrong = refused("prime-rl", f"{served}/battery", tmp_path / "out", "--count", "1", "--model", "a\udcff")
    assert "is no UTF-8" in wrong
    assert not list(tmp_path.iterdir())


def test_how_many_rows_are_wanted_is_said_as_elsewhere(served: str, tmp_path: Path) -> None:
    out = exported("verifiers", f"{served}/battery", tmp_path / "out", "-n", "2")
    assert len(rows_of(out / ROWS["verifiers"])) == 2
    assert "2 rows, from" in (out / "README.md").read_text()


# ---- wrong calls


@pytest.mark.parametrize(
    ("target", "path", "options", "said"),
    [
        ("verl", "/battery", (), "there is no target 'verl'; the targets are: prime-rl, nemo-rl, nemo-gym"),
        ("verifiers", "/battery", ("--split", "dev"), "battery has no split 'dev' (it has: train, eval)"),
        ("verifiers", "/battery", ("--split", "train", "--rows", "x"), "two sources of rows"),
        ("verifiers", "/battery", ("--rows", "nowhere.jsonl"), "nowhere.jsonl: cannot be read"),
        ("verifiers", "/battery", ("--target-version", "9"), "for verifiers there are 0.4.0"),
        ("openenv", "/battery", ("--count", "3"), "openenv needs no rows"),
        ("verifiers", "", (), "serves several environments; name one with env= (--env): battery, ledger"),
        ("verifiers", "/bat", (), "Did you mean 'battery'?"),
    ],
)
def test_a_wrong_call_ends_with_one_sentence(target, path, options, said, served: str, tmp_path: Path) -> None:
    assert said in refused(target, served + path, tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_who_does_not_answer_and_who_is_no_gymwire_server(tmp_path: Path) -> None:
    assert "is the server running?" in refused("verifiers", f"http://127.0.0.1:{free_port()}", tmp_path / "out")


@pytest.mark.parametrize("face", ["/battery/gym", "/battery/openenv", "/battery/mcp", "/battery"])
def test_any_url_of_the_environment_will_do(face: str, served: str, tmp_path: Path) -> None:
    out = exported("verifiers", served + face, tmp_path / "out", "--count", "1")
    assert toml(out / "eval.toml")["env"]["taskset"]["task"]["resources_url"] == f"{served}/battery/gym"


def test_what_a_shell_or_a_file_of_settings_would_misread_is_quoted(served: str, tmp_path: Path) -> None:
    url, out = f"{served}/battery".replace("://", "://user:secret@"), tmp_path / "a folder"
    exported("prime-rl", url, out, "--count", "2", "--model", 'a"b\nc')
    assert toml(out / "rl.toml")["model"]["name"] == 'a"b\nc'
    text = "".join(file.read_text() for file in out.iterdir())
    assert f"rl @ '{out}'/rl.toml" in text and "secret" not in text


def test_a_server_for_one_session_is_said_to_teach_nothing(tmp_path: Path) -> None:
    with serving(tmp_path / "log", "battery", "--max-sessions", "1") as running:
        done = gymwire_export("prime-rl", running.url, tmp_path / "out", "--count", "1")
    assert done.exit_code == 0 and "nothing is learned" in done.stderr


def test_the_name_of_a_split_ends_no_text_of_the_client() -> None:
    split = 'held"""out\\'
    info = EnvironmentInfo(name="odd", splits={split: 1}, wires={"openenv": "/odd/openenv", "nemo-gym": "/odd/gym"})
    limits = {"lifetime_s": 60, "queue_timeout_s": 5, "max_sessions": 4}
    made = openenv.export(
        Facts(URL("http://127.0.0.1:8200"), info, limits, [], "", False), Options("0.10.0", Path("/out"))
    )
    (client,) = (text for path, text in made.files.items() if path.endswith("client.py"))
    described = ast.get_docstring(ast.parse(client))
    assert described is not None and f'split="{split}"' in described
