"""Figures over the rows of one method: counts, speed-up over another one, tokens per pass, energy."""

from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.evaluation.bench.result import Result
from phrasedraft.evaluation.statistics import SpeedUp, Timing, bootstrap_interval, paired_speedup

Rows = Mapping[tuple[str, str], Result]
"""One method's results, by prompt set and answer."""


def total_stats(results: Sequence[Result]) -> DecodingStats | None:
    """The counts of all answers together, None for a method that keeps none."""
    total = DecodingStats()
    for result in results:
        if result.counts is None:
            return None
        total.add(result.counts)
    return total


def speedup(baseline: Rows | None, rows: Rows) -> SpeedUp | None:
    """How many times as fast, over the answers both have; the two timings of a group are drawn together."""
    if baseline is None or baseline is rows:
        return None
    groups: dict[tuple[str, str], list[tuple[Timing, Timing]]] = {}
    for key, result in rows.items():
        if key in baseline:
            groups.setdefault((result.prompt_set, result.group), []).append((baseline[key].timing, result.timing))
    if not groups:
        return None
    theirs, mine = zip(*(map(_together, zip(*pairs, strict=True)) for pairs in groups.values()), strict=True)
    return paired_speedup(theirs, mine, strata=[prompt_set for prompt_set, _ in groups])


def _together(timings: Sequence[Timing]) -> Timing:
    return Timing(
        seconds=sum(timing.seconds for timing in timings), num_tokens=sum(timing.num_tokens for timing in timings)
    )


def pass_interval(results: Sequence[Result]) -> tuple[float, float] | None:
    """The interval of tokens per pass, drawn over groups."""
    groups: dict[tuple[str, str], list[int]] = {}
    for result in results:
        counts = groups.setdefault((result.prompt_set, result.group), [0, 0])
        if result.counts is not None:
            counts[0] += result.counts.num_passes
            counts[1] += result.counts.num_accepted_tokens
    columns = np.array(list(groups.values()), dtype=np.float64)
    return bootstrap_interval(columns, _tokens_per_pass, strata=[prompt_set for prompt_set, _ in groups])


def _tokens_per_pass(sums: Float[np.ndarray, "*batch 2"]) -> Float[np.ndarray, "*batch"]:
    return np.asarray(1 + sums[..., 1] / np.maximum(sums[..., 0], 1))


def joules_per_token(results: Sequence[Result]) -> float | None:
    """None unless every answer has a reading; the answers of one call share theirs, which counts once."""
    if any(result.energy_joules is None for result in results):
        return None
    calls = {(result.prompt_set, result.group, result.turn): result.energy_joules or 0.0 for result in results}
    return sum(calls.values()) / max(sum(len(result.tokens) for result in results), 1)
