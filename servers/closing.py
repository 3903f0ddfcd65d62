"""Closing environments: beside whatever goes on, always once, and never in the way of it."""

from __future__ import annotations

import asyncio
import inspect
import logging

from . import running
from .context import About, working_for
from .environment import Environment

logger = logging.getLogger("gymwire.sessions")
_closing: set[asyncio.Task[None]] = set()


def close_soon(threads: running.Threads, environment: Environment | None, about: About) -> None:
    """Begin an environment's `close`, where it has one."""
    if environment is None or type(environment).close is Environment.close:
        return
    task = asyncio.get_running_loop().create_task(_close(threads, environment, about))
    _closing.add(task)
    task.add_done_callback(_closing.discard)


async def _close(threads: running.Threads, environment: Environment, about: About) -> None:
    """What goes wrong in a `close` is logged and changes nothing."""
    is_async = inspect.iscoroutinefunction(type(environment).close)
    with working_for(about):
        try:
            await running.call(threads, environment.close, is_async=is_async, timeout_s=environment.tool_timeout_s)
        except BaseException as error:
            if running.ends_task(error):
                raise
            logger.exception("session %s: close failed", about.session_id)


async def closing_done(timeout_s: float) -> None:
    """Wait until every `close` that was begun has ended; at the limit say how many have not."""
    deadline = asyncio.get_running_loop().time() + timeout_s
    while _closing and (left_s := deadline - asyncio.get_running_loop().time()) > 0:
        await asyncio.wait(_closing, timeout=left_s)
    if _closing:
        logger.warning("%d environments have not closed within %g s", len(_closing), timeout_s)
