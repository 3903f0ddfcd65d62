"""OpenEnv's task routes: which rows there are. Of a row they show its place and its prompt, never its task data.

A task is what a reset takes: `{"split", "index"}`, beside the prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..answers import Code
from ..types import Json, RowError
from .asgi import CODE_HEADERS, JSON_TYPE, FaceContext, Handler, Receive, Scope, Send, read_body, respond, respond_json
from .openenv_http import answering, fixed
from .openenv_reading import forbid_others, invalid, read_object, read_text, whole_number
from .openenv_shapes import encode

TYPES = {"train": "train", "test": "test"}


class NoSuchRow(Exception):
    """Answered 404 for a split, 400 for an index, as upstream does."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.status, self.text = status, text


class Tasks:
    def __init__(self, context: FaceContext) -> None:
        self.context, self.served, self.rows = context, context.served, context.served.rows

    def paths(self) -> dict[str, dict[str, Handler]]:
        splits = [{"name": name, "type": TYPES.get(name, "validation")} for name in self.rows.splits]
        made: dict[str, dict[str, Handler]] = {}
        for name in {self.served.name, self.served.environment.__name__}:
            at = f"{self.context.prefix}/{name}"
            made[f"{at}/splits"] = {"GET": fixed(splits)}
            made[f"{at}/tasks"] = {"POST": self._route(self._tasks, ("split",))}
            made[f"{at}/num_tasks"] = {"POST": self._route(self._num_tasks, ("split",))}
            made[f"{at}/task"] = {"POST": self._route(self._task, ("split", "index"))}
            made[f"{at}/task_range"] = {"POST": self._route(self._task_range, ("split",), ("start", "stop"))}
        return made

    def _route(
        self, look_up: Callable[[Json], Json], needed: tuple[str, ...], optional: tuple[str, ...] = ()
    ) -> Handler:
        async def answer(scope: Scope, receive: Receive, send: Send) -> None:
            text = read_text(await read_body(receive, self.context.max_body_bytes))
            asked = _checked(read_object(text or "{}").plain(), needed, optional)
            try:
                found = await asyncio.to_thread(look_up, asked)
            except NoSuchRow as missing:
                body = {"code": Code.NOT_FOUND.value, "error": missing.text, "detail": missing.text}
                await respond_json(send, body, missing.status, [CODE_HEADERS[Code.NOT_FOUND]])
                return
            await respond(send, 200, encode(found), [JSON_TYPE])

        return answering(answer)

    def _tasks(self, asked: Json) -> Json:
        split = asked["split"]
        found = [self._shown(split, index) for index in range(self._count(split))]
        return {"tasks": found, "env_name": self.served.name}

    def _num_tasks(self, asked: Json) -> Json:
        return {"num_tasks": self._count(asked["split"])}

    def _task(self, asked: Json) -> Json:
        if asked["index"] >= self._count(asked["split"]):
            raise NoSuchRow(400, "Invalid task index")
        return {"task": self._shown(asked["split"], asked["index"])}

    def _task_range(self, asked: Json) -> Json:
        count = self._count(asked["split"])
        start, stop = asked.get("start") or 0, asked.get("stop")
        chosen = range(start, count if stop is None else min(stop, count))
        return {"tasks": [self._shown(asked["split"], index) for index in chosen]}

    def _count(self, split: str) -> int:
        try:
            return self.rows.count(split)
        except RowError as error:
            raise NoSuchRow(404, str(error)) from None

    def _shown(self, split: str, index: int) -> Json:
        return {"split": split, "index": index, "prompt": list(self.rows.get(split, index).prompt)}


def _checked(body: Json, needed: tuple[str, ...], optional: tuple[str, ...]) -> Json:
    forbid_others(body, frozenset((*needed, *optional)), ("body",))
    for name in needed:
        if name not in body:
            raise invalid(("body", name), "Field required", "missing")
    if not isinstance(body["split"], str):
        raise invalid(("body", "split"), "Input should be a string", "string_type", body["split"])
    numbers = {name: whole_number(value, ("body", name)) for name, value in body.items() if _is_number(name, value)}
    return {**body, **numbers}


def _is_number(name: str, value: Any) -> bool:
    return name == "index" or (name in ("start", "stop") and value is not None)
