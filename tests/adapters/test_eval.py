"""`gymwire eval`: a real HTTP endpoint plays real environments; trouble of ours is masked, the policy's is scored."""

from __future__ import annotations

import asyncio
import fcntl
import json
from pathlib import Path

import pytest
from gymwire.adapters.evaluation.results import Folder
from gymwire.adapters.session import WrongRequest
from gymwire.servers.environments.battery import Battery
from gymwire.servers.environments.ledger import Ledger

from tests.adapters.chat_endpoint import Turn, chat_endpoint
from tests.adapters.evaluating import evaluate, lines_in, play, summary
from tests.peers.parts import parts_of, played
from tests.peers.scripted_model import scripted_model
from tests.serving import serving

WIRES = ("local", "nemo-gym", "openenv", "mcp")
ENVIRONMENTS = {"battery": Battery, "ledger": Ledger}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory):
    with serving(tmp_path_factory.mktemp("eval") / "log", *ENVIRONMENTS) as running:
        yield running.url


@pytest.mark.parametrize("wire", WIRES)
@pytest.mark.parametrize("name", ENVIRONMENTS)
def test_the_same_rewards_on_every_wire_as_in_process(name: str, wire: str, served: str, tmp_path: Path) -> None:
    parts = parts_of(ENVIRONMENTS[name], 4)
    own = [outcome.reward for outcome in asyncio.run(played(parts))]
    target = [name] if wire == "local" else [served, "--env", name, "--wire", wire]
    with scripted_model(parts) as model:
        done = evaluate(target[0], f"{model.url}/v1", *target[1:], "-n", "4", "--out", str(tmp_path), "--json")
    assert done.exit_code == 0, done.output
    assert [line["reward"] for line in lines_in(tmp_path)] == own
    assert summary(done)["reward"]["mean"] == pytest.approx(sum(map(float, filter(None, own))) / 4)


# ---- one episode of counter at a time

ADD = ("add", '{"n": 1}')


@pytest.mark.parametrize("stream", ["--stream", "--no-stream"])
def test_parallel_calls_and_results_go_back(stream: str) -> None:
    found, endpoint, _ = play([Turn(calls=[ADD, ("read", "")]), Turn("Done.")], stream)
    assert (found["endings"]["finished"], found["calls"], found["tool_errors"]) == (1, 2.0, 0)
    assert found["tokens"] == {"prompt": 22, "completion": 10, "reasoning": None, "untold": 0}
    said = endpoint.requests[1]["messages"]
    assert [call["function"]["arguments"] for call in said[1]["tool_calls"]] == ['{"n": 1}', "{}"]
    assert [message["tool_call_id"] for message in said[2:]] == ["c0", "c1"]


@pytest.mark.parametrize(
    "call", [("add", '{"n": '), ("add", "[1]"), ("add", '{"n": NaN}'), ("", "{}"), ("no such\ntool", "{}"),
             ("add", '{"n": "\\ud800"}'), ("verify", "{}"), ("add", "[" * 5000)]
)  # fmt: skip
def test_a_hostile_call_is_an_error_result(call: tuple[str, str]) -> None:
    found, endpoint, done = play([Turn(calls=[call]), Turn("Done.")])
    assert done.exit_code == 0, done.output
    assert (found["episodes"]["scored"], found["tool_errors"]) == (1, 1)
    function = endpoint.requests[1]["messages"][1]["tool_calls"][0]["function"]
    assert json.loads(function["arguments"]) is not None and "\n" not in function["name"]


@pytest.mark.parametrize("turn", [Turn(None), Turn(""), Turn("", refusal="No."), Turn("\x00\ud800")])
def test_an_odd_answer_is_an_answer(turn: Turn) -> None:
    found, _, _ = play([turn])
    assert (found["endings"]["finished"], found["refused"]) == (1, int(bool(turn.refusal)))


OVERFLOW = {"error": {"message": "This model's maximum context length is 8 tokens", "code": 400}}


@pytest.mark.parametrize(
    ("turns", "cut_by"),
    [
        ([Turn("half", finish_reason="length")], "tokens"),
        ([Turn(calls=[ADD]), Turn(status=400, body=OVERFLOW)], "context"),
        ([Turn(calls=[ADD])], "turns"),
    ],
)
def test_a_spent_budget_cuts_and_is_scored(turns: list[Turn], cut_by: str) -> None:
    found, _, _ = play(turns)
    assert (found["endings"]["cut"], found["cut_by"]) == (1, {cut_by: 1})
    assert found["reward"]["mean"] is not None


@pytest.mark.parametrize("status", [400, 401, 404])
def test_an_endpoint_that_refuses_stops_the_run_without_telling_the_key(status: int) -> None:
    _, endpoint, done = play([Turn(status=status, body={"error": {"message": "bad key sk-secret"}})])
    assert (done.exit_code, done.stdout) == (2, "")
    assert "bad key [key]" in done.stderr and "sk-secret" not in done.output
    assert endpoint.keys == ["Bearer sk-secret"]


@pytest.mark.parametrize("status", [200, 401, 500])
def test_a_query_of_the_endpoint_is_sent_and_told_nowhere(status: int, tmp_path: Path) -> None:
    with chat_endpoint(lambda body, number: Turn("Done.", status=status, body={})) as endpoint:
        url = f"{endpoint.url}?version=1&code=s3cret"
        done = evaluate("counter", url, "-n", "1", "--retries", "0", "--out", str(tmp_path))
    assert endpoint.queries == ["version=1&code=s3cret"], done.output
    assert "s3cret" not in done.output + "".join(file.read_text() for file in tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--solved", "nan"), "--solved and --temperature are finite numbers"),
        (("--temperature", "inf"), "--solved and --temperature are finite numbers"),
        (("--extra-body", '{"top_k": NaN}'), "--extra-body is no JSON: NaN is not a JSON value"),
        (("--api-key-env", "BROKEN_KEY"), "the key in BROKEN_KEY holds a line break or another control character"),
    ],
)
def test_what_cannot_be_sent_is_one_sentence(
    options: tuple[str, ...], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BROKEN_KEY", "sk-se\ncret")
    done = evaluate("counter", "http://127.0.0.1:9/v1", "-n", "1", *options)
    assert (done.exit_code, done.stderr) == (2, f"gymwire: {sentence}\n")


def test_more_repeats_than_can_be_counted_are_refused() -> None:
    done = evaluate("counter", "http://127.0.0.1:9/v1", "-n", "1", "-k", "1" + "0" * 30)
    assert done.exit_code == 2 and "1000000" in done.stderr


#: What a row's prompt may hold in the place of an assistant's calls.
NO_CALLS = ["x", ["x", 5, None, {}], [{"function": "add"}], {"function": {"name": "add"}}, 5]


@pytest.mark.parametrize("parser", ["none", "auto"])
@pytest.mark.parametrize("calls", NO_CALLS, ids=json.dumps)
def test_what_are_no_calls_in_a_prompt_is_left_out(calls: object, parser: str, tmp_path: Path) -> None:
    said = [{"role": "assistant", "content": "I see.", "tool_calls": calls}, {"role": "user", "content": "Go on."}]
    file = tmp_path / "rows"
    file.write_text(json.dumps({"responses_create_params": {"input": said}, "start": 1, "target": 1}))
    with chat_endpoint(lambda body, number: Turn("Done.")) as endpoint:
        options = ("--rows", str(file), "--tool-parser", parser, "--out", str(tmp_path / "run"))
        done = evaluate("counter", endpoint.url, *options)
    assert done.exit_code == 0, done.output
    assert endpoint.requests[0]["messages"][-2] == {"role": "assistant", "content": "I see."}
    assert "I see." in (tmp_path / "run" / "report.html").read_text()


def test_reasoning_reaches_neither_the_grader_nor_the_next_request() -> None:
    turns = [Turn("<think>a plan</think>", reasoning="thought", calls=[ADD]), Turn("Done.")]
    _, endpoint, _ = play(turns)
    assert "plan" not in json.dumps(endpoint.requests[1]) and "thought" not in json.dumps(endpoint.requests[1])


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        ("hermes", '<tool_call>{"name": "add", "arguments": {"n": 1}}</tool_call>'),
        ("auto", '<tool_call>{"name": "add", "arguments": {"n": 1}}</tool_call>'),
        ("auto", "<tool_call><function=add><parameter=n>1</parameter></function></tool_call>"),
        ("xml", "<function=add><parameter=n>1</parameter></function>"),
    ],
)
def test_calls_are_read_from_text(parser: str, text: str) -> None:
    found, endpoint, _ = play([Turn(text), Turn("Done.")], "--tool-parser", parser)
    assert (found["calls"], found["tool_errors"]) == (1.0, 0)
    assert "tools" not in endpoint.requests[0] and '"add"' in endpoint.requests[0]["messages"][0]["content"]
    assert endpoint.requests[1]["messages"][-1]["content"].startswith("<tool_response>")


# ---- resuming and comparing


def test_a_run_goes_on_and_failed_episodes_are_played_again_when_asked(tmp_path: Path) -> None:
    broken = [True]
    answers = {True: Turn(status=500, body="oops"), False: Turn("Done.")}
    with chat_endpoint(lambda body, number: answers[broken[0]]) as endpoint:
        options = ("-n", "1", "--out", str(tmp_path), "--json")
        evaluate("counter", endpoint.url, *options, "--retries", "0")
        broken[0] = False
        kept = evaluate("counter", endpoint.url, *options)
        assert (kept.exit_code, len(endpoint.requests)) == (3, 1)
        with (tmp_path / "results.jsonl").open("a") as file:
            file.write('{"row": 0, "repe')  # a process died while it wrote
        again = evaluate("counter", endpoint.url, *options, "--retry-failed")
    assert (again.exit_code, summary(again)["episodes"]["scored"]) == (0, 1)
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 1


def test_one_folder_has_one_writer_even_while_its_file_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second run opens the file, and the first one puts another in its place before the second holds it."""
    first, second = Folder(tmp_path), Folder(tmp_path)
    first.open()
    with pytest.raises(WrongRequest, match="another evaluation writes into"):
        second.open()
    hold = fcntl.flock

    def replaced(file: object, how: int) -> None:
        monkeypatch.setattr(fcntl, "flock", hold)
        first.keep(drop_failed=False)
        hold(file, how)

    monkeypatch.setattr(fcntl, "flock", replaced)
    with pytest.raises(WrongRequest, match="another evaluation writes into"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_a_folder_is_held_until_its_last_word_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write, said = Folder.write, []

    def tried(folder: Folder, name: str, text: str) -> None:
        write(folder, name, text)
        with pytest.raises(WrongRequest, match="another evaluation writes into"):
            Folder(tmp_path).open()
        said.append(name)

    monkeypatch.setattr(Folder, "write", tried)
    play([Turn("Done.")], "--out", str(tmp_path))
    assert said[-3:] == ["manifest.json", "summary.json", "report.html"]
    after = Folder(tmp_path)
    after.open()
    after.close()


def test_settings_that_differ_are_named(tmp_path: Path) -> None:
    with chat_endpoint(lambda body, number: Turn("Done.")) as endpoint:
        first = evaluate("counter", endpoint.url, "-n", "1", "--out", str(tmp_path))
        other = evaluate("counter", endpoint.url, "-n", "1", "--out", str(tmp_path), "--temperature", "0.5")
        more = evaluate("counter", endpoint.url, "-n", "2", "-k", "2", "--out", str(tmp_path), "--json")
        both = evaluate("counter", endpoint.url, "-n", "2", "--compare", str(tmp_path), "--json")
    assert (first.exit_code, other.exit_code) == (0, 2) and "sampling" in other.stderr
    assert summary(more)["episodes"]["scored"] == 4 and len(endpoint.requests) == 6
    assert summary(both)["comparison"]["paired"]["ties"] == 2


def test_the_report_reaches_for_nothing_and_escapes_what_models_say(tmp_path: Path) -> None:
    play([Turn("</pre><script>alert(1)</script>")], "--out", str(tmp_path))
    text = (tmp_path / "report.html").read_text()
    assert "<script>alert" not in text and "&lt;script&gt;alert(1)" in text
    assert "http://" not in text.split("<details>")[0] and "default-src 'none'" in text
    assert "<title>0 to 0: 1</title>" in text, "the one reward in its histogram"
