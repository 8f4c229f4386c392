"""Probabilities are corrected by what became of earlier ones, per class and size, and what is long ago fades."""

import random

import pytest

from phrasedraft.drafters.reliability import Reliability


def taught(reliability, kind, probability, share, times, seed=0):
    draws = random.Random(seed)
    for _ in range(times):
        reliability.learn(kind, probability, draws.random() < share)
    return reliability


def test_nothing_is_corrected_before_anything_is_known():
    assert Reliability().corrected("a", 0.3) == 0.3


@pytest.mark.parametrize(("said", "true"), [(0.9, 0.3), (0.3, 0.05), (0.1, 0.35), (0.5, 0.5)])
def test_a_probability_becomes_the_share_that_came_true(said, true):
    reliability = taught(Reliability(), "a", said, true, 400)
    assert reliability.corrected("a", said) == pytest.approx(true, abs=0.12)


def test_classes_and_sizes_are_corrected_apart():
    reliability = taught(Reliability(), "a", 0.9, 0.1, 200)
    assert reliability.corrected("b", 0.9) == 0.9
    assert reliability.corrected("a", 0.3) == 0.3


def test_a_class_that_is_never_right_is_given_up_within_200_proposals_and_wins_back_within_200():
    reliability = taught(Reliability(), "a", 0.6, 0.0, 200)
    assert reliability.corrected("a", 0.6) < 0.05
    taught(reliability, "a", 0.6, 0.6, 200)
    assert reliability.corrected("a", 0.6) > 0.4


def test_a_probability_is_never_one():
    reliability = taught(Reliability(), "a", 0.95, 1.0, 500)
    assert reliability.corrected("a", 0.97) < 1


def test_one_example_by_hand():
    reliability = Reliability(prior=2.0)
    for hit in (True, False, False, False):
        reliability.learn("a", 0.5, hit)
    assert reliability.corrected("a", 0.5) == pytest.approx(0.5 * (1 + 2) / (2 + 2))
