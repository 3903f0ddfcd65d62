"""An environment that logs wherever its code can run."""

from __future__ import annotations

import asyncio
import logging

from gymwire.servers import Environment, Row, Transcript, tool

logger = logging.getLogger("talkative")
SECRET = "the-hidden-answer"


class Talkative(Environment):
    """Says where it is."""

    splits = ("train",)

    @classmethod
    def rows(cls, split: str, count: int | None, seed: int):
        yield Row()

    def reset(self, row: Row) -> None:
        logger.info("reset")

    @tool
    async def say(self, where: str) -> str:
        """Log something."""
        if where == "in_place":
            logger.info("said %s", where)
        elif where == "in_task":
            await asyncio.sleep(0.001)
            await asyncio.create_task(self._later(where))
        elif where == "started_thread":
            await asyncio.to_thread(logger.info, "said %s", where)
        elif where == "in_thread":
            return self.say_plainly(where)
        else:
            raise RuntimeError(f"cannot say {where}")
        return where

    async def _later(self, where: str) -> None:
        await asyncio.sleep(0)
        logger.info("said %s", where)

    def say_plainly(self, where: str) -> str:
        logger.info("said %s", where)
        return where

    def verify(self, transcript: Transcript) -> float:
        logger.info("verify")
        return 1.0

    async def close(self) -> None:
        logger.info("closed")
