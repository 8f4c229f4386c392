"""The methods a benchmark compares: transformers' own `generate()`, and our loop with and without drafts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch

from phrasedraft.choice import GREEDY
from phrasedraft.decoding import Decoder, DecodingStats, FinishReason, Piece, Stopping
from phrasedraft.target import TransformersTarget

GENERATE = "generate()"
PLAIN = "plain loop"
"""Method names that reports compare against."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A greedy answer and the wall-clock seconds from its prompt's ids to its last id."""

    tokens: tuple[int, ...]
    finish_reason: FinishReason
    seconds: float
    stats: DecodingStats | None


@runtime_checkable
class Method(Protocol):
    """One way to decode."""

    @property
    def name(self) -> str:
        """What tables call it."""
        ...

    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        """The greedy answer to a prompt."""
        ...


class TransformersGenerate:
    """transformers' `generate()` on the user's own model: greedy, the same ids, no help from this library."""

    name = GENERATE

    def __init__(self, target: TransformersTarget) -> None:
        self._target = target

    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        """The greedy answer to a prompt."""
        target = self._target
        eos = sorted(target.eos_token_ids)
        input_ids = torch.tensor([list(prompt)], device=target.input_device)
        room = max_new_tokens
        if target.context_limit is not None:
            room = min(room, target.context_limit - len(prompt))
        started = time.perf_counter()
        output = target.model.generate(
            input_ids=input_ids,
            attention_mask=torch.ones_like(input_ids),
            max_new_tokens=room,
            do_sample=False,
            num_beams=1,
            repetition_penalty=1.0,
            temperature=1.0,
            top_p=1.0,
            top_k=50,
            eos_token_id=eos or None,
            pad_token_id=eos[0] if eos else 0,
        )
        tokens = tuple(output[0, len(prompt) :].tolist())
        seconds = time.perf_counter() - started
        reason = FinishReason.CONTEXT if room < max_new_tokens else FinishReason.LENGTH
        if tokens and tokens[-1] in target.eos_token_ids:
            reason = FinishReason.EOS
        return Answer(tokens=tokens, finish_reason=reason, seconds=seconds, stats=None)


class Drafting:
    """Our own loop with a decoder's drafter; `show` is given every piece as it is committed."""

    def __init__(self, decoder: Decoder, name: str, show: Callable[[Piece], None] | None = None) -> None:
        self._decoder = decoder
        self._show = show
        self.name = name

    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        """The greedy answer to a prompt."""
        stopping = Stopping(max_new_tokens=max_new_tokens)
        started = time.perf_counter()
        if self._show is None:
            result = self._decoder.generate(prompt, GREEDY, stopping)
        else:
            stream = self._decoder.stream(prompt, GREEDY, stopping)
            for piece in stream:
                self._show(piece)
            result = stream.result
        seconds = time.perf_counter() - started
        return Answer(tokens=result.tokens, finish_reason=result.finish_reason, seconds=seconds, stats=result.stats)
