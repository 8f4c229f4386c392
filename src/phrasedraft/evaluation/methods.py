"""The methods a benchmark compares: transformers' own `generate()`, and our loop with and without drafts."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from phrasedraft.choice import GREEDY
from phrasedraft.decoding import Decoder, DecodingStats, FinishReason, Piece, Stopping
from phrasedraft.decoding.decoder import Stream
from phrasedraft.evaluation.bench.result import GENERATE, LOOKUP, PLAIN
from phrasedraft.target import TransformersTarget
from phrasedraft.target.batching import answer_batch

NUM_LOOKUP_TOKENS = 10
"""The value in transformers' own examples of prompt lookup."""


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A greedy answer and the wall-clock seconds from its prompt's ids to its last id.

    `passes` has the drafted tokens that each pass of the target accepted, the reading of the prompt left out.
    """

    tokens: tuple[int, ...]
    finish_reason: FinishReason
    seconds: float
    stats: DecodingStats | None
    first_token_seconds: float | None = None
    passes: tuple[tuple[int, ...], ...] = ()


@runtime_checkable
class Method(Protocol):
    """One way to decode; `drafter` with at most `num_draft_tokens` nodes a pass, "" and 0 where nothing drafts."""

    name: str
    drafter: str
    num_draft_tokens: int

    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        """The greedy answer to a prompt."""
        ...


@runtime_checkable
class BatchMethod(Protocol):
    """A method that decodes several prompts at once; others answer a batch one prompt after the other."""

    def answer_batch(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Answer]:
        """The greedy answers; each has the batch's seconds divided by its size, and no time to the first token."""
        ...


class TransformersGenerate:
    """transformers' `generate()` on the user's own model: greedy, the same ids, no help from this library."""

    name, drafter, num_draft_tokens = GENERATE, "", 0
    options: ClassVar[dict[str, int]] = {}
    """What is given to `generate()` beside all that makes it greedy."""

    def __init__(self, target: TransformersTarget) -> None:
        self._target = target

    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        """The greedy answer to a prompt."""
        target, room = self._target, _room(self._target, [prompt], max_new_tokens)
        first = _FirstToken()
        input_ids = torch.tensor([list(prompt)], device=target.input_device)
        started = time.perf_counter()
        output = self._generate(input_ids, torch.ones_like(input_ids), room, [first])
        tokens = tuple(output[0, len(prompt) :].tolist())
        seconds = time.perf_counter() - started
        return Answer(
            tokens=tokens,
            finish_reason=_reason(target, tokens, room, max_new_tokens),
            seconds=seconds,
            stats=None,
            first_token_seconds=first.at - started if first.at is not None else None,
        )

    def _generate(
        self,
        input_ids: Int[Tensor, "batch seq"],
        mask: Int[Tensor, "batch seq"],
        room: int,
        criteria: list[Any],
    ) -> Int[Tensor, "batch longer"]:
        eos = sorted(self._target.eos_token_ids)
        output: Tensor = self._target.model.generate(
            input_ids=input_ids,
            attention_mask=mask,
            max_new_tokens=room,
            do_sample=False,
            num_beams=1,
            repetition_penalty=1.0,
            temperature=1.0,
            top_p=1.0,
            top_k=50,
            eos_token_id=eos or None,
            pad_token_id=eos[0] if eos else 0,
            stopping_criteria=criteria or None,
            **self.options,
        )
        return output


class BatchedGenerate(TransformersGenerate):
    """`generate()` with a batch padded on the left; a row that is done is padded on to the batch's end."""

    def answer_batch(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Answer]:
        """The greedy answers."""
        target, room = self._target, _room(self._target, prompts, max_new_tokens)
        width = max(map(len, prompts))
        input_ids = torch.zeros((len(prompts), width), dtype=torch.long)
        mask = torch.zeros_like(input_ids)
        for row, prompt in enumerate(prompts):
            input_ids[row, width - len(prompt) :] = torch.tensor(list(prompt))
            mask[row, width - len(prompt) :] = 1
        started = time.perf_counter()
        output = self._generate(input_ids.to(target.input_device), mask.to(target.input_device), room, [])
        rows = output[:, width:].tolist()
        seconds = (time.perf_counter() - started) / len(prompts)
        answers = []
        for row in rows:
            end = next((place for place, token in enumerate(row) if token in target.eos_token_ids), len(row) - 1)
            tokens = tuple(row[: end + 1])
            reason = _reason(target, tokens, room, max_new_tokens)
            answers.append(Answer(tokens=tokens, finish_reason=reason, seconds=seconds, stats=None))
        return answers


class TransformersLookup(TransformersGenerate):
    """`generate()` with transformers' own prompt lookup: `prompt_lookup_num_tokens`, nothing else changed."""

    name, drafter, num_draft_tokens = LOOKUP, "transformers' prompt lookup", NUM_LOOKUP_TOKENS
    options: ClassVar[dict[str, int]] = {"prompt_lookup_num_tokens": NUM_LOOKUP_TOKENS}


class _FirstToken:
    """A stopping criterion that stops nothing; notes when it is first asked, which is after the first token."""

    def __init__(self) -> None:
        self.at: float | None = None

    def __call__(
        self,
        input_ids: Int[Tensor, "batch seq"],
        scores: Any,  # noqa: ARG002 - `generate()` gives them
        **_: Any,
    ) -> Bool[Tensor, " batch"]:
        if self.at is None:
            self.at = time.perf_counter()
        return torch.zeros(len(input_ids), dtype=torch.bool, device=input_ids.device)


class Drafting:
    """Our own loop with a decoder's drafter; `show` is given every piece as it is committed."""

    def __init__(
        self, decoder: Decoder, name: str, show: Callable[[Piece], None] | None = None, *, drafter: str | None = None
    ) -> None:
        self._decoder = decoder
        self._show = show
        self.name = name
        self.num_draft_tokens = decoder.num_draft_tokens
        self.drafter = "" if not decoder.num_draft_tokens else drafter or decoder.drafter.name

    def answer(self, prompt: Sequence[int], max_new_tokens: int) -> Answer:
        """The greedy answer to a prompt."""
        stopping = Stopping(max_new_tokens=max_new_tokens)
        passes: list[list[int]] = []
        first_at, ended_in_draft = None, False
        started = time.perf_counter()
        stream = Stream(
            self._decoder, prompt, GREEDY, stopping, logprobs=False, session=None, show=self._show is not None
        )
        for piece in stream:
            if first_at is None:
                first_at = time.perf_counter()
            if self._show is not None:
                self._show(piece)
            while len(passes) < stream.stats.num_passes:
                passes.append([])
            if piece.was_drafted:
                passes[-1].append(piece.token)
            ended_in_draft = piece.was_drafted
        seconds = time.perf_counter() - started
        if ended_in_draft:  # the token a text ends on is its pass' own one, also where it had been drafted
            passes[-1].pop()
        result = stream.result
        return Answer(
            tokens=result.tokens,
            finish_reason=result.finish_reason,
            seconds=seconds,
            stats=result.stats,
            first_token_seconds=first_at - started if first_at is not None else None,
            passes=tuple(map(tuple, passes)),
        )


class PlainLoop(Drafting):
    """Our own loop without drafts, one prompt at a time or as a batch that rows leave when they are done."""

    def __init__(self, decoder: Decoder, name: str = PLAIN) -> None:
        assert not decoder.num_draft_tokens
        super().__init__(decoder, name)

    def answer_batch(self, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> list[Answer]:
        """The greedy answers."""
        target = self._decoder.target
        room = _room(target, prompts, max_new_tokens)
        started = time.perf_counter()
        rows = answer_batch(target, prompts, max_new_tokens=room, choices=[GREEDY] * len(prompts))
        seconds = (time.perf_counter() - started) / len(prompts)
        return [
            Answer(
                tokens=tuple(row),
                finish_reason=_reason(target, row, room, max_new_tokens),
                seconds=seconds,
                stats=None,
            )
            for row in rows
        ]


def _room(target: TransformersTarget, prompts: Sequence[Sequence[int]], max_new_tokens: int) -> int:
    """How many tokens the answers may have, the longest prompt deciding."""
    limit = target.context_limit
    return max_new_tokens if limit is None else min(max_new_tokens, limit - max(map(len, prompts)))


def _reason(target: TransformersTarget, tokens: Sequence[int], room: int, max_new_tokens: int) -> FinishReason:
    if tokens and tokens[-1] in target.eos_token_ids:
        return FinishReason.EOS
    return FinishReason.CONTEXT if room < max_new_tokens else FinishReason.LENGTH
