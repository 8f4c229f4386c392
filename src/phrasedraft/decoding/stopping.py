"""When a text ends: for every committed token, in this order, EOS, stop string, criterion, length."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any, TypeAlias

from jaxtyping import Int
from torch import Tensor

from phrasedraft.errors import OptionError

Criterion: TypeAlias = Callable[[Tensor, Any], Any]
"""A transformers stopping criterion: `(input_ids [1, seq], scores) -> bool or bool tensor [1]`."""


class FinishReason(Enum):
    """Why a text ended."""

    EOS = "eos"
    STOP_STRING = "stop_string"
    CRITERION = "criterion"
    LENGTH = "length"
    CONTEXT = "context"


@dataclass(frozen=True, kw_only=True)
class Stopping:
    """When a text ends.

    Up to `min_new_tokens` the end-of-text tokens cannot be chosen and stop strings do not count. A stop string ends the
    text in front of it; the token that completed it stays among the token ids. `criteria` are transformers stopping
    criteria, asked once for every committed token with the text up to that token.
    """

    max_new_tokens: int = 256
    min_new_tokens: int = 0
    stop_strings: tuple[str, ...] = ()
    criteria: tuple[Criterion, ...] = ()
    ignore_eos: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.stop_strings, str):  # type: ignore[unreachable]
            raise OptionError(
                f"`stop_strings` is the text `{self.stop_strings}`, it may be a tuple of texts",
                hint=f"write `stop_strings=({self.stop_strings!r},)`",
            )
        if "" in self.stop_strings:
            raise OptionError("`stop_strings` holds an empty text, each may be one character or more")
        if self.max_new_tokens < 1:
            raise OptionError(f"`max_new_tokens` is `{self.max_new_tokens}`, it may be 1 or more")
        if not 0 <= self.min_new_tokens <= self.max_new_tokens:
            raise OptionError(
                f"`min_new_tokens` is `{self.min_new_tokens}`, it may be 0 to `max_new_tokens` ({self.max_new_tokens})"
            )

    def meets_criterion(self, tokens: Int[Tensor, "1 seq"]) -> bool:
        """Whether any of the criteria ends the text here; all are asked, since some keep count."""
        answers = [bool(criterion(tokens, None)) for criterion in self.criteria]
        return any(answers)
