"""The seconds of a pass as a curve over draft tokens and context: what was measured, without its noise."""

from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from phrasedraft.budget.cost import PassCost
from phrasedraft.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class _Row:
    """The seconds of passes after one context, by draft tokens from 0 on, and what one more node takes beyond them."""

    context_tokens: int
    seconds: tuple[float, ...]
    last_slope: float

    def up_to(self, most: int) -> list[float]:
        """The seconds at 0, 1, ... `most`."""
        beyond = range(1, most + 2 - len(self.seconds))
        return [*self.seconds[: most + 1], *(self.seconds[-1] + count * self.last_slope for count in beyond)]


class CostCurve:
    """What passes of one target take, in seconds.

    After each measured context the curve never falls, and from 1 draft token on each further one takes at least as
    long as the one before. The step from 0 to 1 stands as it was measured: a single row has kernels of its own.
    """

    def __init__(self, cost: PassCost) -> None:
        times: dict[int, dict[int, float]] = {}
        for time in cost.times:
            times.setdefault(time.context_tokens, {})[time.num_draft_tokens] = time.milliseconds / 1e3
        if not times or any(0 not in row for row in times.values()):
            raise OptionError(
                f"passes of `{cost.target}` were measured after {sorted(times)} tokens of context, there may be 1 "
                "context or more, each with a pass that checks no draft tokens",
                hint="measure them with `measure_pass_cost`",
            )
        self._rows = [_row(context, times[context]) for context in sorted(times)]
        self._contexts = [row.context_tokens for row in self._rows]
        self._growth = _growth(*self._rows[-2:]) if len(self._rows) > 1 else None

    def seconds(self, num_draft_tokens: int, context_tokens: int) -> float:
        """The time of a pass: linear in context, below the shortest measured one as long as there."""
        return self.seconds_up_to(num_draft_tokens, context_tokens)[-1]

    def seconds_up_to(self, most: int, context_tokens: int) -> list[float]:
        """The times of passes with 0, 1, ... `most` draft tokens."""
        place = bisect_left(self._contexts, context_tokens)
        if place == 0 or self._growth is None:
            return self._rows[0].up_to(most)
        if place == len(self._rows):
            further, steps = context_tokens - self._contexts[-1], self._growth.up_to(most)
            return [seconds + further * step for seconds, step in zip(self._rows[-1].up_to(most), steps, strict=True)]
        below, above = self._rows[place - 1], self._rows[place]
        share = (context_tokens - below.context_tokens) / (above.context_tokens - below.context_tokens)
        pairs = zip(below.up_to(most), above.up_to(most), strict=True)
        return [low + share * (high - low) for low, high in pairs]


def convex(points: Mapping[int, float]) -> dict[int, float]:
    """The points (count: value) made never to fall and never to bend down, the first left as it is.

    Slopes between neighbours that fall are pooled until none does (pool adjacent violators), weighted by their widths,
    so that the last point stays where it is unless the points fall as a whole.

    >>> convex({0: 10.0, 1: 14.0, 2: 16.0, 4: 24.0})
    {0: 10.0, 1: 13.0, 2: 16.0, 4: 24.0}
    """
    counts = sorted(points)
    pools: list[tuple[float, int]] = []  # rise, width
    for left, right in pairwise(counts):
        pools.append((points[right] - points[left], right - left))
        while len(pools) > 1 and pools[-2][0] * pools[-1][1] > pools[-1][0] * pools[-2][1]:
            (rise, width), (more, wider) = pools[-2:]
            pools[-2:] = [(rise + more, width + wider)]
    fitted = {counts[0]: points[counts[0]]}
    start, value = counts[0], points[counts[0]]
    for rise, width in pools:
        slope = max(0.0, rise / width)
        fitted |= {count: value + slope * (count - start) for count in counts if start < count <= start + width}
        start, value = start + width, value + slope * width
    return fitted


def _row(context_tokens: int, measured: Mapping[int, float]) -> _Row:
    drafted = {count: seconds for count, seconds in measured.items() if count}
    if 1 not in drafted:  # the first step is not known by itself
        drafted = {0: measured[0], **drafted}
    fitted = {count: max(measured[0], seconds) for count, seconds in convex(drafted).items()}
    return _dense(context_tokens, {0: measured[0], **fitted})


def _growth(below: _Row, above: _Row) -> _Row:
    """What each token of context beyond the longest measured one adds to a pass; it bends as passes themselves do."""
    most = max(len(below.seconds), len(above.seconds)) - 1
    width = above.context_tokens - below.context_tokens
    pairs = enumerate(zip(below.up_to(most), above.up_to(most), strict=True))
    return _dense(above.context_tokens, convex({count: max(0.0, high - low) / width for count, (low, high) in pairs}))


def _dense(context_tokens: int, points: Mapping[int, float]) -> _Row:
    """The points and, linear between them, what lies at every other count up to the last."""
    counts = sorted(points)
    values, slope = [points[counts[0]]], 0.0
    for left, right in pairwise(counts):
        slope = (points[right] - points[left]) / (right - left)
        values += [points[left] + slope * (count - left) for count in range(left + 1, right + 1)]
    return _Row(context_tokens=context_tokens, seconds=tuple(values), last_slope=slope)
