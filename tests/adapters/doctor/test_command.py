"""The command: exit status, table, JSON, JUnit's XML, and one sentence where nothing can be said."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path
from xml.etree import ElementTree

import pytest
from gymwire.adapters.doctor.promises import PROMISES

from tests.adapters.doctor.bad_server import Answer, Ask, Fault, Request, standing
from tests.adapters.doctor.faults import FAULTS
from tests.serving import free_port

NAN = next(planted for planted in FAULTS if planted.name == "reward is NaN")


def check(*arguments: str) -> tuple[int, str, str]:
    plain = {**os.environ, "COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
    command = [sys.executable, "-m", "gymwire.servers.cli", "check", *arguments]
    done = subprocess.run(command, input="", capture_output=True, text=True, timeout=60, env=plain)
    return done.returncode, done.stdout, done.stderr


def test_a_broken_promise_is_told_with_evidence_and_fix(tmp_path: Path) -> None:
    file = tmp_path / "check.xml"
    with standing(NAN.make()) as url:
        status, shown, _ = check(url, "--only", "reward", "--only", "shapes", "--junit", str(file))
    assert status == 1
    for part in ("fail", "reward is nan", "< HTTP 200", '"reward": NaN', "fix: Answer a float", "1 pass, 1 fail"):
        assert part in shown
    suite = ElementTree.parse(file).getroot()
    assert (suite.get("tests"), suite.get("failures"), suite.get("errors")) == ("2", "1", "0")
    failure = suite.find("./testcase[@name='reward']/failure")
    assert failure is not None and failure.text is not None and "NaN" in failure.text


def test_data_goes_to_standard_output_alone() -> None:
    with standing(Fault()) as url:
        status, shown, _ = check(url, "--json", "--only", "reward", "--only", "token")
    found = json.loads(shown)
    assert status == 0 and found["ok"] is True and found["wire"] == "nemo-gym"
    assert {item["name"]: item["verdict"] for item in found["promises"]} == {
        "reward": "pass",
        "token": "not applicable",
    }


def test_what_a_broken_promise_said_is_in_the_data() -> None:
    with standing(NAN.make()) as url:
        status, shown, _ = check(url, "--json", "--only", "reward")
    (finding,) = json.loads(shown)["promises"]
    assert status == 1 and finding["evidence"] and finding["fix"] == PROMISES["reward"].fix


def test_no_session_stays_open() -> None:
    with standing(Fault()) as url:
        status, _, _ = check(url, "--sessions", "8")
        assert status == 0
        free = _free_places(url)
    assert free == 1024


def _free_places(url: str) -> int:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"{url}/metrics", timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    return int(float(next(line.split()[1] for line in lines if line.startswith("gymwire_slots_free "))))


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ((f"http://127.0.0.1:{free_port()}",), "nothing answers at"),
        (("http://127.0.0.1:1", "--only", "politeness"), "there is no promise 'politeness'"),
        (("ftp://somewhere",), "is no URL of a server"),
        (("http://127.0.0.1:1", "--wire", "local"), "no wire 'local'; the wires are: nemo-gym, openenv, mcp."),
        (("http://me:secret@127.0.0.1:1", "--token", "sesame"), "give one of the two"),
        (("http://127.0.0.1:1", "--seconds", "nan"), "more than 0"),
        (("http://127.0.0.1:1", "--max-p95", "0"), "more than 0"),
        (("http://127.0.0.1:1", "--rows", "no_such_file.jsonl"), "no_such_file.jsonl"),
        (("http://127.0.0.1:1", "--call", "write {"), "--call 'write {'"),
        ((), "which server?"),
    ],
)
def test_what_cannot_be_examined_is_one_sentence(arguments: tuple[str, ...], part: str) -> None:
    status, shown, said = check(*arguments)
    assert (status, shown) == (2, "")
    assert part in said and said.count("\n") == 1


def test_a_call_of_a_tool_that_does_not_exist_is_refused() -> None:
    with standing(Fault()) as url:
        status, shown, said = check(url, "--only", "reward", "--call", "wriet {}")
    assert (status, shown) == (2, "")
    assert "offers no tool 'wriet'; it has: " in said and said.count("\n") == 1


def test_a_server_of_others_must_be_told_what_it_speaks() -> None:
    class Mute(Fault):
        """Does not say what it serves."""

        async def http(self, request: Request, ask: Ask) -> Answer:
            answer = await ask(request)
            if request.path == "/environments":
                answer.status = 404
            return answer

    with standing(Mute()) as url:
        status, _, said = check(f"{url}/desk/gym")
        assert status == 2 and "say what it speaks with --wire" in said
        status, _, said = check(f"{url}/desk/gym", "--wire", "nemo-gym")
        assert status == 2 and "--rows FILE" in said


def test_a_wrong_token_is_one_sentence() -> None:
    class Closed(Fault):
        tokens = ("sesame",)

    with standing(Closed()) as url:
        assert check(url, "--only", "token", "--token", "sesame")[0] == 0
        status, _, said = check(url, "--token", "open")
    assert status == 2 and "does not accept this token" in said


TOKEN = "open-sesame-7281"
#: Ends a line, colours it, names the window; half a character; what XML is made of.
CONTROLS = "\r\x1b[31m\x1b]0;mine\x07\x00\x9b\ud800 <b>&]]>"


class Echoes(Fault):
    """Tells everybody what it was asked with, in characters that do more than be read, and differently every time."""

    tokens = (TOKEN,)

    def __init__(self) -> None:
        self.asked = 0

    async def http(self, request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if request.path.endswith(("/write", "/mcp")) and b"write" in request.body + request.path.encode():
            self.asked += 1
            told = f"{CONTROLS} {self.asked} {'x' * 260}{request.headers['authorization']}"
            if request.path.endswith("/write"):
                return answer.say(json.dumps(told))
            body = answer.json()
            if "content" in body.get("result", {}):
                body["result"]["content"] = [{"type": "text", "text": told}]
            return answer.say(body)
        return answer


@pytest.mark.parametrize("wire", ["nemo-gym", "mcp"])
def test_no_report_shows_the_token_or_obeys_the_server(wire: str, tmp_path: Path) -> None:
    file = tmp_path / "check.xml"
    arguments = ("--wire", wire, "--token", TOKEN, "--only", "repeatable", "--only", "shapes")
    with standing(Echoes()) as url:
        status, shown, said = check(url, *arguments)
        data_status, data, data_said = check(url, *arguments, "--json", "--junit", str(file))
    assert status == data_status == 1
    found = {item["name"]: item for item in json.loads(data)["promises"]}
    assert found["repeatable"]["verdict"] == "fail" and found["repeatable"]["evidence"]
    assert ElementTree.parse(file).getroot().get("failures") == "1"
    for text in (shown, said, data, data_said, file.read_text()):
        assert TOKEN not in text and TOKEN[:8] not in text
        assert not any(character in text for character in "\r\x1b\x07\x00\x9b")


class Withholds(Fault):
    """Begins every session, and answers from the third seed on only when somebody gave up before."""

    def __init__(self) -> None:
        self.seeds, self.waits, self.is_over = 0, threading.Event(), threading.Event()

    async def http(self, request: Request, ask: Ask) -> Answer:
        answer = await ask(request)
        if b"seed_session" in request.path.encode() + request.body and not self.is_over.is_set():
            self.seeds += 1
            if self.seeds > 6:
                self.waits.set()
                await asyncio.to_thread(self.is_over.wait)
        return answer


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("wire", ["nemo-gym", "mcp"])
def test_an_interrupted_examination_gives_back_also_what_was_never_answered(wire: str, number: int) -> None:
    fault = Withholds()
    with standing(fault) as url:
        command = [sys.executable, "-m", "gymwire.servers.cli", "check", url, "--wire", wire, "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            assert fault.waits.wait(60)
            process.send_signal(number)
            fault.is_over.set()
            shown, said = process.communicate(timeout=60)
        free = _free_places(url)
    assert (process.returncode, shown, free) == (130, "", 1024)
    assert "interrupted" in said and "Traceback" not in said


def test_list_names_every_promise() -> None:
    status, shown, _ = check("--list")
    assert status == 0
    assert [line.split()[0] for line in shown.splitlines()] == list(PROMISES)
