"""The target's own choice of a token: one rule for greedy decoding and for sampling.

Plain decoding and speculative decoding both call `Choice.token` with the same prefix and (up to the last bits) the same
logits. The noise of a draw depends on the seed and on the token's absolute position alone, so a sampled text does not
depend on how many tokens a pass commits.
"""

import math
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor
from transformers import (
    LogitsProcessor,
    LogitsProcessorList,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from phrasedraft.errors import NonFiniteLogitsError, OptionError

Processor: TypeAlias = LogitsProcessor | Callable[[Tensor, Tensor], Tensor]
"""A transformers logits processor: `(input_ids [1, seq], scores [1, vocab]) -> scores [1, vocab]`."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """How the target chooses each token.

    Temperature 0 takes the most probable token (the first of equals); above 0 a token is drawn, with `seed` (0 to
    2**64 - 1; None draws a fresh one for each text). `processors` are transformers logits processors, applied first,
    in order; then repetition penalty, temperature, top-k, top-p and min-p, the order of transformers' `generate()`.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float = 1.0
    processors: tuple[Any, ...] = ()
    seed: int | None = None

    def __post_init__(self) -> None:
        _require(math.isfinite(self.temperature) and self.temperature >= 0, "temperature", self.temperature, ">= 0")
        _require(self.top_k is None or self.top_k >= 1, "top_k", self.top_k, ">= 1")
        _require(self.top_p is None or 0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1")
        _require(self.min_p is None or 0 <= self.min_p <= 1, "min_p", self.min_p, "0 to 1")
        _require(self.repetition_penalty > 0, "repetition_penalty", self.repetition_penalty, "> 0")
        _require(self.seed is None or 0 <= self.seed < 2**64, "seed", self.seed, "0 to 2**64 - 1")

    @property
    def is_greedy(self) -> bool:
        """Whether the most probable token is taken."""
        return self.temperature == 0

    @cached_property
    def processor_list(self) -> LogitsProcessorList:
        """Everything that changes the logits before the choice, in order."""
        processors: list[Any] = list(self.processors)
        if self.repetition_penalty != 1:
            processors.append(RepetitionPenaltyLogitsProcessor(self.repetition_penalty))
        if not self.is_greedy:
            if self.temperature != 1:
                processors.append(TemperatureLogitsWarper(float(self.temperature)))
            if self.top_k is not None:
                processors.append(TopKLogitsWarper(self.top_k))
            if self.top_p is not None and self.top_p < 1:
                processors.append(TopPLogitsWarper(float(self.top_p)))
            if self.min_p:
                processors.append(MinPLogitsWarper(float(self.min_p)))
        return LogitsProcessorList(processors)

    def seeded(self) -> "Choice":
        """The same choice with a definite seed: its own, or a fresh one from the system's entropy."""
        return self if self.seed is not None else replace(self, seed=secrets.randbits(63))

    def with_processors(self, processors: Sequence[Any]) -> "Choice":
        """The same choice with further processors before its own."""
        return replace(self, processors=(*processors, *self.processors)) if processors else self

    def token(self, prefix: Int[Tensor, "1 seq"], logits: Float[Tensor, " vocab"]) -> int:
        """The token that follows `prefix`, given the target's raw logits after it."""
        scores = logits.to(dtype=torch.float32, copy=bool(self.processor_list))
        if self.processor_list:
            scores = self.processor_list(prefix, scores[None])[0]
        if self.is_greedy:
            token = int(torch.argmax(scores).item())
            if not math.isfinite(best := scores[token].item()):
                raise unusable_logits(best, prefix.shape[1])
            return token
        return self._draw(scores, prefix.shape[1])

    def _draw(self, scores: Float[Tensor, " vocab"], position: int) -> int:
        cumulative = torch.softmax(scores.double(), dim=-1).cumsum(dim=-1)
        total = cumulative[-1].item()
        if not math.isfinite(total):
            raise unusable_logits(total, position)
        assert self.seed is not None, "the decoder seeds every choice before it draws"
        level = torch.tensor([_uniform(self.seed, position) * total], dtype=torch.float64, device=scores.device)
        # The first entry above the level; an entry of probability 0 equals its predecessor and is never the first.
        token = int(torch.searchsorted(cumulative, level, right=True).item())
        return min(token, int(torch.searchsorted(cumulative, cumulative[-1:], right=False).item()))


def greedy_tokens(logits: Float[Tensor, "row vocab"]) -> list[int]:
    """The most probable token of every row in one call, -1 for a row with nothing finite to choose from."""
    tokens = torch.argmax(logits, dim=-1, keepdim=True)
    usable = torch.isfinite(logits.gather(-1, tokens))
    return torch.where(usable, tokens, -1)[:, 0].tolist()


def _uniform(seed: int, position: int) -> float:
    """The uniform number in [0, 1) that belongs to a position (Philox: counter-based, the same on every machine)."""
    return float(np.random.Generator(np.random.Philox(key=seed, counter=position)).random())


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise OptionError(f"`{name}` is `{value}`, it may be {allowed}")


def unusable_logits(value: float, position: int) -> NonFiniteLogitsError:
    """The error for logits that leave no token to choose."""
    what = "NaN" if math.isnan(value) else "infinite or all masked"
    return NonFiniteLogitsError(
        f"the target's processed logits at position {position} are {what}: there is no token to choose",
        hint="check the weights and dtype (float16 overflows in some models) and the logits processors",
    )


GREEDY = Choice()
"""The most probable token, always."""
