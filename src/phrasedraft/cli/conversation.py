"""A conversation in the chat template, trimmed to what the target can take."""

from collections.abc import Mapping
from typing import Any

from phrasedraft.target import TransformersTarget


class Conversation:
    """The messages so far. The oldest turns leave when the context limit nears, the system message never does."""

    def __init__(
        self, target: TransformersTarget, *, system: str | None, template_arguments: Mapping[str, Any], reserve: int
    ) -> None:
        self._target = target
        self._system = [{"role": "system", "content": system}] if system is not None else []
        self._template_arguments = dict(template_arguments)
        self._limit = None
        if target.context_limit is not None:
            self._limit = target.context_limit - min(reserve, target.context_limit // 4)
        self._turns: list[dict[str, str]] = []

    @property
    def messages(self) -> list[dict[str, str]]:
        """The system message and the turns that are left."""
        return [*self._system, *self._turns]

    def ask(self, text: str) -> tuple[list[int], int]:
        """Add a user turn: the ids of the conversation, and how many old messages had to leave for it."""
        self._turns.append({"role": "user", "content": text})
        num_dropped = 0
        tokens = self._encode()
        while self._limit is not None and len(tokens) > self._limit and len(self._turns) > 1:
            del self._turns[0]
            num_dropped += 1
            if self._turns[0]["role"] == "user":  # templates want the user to begin
                tokens = self._encode()
        return tokens, num_dropped

    def answered(self, text: str) -> None:
        """Add the target's turn."""
        self._turns.append({"role": "assistant", "content": text})

    def take_back(self) -> None:
        """Forget a user turn that got no answer."""
        if self._turns and self._turns[-1]["role"] == "user":
            self._turns.pop()

    def reset(self) -> None:
        """Forget every turn."""
        self._turns.clear()

    def _encode(self) -> list[int]:
        return self._target.encode_chat(self.messages, **self._template_arguments)
