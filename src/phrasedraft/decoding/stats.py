"""What a generation cost and what its drafts gave, under the names vLLM uses."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from phrasedraft.decoding.walk import Verification


@dataclass
class DecodingStats:
    """Counts and seconds of one or more generations.

    A draft is one pass of the target over a tree with at least one draft token; `num_passes` counts the passes that
    drafted nothing as well. The pass that reads the prompt counts in `prefill_seconds` only.
    """

    num_passes: int = 0
    num_drafts: int = 0
    num_draft_tokens: int = 0
    num_accepted_tokens: int = 0
    num_accepted_tokens_per_pos: list[int] = field(default_factory=list)
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
        self.num_accepted_tokens_per_pos += [0] * (accepted - len(self.num_accepted_tokens_per_pos))
        for position in range(accepted):
            self.num_accepted_tokens_per_pos[position] += 1

    def add(self, other: "DecodingStats") -> None:
        """Add the counts and seconds of another generation."""
        missing = len(other.num_accepted_tokens_per_pos) - len(self.num_accepted_tokens_per_pos)
        self.num_accepted_tokens_per_pos += [0] * missing
        for position, count in enumerate(other.num_accepted_tokens_per_pos):
            self.num_accepted_tokens_per_pos[position] += count
        for name, value in vars(other).items():
            if name != "num_accepted_tokens_per_pos":
                setattr(self, name, getattr(self, name) + value)

    def as_dict(self) -> dict[str, Any]:
        """Every count, time and ratio, ready for JSON."""
        ratios = ("mean_acceptance_length", "acceptance_rate", "landing", "banked", "decode_seconds", "outside_share")
        return {**vars(self), **{name: getattr(self, name) for name in ratios}}

    @classmethod
    def from_dict(cls, line: Mapping[str, Any]) -> "DecodingStats":
        """The counts and seconds in what `as_dict` gave; ratios follow from them."""
        return cls(**{each.name: line[each.name] for each in fields(cls)})
