"""The cost curve: what was measured, made to rise and to bend upwards, between and beyond contexts."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft.budget.cost import PassCost
from phrasedraft.budget.curve import CostCurve, convex
from phrasedraft.errors import OptionError
from simulation import cost_of


def curve_of(rows: dict[int, dict[int, float]]) -> CostCurve:
    """A curve from milliseconds by context and draft tokens."""
    times = tuple(time for context, row in rows.items() for time in cost_of(row, context).times)
    return CostCurve(PassCost(target="tiny", repeats=1, times=times))


points = st.dictionaries(st.integers(0, 46), st.floats(1.0, 500.0), min_size=1, max_size=9)


@given(points)
def test_a_convex_fit_never_falls_nor_bends_down_and_leaves_the_first_point(points):
    fitted = convex(points)
    assert fitted.keys() == points.keys()
    counts = sorted(fitted)
    assert fitted[counts[0]] == points[counts[0]]
    pairs = list(pairwise(counts))
    slopes = [(fitted[right] - fitted[left]) / (right - left) for left, right in pairs]
    assert all(slope >= 0 for slope in slopes)
    assert all(after >= before - 1e-9 for before, after in pairwise(slopes))


@given(st.lists(st.floats(0.0, 20.0), min_size=1, max_size=8), st.floats(1.0, 100.0))
def test_what_is_convex_already_stays_as_it_is(slopes, first):
    values = {0: first}
    for place, slope in enumerate(sorted(slopes), start=1):
        values[3 * place] = values[3 * place - 3] + 3 * slope
    assert convex(values) == pytest.approx(values)


def test_a_bend_down_is_pooled_and_the_last_point_stays():
    curve = curve_of({64: {0: 40.0, 1: 50.0, 3: 62.0, 7: 66.0, 15: 98.0}})
    # slopes from 1 on: 6 over two nodes and 1 over four are pooled to 16 / 6, then comes 4
    assert [1e3 * curve.seconds(count, 64) for count in (0, 1, 3, 4, 7, 15)] == pytest.approx(
        [40, 50, 50 + 32 / 6, 58, 66, 98]
    )


def test_the_step_to_the_first_draft_token_stands_as_measured():
    curve = curve_of({64: {0: 86.0, 1: 140.0, 3: 178.0, 7: 192.0, 15: 226.0, 31: 303.0}})
    assert curve.seconds(0, 64) == pytest.approx(0.086)
    assert curve.seconds(1, 64) == pytest.approx(0.140)
    assert curve.seconds(31, 64) == pytest.approx(0.303)


def test_no_pass_with_drafts_is_cheaper_than_one_without():
    curve = curve_of({64: {0: 50.0, 1: 45.0, 7: 48.0, 15: 80.0}})
    seconds = [curve.seconds(count, 64) for count in range(20)]
    assert seconds == sorted(seconds)
    assert seconds[0] == seconds[7] == pytest.approx(0.050)


def test_beyond_the_most_nodes_the_last_slope_goes_on():
    curve = curve_of({64: {0: 40.0, 8: 48.0, 16: 64.0}})
    assert curve.seconds(26, 64) == pytest.approx(0.084)
    assert curve_of({64: {0: 40.0}}).seconds(26, 64) == pytest.approx(0.040)


def test_between_contexts_and_beyond_them_seconds_are_linear_and_below_them_constant():
    curve = curve_of({64: {0: 40.0, 8: 50.0}, 512: {0: 44.8, 8: 64.0}})
    assert [1e3 * curve.seconds(0, context) for context in (1, 64, 288, 512, 960)] == pytest.approx(
        [40, 40, 42.4, 44.8, 49.6]
    )
    assert [1e3 * curve.seconds(8, context) for context in (1, 64, 288, 512, 960)] == pytest.approx(
        [50, 50, 57, 64, 78]
    )


def test_a_longer_context_measured_as_cheaper_does_not_make_passes_free():
    curve = curve_of({64: {0: 40.0, 8: 50.0}, 512: {0: 39.0, 8: 52.0}})
    assert curve.seconds(0, 100_000) == pytest.approx(0.039)


@given(st.dictionaries(st.sampled_from([64, 256, 512]), points, min_size=1), st.integers(1, 5000))
def test_the_curve_rises_and_bends_upwards_at_every_context(rows, context):
    curve = curve_of({context: {0: 30.0, **row} for context, row in rows.items()})
    seconds = [curve.seconds(count, context) for count in range(60)]
    steps = [after - before for before, after in pairwise(seconds)]
    assert all(step >= -1e-12 for step in steps)
    assert all(after >= before - 1e-9 for before, after in pairwise(steps[1:]))


def test_contexts_may_have_been_measured_at_different_counts():
    curve = curve_of({64: {0: 40.0, 1: 41.0, 7: 47.0, 15: 63.0}, 512: {0: 50.0, 15: 95.0}})
    assert curve.seconds(7, 512) == pytest.approx(0.071)
    assert curve.seconds(7, 288) == pytest.approx((0.047 + 0.071) / 2)


@pytest.mark.parametrize("rows", [{}, {64: {1: 40.0}}])
def test_a_curve_needs_a_pass_without_draft_tokens(rows):
    with pytest.raises(OptionError, match="passes of `tiny` were measured"):
        curve_of(rows)
