"""Figures that are made of sums over prompts, and their 95 % intervals."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from phrasedraft.evaluation.statistics import bootstrap_interval

Amount = Float[np.ndarray, "*resample"] | float
Figure = Callable[..., Amount]


def ratio(numerator: Amount, denominator: Amount) -> Amount:
    """One sum over another."""
    return numerator / denominator


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A figure and its 95 % interval over `num_groups` prompts; the ends are None where there are too few to say."""

    value: float
    low: float | None
    high: float | None
    num_groups: int

    def text(self, form: str = ".3f") -> str:
        """The value and its interval, every number written as `form` says."""
        if self.low is None or self.high is None:
            return f"{self.value:{form}}"
        return f"{self.value:{form}} [{self.low:{form}}, {self.high:{form}}]"

    def against(self, low: float, high: float) -> str:
        """How the figure lies to the range from `low` to `high`: inside, below or above, and whether that is sure.

        >>> Estimate(value=0.5, low=0.4, high=0.58, num_groups=40).against(0.57, 0.63)
        'below, though the interval reaches into it'
        """
        if low <= self.value <= high:
            return "inside"
        side = "below" if self.value < low else "above"
        reaches = self.low is not None and self.high is not None and self.low <= high and self.high >= low
        return f"{side}, though the interval reaches into it" if reaches else side


def estimate(figure: Figure, *columns: Sequence[int | float]) -> Estimate | None:
    """`figure` of the sum of each column, with a percentile bootstrap over rows: entry i of every column is prompt i.

    None where the figure of all rows is not finite, as a share of nothing; no interval where a draw has none.
    """
    table = np.array(columns, dtype=np.float64).T
    if not len(table):
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        value = float(figure(*table.sum(0)))
        if not np.isfinite(value):
            return None
        ends = bootstrap_interval(table, lambda sums: np.asarray(figure(*np.moveaxis(sums, -1, 0))))
    low, high = ends if ends is not None and np.isfinite(ends).all() else (None, None)
    return Estimate(value=value, low=low, high=high, num_groups=len(table))
