"""What a generation returns: pieces while it runs, and the whole at the end."""

from dataclasses import dataclass

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.decoding.stopping import FinishReason


@dataclass(frozen=True, kw_only=True)
class Piece:
    """One committed token. `text` is what can be shown now: it may be empty, or hold earlier tokens' text as well."""

    token: int
    text: str
    was_drafted: bool
    logprob: float | None


@dataclass(frozen=True, kw_only=True)
class Generation:
    """A finished answer; ids, text, logprobs and statistics all end at the same token.

    `text` leaves out special tokens and ends in front of a stop string; it is empty for a target without a tokenizer.
    `logprobs` are natural logarithms under the target's unprocessed distribution, one for each token, if asked for.
    """

    tokens: tuple[int, ...]
    text: str
    finish_reason: FinishReason
    stop_string: str | None
    logprobs: tuple[float, ...] | None
    seed: int | None
    num_prompt_tokens: int
    num_cached_prompt_tokens: int
    stats: DecodingStats
