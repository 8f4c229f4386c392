"""Calibration: do drafts come true as often as the drafter says?"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from phrasedraft.errors import OptionError

NUM_BINS = 10


@dataclass(frozen=True, kw_only=True)
class ReliabilityBin:
    """The nodes whose value lies from `low` up to `high`: how many, what they promised, what came true."""

    low: float
    high: float
    num_nodes: int
    mean_value: float
    share_right: float


@dataclass(frozen=True, kw_only=True)
class CalibrationCurve:
    """Promised against true, bin by bin; bins without a node are left out."""

    bins: tuple[ReliabilityBin, ...]

    @property
    def num_nodes(self) -> int:
        """How many nodes were judged."""
        return sum(each.num_nodes for each in self.bins)

    @property
    def mean_value(self) -> float:
        """The mean of all values, which is what the drafter expects to be right."""
        return self._mean([each.mean_value for each in self.bins])

    @property
    def share_right(self) -> float:
        """The share of all nodes that were right."""
        return self._mean([each.share_right for each in self.bins])

    @property
    def ece(self) -> float:
        """Expected calibration error: how far promised and true lie apart in a bin, averaged over the nodes."""
        return self._mean([abs(each.mean_value - each.share_right) for each in self.bins])

    def as_dict(self) -> dict[str, Any]:
        """Every figure, ready for JSON."""
        return {
            "num_nodes": self.num_nodes,
            "mean_value": self.mean_value,
            "share_right": self.share_right,
            "ece": self.ece,
            "bins": [asdict(each) for each in self.bins],
        }

    def _mean(self, per_bin: Sequence[float]) -> float:
        weighted = sum(value * each.num_nodes for value, each in zip(per_bin, self.bins, strict=True))
        return weighted / max(self.num_nodes, 1)


class CalibrationTally:
    """Counts values and outcomes in bins of equal width, so that any number of nodes takes no memory.

    >>> tally = CalibrationTally()
    >>> tally.add([0.8, 0.8, 0.8, 0.8, 0.3], [True, True, True, False, None])
    >>> curve = tally.curve()
    >>> curve.num_nodes, round(curve.ece, 3)
    (4, 0.05)
    """

    def __init__(self, num_bins: int = NUM_BINS) -> None:
        if num_bins < 1:
            raise OptionError(f"`num_bins` is {num_bins}, it must be 1 or more")
        self._counts = [0] * num_bins
        self._values = [0.0] * num_bins
        self._right = [0] * num_bins

    def add(self, values: Sequence[float], outcomes: Sequence[bool | None]) -> None:
        """Count nodes with values from 0 to 1; one whose outcome is None is not counted."""
        last = len(self._counts) - 1
        for value, outcome in zip(values, outcomes, strict=True):
            if outcome is None:
                continue
            index = min(int(value * len(self._counts)), last)
            self._counts[index] += 1
            self._values[index] += value
            self._right[index] += outcome

    def curve(self) -> CalibrationCurve:
        """The curve of what was counted so far."""
        width = 1 / len(self._counts)
        return CalibrationCurve(
            bins=tuple(
                ReliabilityBin(
                    low=round(index * width, 6),
                    high=round((index + 1) * width, 6),
                    num_nodes=count,
                    mean_value=self._values[index] / count,
                    share_right=self._right[index] / count,
                )
                for index, count in enumerate(self._counts)
                if count
            )
        )
