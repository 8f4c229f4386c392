import random

import pytest

from phrasedraft.errors import OptionError
from phrasedraft.evaluation.calibration_curve import CalibrationTally


def curve_of(pairs, **settings):
    tally = CalibrationTally(**settings)
    tally.add([value for value, _ in pairs], [outcome for _, outcome in pairs])
    return tally.curve()


def drawn(chance_of, *, count=20_000, seed=0):
    """Values spread over 0 to 1, each right with the chance that `chance_of` gives."""
    source = random.Random(seed)
    values = [source.random() for _ in range(count)]
    return [(value, source.random() < chance_of(value)) for value in values]


def test_values_that_come_true_as_often_as_they_say_have_no_error():
    assert curve_of([(0.25, True), (0.25, False), (0.25, False), (0.25, False)]).ece == 0
    assert curve_of([(1.0, True), (0.0, False)]).ece == 0
    assert curve_of(drawn(lambda value: value)).ece < 0.02


def test_overconfident_values_have_the_error_they_overstate_by():
    assert curve_of([(0.9, True), (0.9, False)]).ece == pytest.approx(0.4)
    curve = curve_of(drawn(lambda value: value / 2))
    assert curve.ece == pytest.approx(0.25, abs=0.02)  # the mean of value - value / 2
    assert curve.mean_value > curve.share_right


def test_too_low_values_count_as_much_as_too_high_ones_and_do_not_cancel_out():
    curve = curve_of([(0.9, False), (0.1, True)])
    assert curve.mean_value == curve.share_right == 0.5
    assert curve.ece == pytest.approx(0.9)


def test_bins_hold_their_lower_edge_and_the_last_one_both():
    curve = curve_of([(0.0, False), (0.5, True), (0.99, True), (1.0, True)], num_bins=2)
    assert [(each.low, each.high, each.num_nodes) for each in curve.bins] == [(0.0, 0.5, 1), (0.5, 1.0, 3)]


def test_an_outcome_nobody_knows_is_not_counted_and_nothing_has_no_error():
    curve = curve_of([(0.7, None)])
    assert (curve.num_nodes, curve.ece, curve.bins) == (0, 0.0, ())


def test_a_curve_needs_a_bin():
    with pytest.raises(OptionError, match="num_bins"):
        CalibrationTally(num_bins=0)
