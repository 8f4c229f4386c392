"""What a target is recognised by: its tokenizer's entries, its chat template, and the hidden states it gives."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from datetime import date
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from phrasedraft.errors import PromptError

THINKING = ("default", "on", "off")
"""What a template's thinking switch may be set to; `default` leaves it to the template."""

PROBE = (
    {"role": "user", "content": "What is 2 + 2?"},
    {"role": "assistant", "content": "4"},
    {"role": "user", "content": "And 3 + 3?"},
)
"""The conversation whose rendering stands for a template."""

PROBE_DATE = date(2000, 1, 1)
_DATE_CALL = re.compile(r"strftime_now\(\s*(['\"])(.*?)\1\s*\)")

NUM_PROBE_TOKENS = 12
NUM_DIRECTIONS = 2

MAX_STATE_DIFFERENCE = 0.05
"""Other precisions of the same weights lie below it, another fine-tune above."""


@runtime_checkable
class EncodesChat(Protocol):
    """A target that can render conversations."""

    @property
    def tokenizer(self) -> PreTrainedTokenizerBase | None:
        """Whose template it is."""
        ...

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **template_arguments: Any) -> list[int]:
        """The token ids of a conversation in the chat template."""
        ...


class DatedTemplate:
    """The chat template of a target on a given day: some templates write the date, and a run may go on tomorrow."""

    def __init__(self, target: EncodesChat, today: date) -> None:
        self._target = target
        self._arguments: dict[str, Any] = {}
        tokenizer = target.tokenizer
        if tokenizer is not None and tokenizer.chat_template:
            template = str(tokenizer.get_chat_template())
            dated = _DATE_CALL.sub(lambda call: json.dumps(today.strftime(call[2])), template)
            if dated != template:
                self._arguments = {"chat_template": dated}

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **template_arguments: Any) -> list[int]:
        """The token ids of a conversation, ready for the target's answer."""
        return self._target.encode_chat(messages, **self._arguments, **template_arguments)


@lru_cache(maxsize=8)
def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase, vocab_size: int) -> str:
    """A hash of the entries with ids below `vocab_size`: tokens added at the end later do not change it."""
    entries = sorted((token_id, token) for token, token_id in tokenizer.get_vocab().items() if token_id < vocab_size)
    return hashlib.sha256(json.dumps(entries, ensure_ascii=True).encode()).hexdigest()


def template_arguments(thinking: str) -> dict[str, Any]:
    """The keywords of a chat template that set its thinking switch."""
    return {} if thinking == "default" else {"enable_thinking": thinking == "on"}


def template_fingerprint(target: EncodesChat, system_prompt: str, thinking: str) -> str | None:
    """A hash of the token ids of a fixed conversation on a fixed day; None where no template takes it."""
    if target.tokenizer is None:
        return None
    system = ({"role": "system", "content": system_prompt},) if system_prompt else ()
    try:
        rendered = DatedTemplate(target, PROBE_DATE).encode_chat([*system, *PROBE], **template_arguments(thinking))
    except PromptError:
        return None
    return hashlib.sha256(json.dumps(rendered).encode()).hexdigest()[:32]


def probe_tokens(vocab_size: int) -> list[int]:
    """The tokens whose hidden states stand for a target's weights."""
    return [(7919 * index + 104729) % vocab_size for index in range(NUM_PROBE_TOKENS)]


def state_fingerprint(hidden: Float[Tensor, "token hidden"]) -> tuple[float, ...]:
    """Hidden states of `probe_tokens` along two fixed directions, as shares of their length."""
    rows = hidden.detach().cpu().double().numpy()
    rows = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    place = np.arange(rows.shape[1])[:, None]
    directions = np.cos(place * (place + 1) * np.arange(1, NUM_DIRECTIONS + 1) * 0.7853)
    return tuple(np.round(rows @ directions, 5).flatten().tolist())


def state_difference(one: Sequence[float], other: Sequence[float]) -> float:
    """How far two fingerprints lie apart, relative to the first."""
    first, second = np.asarray(one), np.asarray(other)
    if first.shape != second.shape:
        return float("inf")
    return float(np.linalg.norm(first - second) / max(float(np.linalg.norm(first)), 1e-12))
