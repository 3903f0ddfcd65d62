"""A dialogue as token ids that are only ever appended: what the policy sampled, and what was put between.

Sampled ids stay as they were sampled and are never made from text again. Everything else comes from the model's own
chat template (see `templates`), carries no loss, and has log-probability 0.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..adapters.calls import ParsedTurn
from ..servers.types import Json, Message, Tool
from .encoding import TemplateError
from .templates import ChatTemplate

__all__ = ["ChatTemplate", "Dialogue", "TemplateError"]


class Dialogue:
    """One episode's ids. `sampled` is 1 where the policy chose the token, else 0."""

    def __init__(self, template: ChatTemplate, messages: Sequence[Message], tools: Sequence[Tool | Json] = ()) -> None:
        template.require(tools=bool(tools), user_turns=False)
        self.template = template
        self.tools = [tool if isinstance(tool, Tool) else Tool.from_any(tool) for tool in tools]
        self.prompt_ids = template.prompt(messages, self.tools)
        self.completion_ids: list[int] = []
        self.sampled: list[int] = []
        self.logprobs: list[float] = []

    @property
    def ids(self) -> list[int]:
        """The whole dialogue, as the next turn's prompt."""
        return self.prompt_ids + self.completion_ids

    @property
    def turn_ended(self) -> bool:
        """Whether the last id ends a sampled turn, so that messages may follow."""
        return bool(self.sampled) and self.sampled[-1] == 1 and self.completion_ids[-1] in self.template.stop_token_ids

    def append_sampled(self, ids: Sequence[int], logprobs: Sequence[float]) -> str:
        """A turn as the engine sampled it, the id that ended it included; answers its text."""
        if len(ids) != len(logprobs):
            raise ValueError(f"{len(ids)} sampled ids have {len(logprobs)} log-probabilities")
        self.completion_ids += ids
        self.sampled += [1] * len(ids)
        self.logprobs += logprobs
        return self.template.text(ids)

    def parse(self, text: str) -> ParsedTurn:
        """What a turn says and which calls it makes, in the form in which this model writes calls."""
        return self.template.parse(text, self.tools)

    def between(self, messages: Sequence[Message]) -> list[int]:
        """The ids that `append_messages` would append."""
        if any(message["role"] != "tool" for message in messages):
            self.template.require(tools=False, user_turns=True)
        return self.template.between(messages)

    def append_messages(self, messages: Sequence[Message], *, room: int | None = None) -> list[int]:
        """Tool results or the next prompt, in the template's words; answers the ids that were appended.

        Where they would be more than `room`, nothing is appended and nothing answered: the episode is cut there.
        """
        if not self.turn_ended:
            raise ValueError("a turn that did not end cannot be followed by messages: the episode was cut there")
        ids = self.between(messages)
        if room is not None and len(ids) > room:
            return []
        self.completion_ids += ids
        self.sampled += [0] * len(ids)
        self.logprobs += [0.0] * len(ids)
        return ids
