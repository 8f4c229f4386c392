"""Speed-ups with their uncertainty: paired over prompts, since prompts differ far more than methods do."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy.stats import bootstrap

CONFIDENCE = 0.95
NUM_RESAMPLES = 9999


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


def paired_speedup(baseline: Sequence[Timing], method: Sequence[Timing], *, seed: int = 0) -> SpeedUp:
    """How many times as fast `method` is per token; timings are paired: entry i of both answers prompt i.

    The ratio is that of all seconds per token together, not the mean of ratios, so long answers count as much as they
    take. The interval is a percentile bootstrap over prompts, both methods of a prompt drawn together.

    >>> slow, fast = [Timing(seconds=3.0, num_tokens=10)] * 4, [Timing(seconds=2.0, num_tokens=10)] * 4
    >>> str(paired_speedup(slow, fast))
    '1.50 [1.50, 1.50]'
    """
    assert len(baseline) == len(method) >= 1
    samples = (*_columns(baseline), *_columns(method))
    ratio = float(_ratio_of_sums(*samples))
    if len(baseline) == 1:
        return SpeedUp(ratio=ratio, low=None, high=None, num_prompts=1)
    interval = bootstrap(
        samples,
        _ratio_of_sums,
        paired=True,
        vectorized=True,
        n_resamples=NUM_RESAMPLES,
        batch=1000,
        confidence_level=CONFIDENCE,
        method="percentile",
        random_state=np.random.default_rng(seed),
    ).confidence_interval
    return SpeedUp(ratio=ratio, low=float(interval.low), high=float(interval.high), num_prompts=len(baseline))


def _columns(timings: Sequence[Timing]) -> tuple[np.ndarray, np.ndarray]:
    """The seconds and the tokens of each answer."""
    seconds = np.array([timing.seconds for timing in timings], dtype=np.float64)
    return seconds, np.array([timing.num_tokens for timing in timings], dtype=np.float64)


def _ratio_of_sums(
    baseline_seconds: Float[np.ndarray, "*batch prompt"],
    baseline_tokens: Float[np.ndarray, "*batch prompt"],
    seconds: Float[np.ndarray, "*batch prompt"],
    tokens: Float[np.ndarray, "*batch prompt"],
    axis: int = -1,
) -> Float[np.ndarray, "*batch"] | np.float64:
    baseline = baseline_seconds.sum(axis) / baseline_tokens.sum(axis)
    ratio: np.ndarray = baseline / (seconds.sum(axis) / tokens.sum(axis))
    return ratio
