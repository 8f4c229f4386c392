"""What a generation cost and what its drafts gave, under the names vLLM uses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from phrasedraft.decoding.walk import Verification


@dataclass
class DecodingStats:
    """Counts and seconds of one or more generations.

    A draft is one pass of the target over a tree with at least one draft token; `num_passes` counts the passes that
    drafted nothing as well. `num_passes_per_size[n]` counts those that checked n draft tokens. The pass that reads the
    prompt counts in `prefill_seconds` only.
    """

    num_passes: int = 0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: list[int] = field(default_factory=list)
    num_passes_per_size: list[int] = field(default_factory=list)
    num_landings: int = 0
    num_generated_tokens: int = 0
    prefill_seconds: float = 0.0
    draft_seconds: float = 0.0
    verify_seconds: float = 0.0
    keep_seconds: float = 0.0
    other_seconds: float = 0.0

    @property
    def mean_acceptance_length(self) -> float:
        """Tokens per pass, the bonus token included."""
        return 1 + self.num_accepted_tokens / self.num_passes if self.num_passes else 1.0

    @property
    def acceptance_rate(self) -> float:
        """Accepted tokens as a share of drafted tokens."""
        return self.num_accepted_tokens / self.num_draft_tokens if self.num_draft_tokens else 0.0

    @property
    def mean_draft_tokens(self) -> float:
        """Draft tokens checked per pass."""
        return self.num_draft_tokens / self.num_passes if self.num_passes else 0.0

    @property
    def landing(self) -> float:
        """The share of passes that accepted something."""
        return self.num_landings / self.num_passes if self.num_passes else 0.0

    @property
    def banked(self) -> float:
        """Tokens accepted per pass that accepted something."""
        return self.num_accepted_tokens / self.num_landings if self.num_landings else 0.0

    @property
    def decode_seconds(self) -> float:
        """The time of the loop after the prompt was read."""
        return self.draft_seconds + self.verify_seconds + self.keep_seconds + self.other_seconds

    @property
    def outside_share(self) -> float:
        """The share of the loop spent outside the target's pass."""
        return 1 - self.verify_seconds / self.decode_seconds if self.decode_seconds else 0.0

    def count(self, verification: Verification, num_draft_tokens: int) -> None:
        """Add the outcome of one pass."""
        accepted = verification.num_accepted_tokens
        self.num_passes += 1
        self.num_drafts += num_draft_tokens > 0
        self.num_draft_tokens += num_draft_tokens
        self.num_accepted_tokens += accepted
        self.num_landings += accepted > 0
        _add(self.num_accepted_tokens_per_pos, [1] * accepted)
        _add(self.num_passes_per_size, [*[0] * num_draft_tokens, 1])

    def add(self, other: "DecodingStats") -> None:
        """Add the counts and seconds of another generation."""
        for name, value in vars(other).items():
            if isinstance(value, list):
                _add(getattr(self, name), value)
            else:
                setattr(self, name, getattr(self, name) + value)

    def as_dict(self) -> dict[str, Any]:
        """Every count, time and ratio, ready for JSON."""
        ratios = (
            "mean_acceptance_length",
            "acceptance_rate",
            "mean_draft_tokens",
            "landing",
            "banked",
            "decode_seconds",
            "outside_share",
        )
        return {**vars(self), **{name: getattr(self, name) for name in ratios}}

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> "DecodingStats":
        """The counts and seconds in what `as_dict` gave; ratios follow from them.

        `num_passes_per_size` may be missing: version 0.1.0 did not count it.
        """
        kept = {"num_passes_per_size": [], **line}
        return cls(**{each.name: kept[each.name] for each in fields(cls)})


def _add(counts: list[int], more: Sequence[int]) -> None:
    """Add counts place by place, as many places as either has."""
    counts += [0] * (len(more) - len(counts))
    for place, count in enumerate(more):
        counts[place] += count
