"""Faults of the OpenEnv and MCP wires that take more than a line."""

from __future__ import annotations

import json
from typing import Any

from tests.adapters.doctor.bad_server import Fault, Request, Socket

# ---- sockets


class FirstId(Socket):
    """A reset changes everything but the name."""

    first = ""

    def said(self, text: str) -> str:
        message = json.loads(text)
        if message["type"] == "state" and message["data"]["episode_id"]:
            self.first = self.first or message["data"]["episode_id"]
            message["data"]["episode_id"] = self.first
        return json.dumps(message)


class BeginsAlone(Socket):
    """A step without an episode begins one."""

    begun, silent = False, 0

    def heard(self, text: str) -> list[str]:
        if '"reset"' in text:
            self.begun = True
        if not self.begun and '"step"' in text:
            self.begun, self.silent = True, 1
            return ['{"type": "reset", "data": {"split": "train", "index": 0}}', text]
        return [text]

    def said(self, text: str) -> str | None:
        if self.silent:
            self.silent = 0
            return None
        return text


class Breaks(Socket):
    """A message that is no JSON ends the socket."""

    def said(self, text: str) -> str:
        return "" if "INVALID_JSON" in text else text


class NoPings(Fault):
    ping_s = None


def no_reward_at_the_end(message: dict[str, Any]) -> None:
    if message["data"].get("done") is True:
        message["data"]["reward"] = None


def one_more(message: dict[str, Any]) -> None:
    if message["type"] == "state":
        message["data"]["step_count"] += message["data"]["step_count"] > 1


def text_reward(message: dict[str, Any]) -> None:
    if message["data"].get("reward") is not None:
        message["data"]["reward"] = str(message["data"]["reward"])


def other_code(message: dict[str, Any]) -> None:
    if message["data"].get("code") == "CAPACITY_REACHED":
        message["data"]["code"] = "EXECUTION_ERROR"


# ---- MCP


def no_error(request: Request, result: dict[str, Any]) -> None:
    if result.get("isError") and request.json()["params"].get("name") in ("write", "read"):
        result["isError"] = False


def list_verify(request: Request, result: dict[str, Any]) -> None:
    if "tools" in result:
        schema = {"type": "object", "properties": {}}
        result["tools"].append({"name": "verify", "description": "Score.", "inputSchema": schema})


def any_session(request: Request, result: dict[str, Any]) -> None:
    if (result.get("_meta") or {}).get("gymwire/code") == "session_lost":
        result |= {"isError": False, "_meta": {"gymwire/code": "ok"}}


def show_code(request: Request, result: dict[str, Any]) -> None:
    if result.get("isError"):
        result.setdefault("_meta", {})["debug"] = ["Traceback (most recent call last):\n  File ..."]


def masked_is_zero(request: Request, result: dict[str, Any]) -> None:
    if request.json()["params"].get("name") == "verify" and result.get("isError"):
        zero = json.dumps({"reward": 0.0, "components": {}})
        result |= {"isError": False, "_meta": {}, "content": [{"type": "text", "text": zero}]}
