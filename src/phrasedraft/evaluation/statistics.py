"""Speed-ups with their uncertainty: paired over prompts, since prompts differ far more than methods do."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

CONFIDENCE = 0.95
NUM_RESAMPLES = 9999
_BATCH = 1000

Statistic = Callable[[Float[np.ndarray, "*batch column"]], Float[np.ndarray, "*batch"]]
"""A figure that is made of sums: from the sums of some columns, on the last axis, to the figure."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What one answer took."""

    seconds: float
    num_tokens: int


@dataclass(frozen=True, kw_only=True)
class SpeedUp:
    """How many times as fast, and its 95 % interval; the ends are None for a single prompt."""

    ratio: float
    low: float | None
    high: float | None
    num_prompts: int

    def as_dict(self) -> dict[str, Any]:
        """The figures, ready for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        """The ratio and its interval, as tables show them."""
        return f"{self.ratio:.2f}" if self.low is None else f"{self.ratio:.2f} [{self.low:.2f}, {self.high:.2f}]"


def paired_speedup(
    baseline: Sequence[Timing], method: Sequence[Timing], *, strata: Sequence[str] | None = None, seed: int = 0
) -> SpeedUp:
    """How many times as fast `method` is per token; timings are paired: entry i of both answers prompt i.

    The ratio is that of all seconds per token together, not the mean of ratios, so long answers count as much as they
    take. The interval is a percentile bootstrap over prompts, both methods of a prompt drawn together; with `strata`,
    a name for each prompt, as many are drawn from each stratum as it has.

    >>> slow, fast = [Timing(seconds=3.0, num_tokens=10)] * 4, [Timing(seconds=2.0, num_tokens=10)] * 4
    >>> str(paired_speedup(slow, fast))
    '1.50 [1.50, 1.50]'
    """
    assert len(baseline) == len(method) >= 1
    columns = np.array(
        [[a.seconds, a.num_tokens, b.seconds, b.num_tokens] for a, b in zip(baseline, method, strict=True)],
        dtype=np.float64,
    )
    low, high = bootstrap_interval(columns, _speedup, strata=strata, seed=seed) or (None, None)
    return SpeedUp(ratio=float(_speedup(columns.sum(0))), low=low, high=high, num_prompts=len(baseline))


def bootstrap_interval(
    columns: Float[np.ndarray, "unit column"],
    statistic: Statistic,
    *,
    strata: Sequence[str] | None = None,
    seed: int = 0,
) -> tuple[float, float] | None:
    """The 95 % percentile bootstrap interval of a figure made of the sums of `columns`, units drawn with replacement.

    With `strata`, a name for each unit, as many units are drawn from each stratum as it has. None where no draw can
    differ from another: every unit is alone in its stratum.

    >>> columns = np.array([[1.0, 2.0], [3.0, 6.0]])
    >>> bootstrap_interval(columns, lambda sums: sums[..., 0] / sums[..., 1])
    (0.5, 0.5)
    """
    names = np.array(strata if strata is not None else [""] * len(columns))
    assert len(names) == len(columns)
    parts = [columns[names == name] for name in sorted(set(names.tolist()))]
    if all(len(part) == 1 for part in parts):
        return None
    rng = np.random.default_rng(seed)
    drawn = []
    for start in range(0, NUM_RESAMPLES, _BATCH):
        num_resamples = min(_BATCH, NUM_RESAMPLES - start)
        drawn.append(statistic(sum((_resampled_sums(part, num_resamples, rng) for part in parts), np.zeros(()))))
    outside = (1 - CONFIDENCE) / 2
    low, high = np.quantile(np.concatenate(drawn), [outside, 1 - outside])
    return float(low), float(high)


def _resampled_sums(
    part: Float[np.ndarray, "unit column"], num_resamples: int, rng: np.random.Generator
) -> Float[np.ndarray, "resample column"]:
    """The sums of the columns over as many units as there are, drawn with replacement, again and again."""
    size = len(part)
    places = rng.integers(0, size, (num_resamples, size)) + size * np.arange(num_resamples)[:, None]
    times_drawn = np.bincount(places.ravel(), minlength=num_resamples * size).reshape(num_resamples, size)
    sums: np.ndarray = times_drawn @ part
    return sums


def _speedup(sums: Float[np.ndarray, "*batch 4"]) -> Float[np.ndarray, "*batch"]:
    """Seconds per token of the baseline over those of the method, from the sums of seconds, tokens, seconds, tokens."""
    baseline_seconds, baseline_tokens, seconds, tokens = np.moveaxis(sums, -1, 0)
    return np.asarray(baseline_seconds / baseline_tokens / (seconds / tokens))
