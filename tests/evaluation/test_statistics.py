import numpy as np
import pytest
from scipy.stats import bootstrap

from phrasedraft.evaluation.statistics import Timing, bootstrap_interval, paired_speedup


def timings(seconds, tokens=100) -> list[Timing]:
    return [Timing(seconds=float(value), num_tokens=tokens) for value in seconds]


def noisy(base, noise: float, seed: int) -> list[Timing]:
    return timings(base * np.random.default_rng(seed).lognormal(0, noise, len(base)))


PROMPTS = np.random.default_rng(0).uniform(2, 30, 40)


def test_the_ratio_is_that_of_sums_and_not_the_mean_of_ratios():
    assert paired_speedup(timings([10, 1]), timings([5, 1])).ratio == pytest.approx(11 / 6)


def test_texts_of_different_length_are_compared_per_token():
    slow, fast = timings([10, 10]), [Timing(seconds=5.0, num_tokens=50)] * 2
    assert paired_speedup(slow, fast).ratio == pytest.approx(1)


def test_a_constant_factor_has_no_uncertainty_however_much_prompts_differ():
    found = paired_speedup(timings(PROMPTS), timings(PROMPTS / 1.7))
    assert (found.low, found.ratio, found.high) == pytest.approx((1.7, 1.7, 1.7))


def test_a_method_against_itself_is_1_within_the_interval():
    outside = 0
    for seed in range(20):
        found = paired_speedup(noisy(PROMPTS, 0.05, 2 * seed), noisy(PROMPTS, 0.05, 2 * seed + 1))
        outside += not found.low <= 1 <= found.high
        assert 0.9 < found.low < found.ratio < found.high < 1.1
    assert outside <= 4  # a 95 % interval misses once in 20, and 4 times with a chance below 2 %


def test_a_real_difference_is_outside_the_interval():
    found = paired_speedup(noisy(PROMPTS, 0.05, 1), noisy(PROMPTS / 1.3, 0.05, 2))
    assert 1.2 < found.low < 1.3 < found.high < 1.4


def test_the_same_seed_gives_the_same_interval():
    first, second = (paired_speedup(noisy(PROMPTS, 0.1, 1), noisy(PROMPTS, 0.1, 2), seed=5) for _ in range(2))
    assert first == second


def test_one_prompt_has_no_interval():
    found = paired_speedup(timings([3]), timings([2]))
    assert (found.ratio, found.low, found.high) == (1.5, None, None)
    assert str(found) == "1.50"


def test_strata_keep_their_number_in_every_draw():
    slow, fast = timings([2.0] * 12), timings([1.0] * 6 + [2.0] * 6)
    loose = paired_speedup(slow, fast)
    strict = paired_speedup(slow, fast, strata=["a"] * 6 + ["b"] * 6)
    assert (strict.low, strict.high) == pytest.approx((4 / 3, 4 / 3))
    assert loose.low < 1.25 < 1.4 < loose.high
    assert strict.num_prompts == 12


def test_strata_of_one_unit_each_leave_nothing_to_draw():
    assert paired_speedup(timings([2, 2]), timings([1, 2]), strata=["a", "b"]).low is None


def test_the_interval_is_that_of_scipys_percentile_bootstrap():
    seconds = np.random.default_rng(3).uniform(1, 9, (40, 2))
    mine = bootstrap_interval(seconds, lambda sums: sums[..., 0] / sums[..., 1])
    theirs = bootstrap(
        (seconds[:, 0], seconds[:, 1]),
        lambda a, b, axis=-1: a.sum(axis) / b.sum(axis),
        paired=True,
        vectorized=True,
        n_resamples=9999,
        method="percentile",
        random_state=np.random.default_rng(1),
    ).confidence_interval
    assert mine == pytest.approx((theirs.low, theirs.high), abs=0.01)
