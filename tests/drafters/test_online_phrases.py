"""The store of online phrases: counted with decay, bounded, evicted by value, kept as a table."""

import random

import pytest

from phrasedraft.drafters.online_phrases import OnlinePhrases, OnlineSettings
from phrasedraft.drafters.source import Candidate
from phrasedraft.errors import OptionError


def read(phrases, *texts):
    for text in texts:
        before = ()
        for token in text:
            before = phrases.learn(before, token)
    return phrases


def noise(length, *, seed=0, vocab=3_000):
    generator = random.Random(seed)
    return [generator.randrange(vocab) for _ in range(length)]


def test_a_phrase_is_taken_in_when_it_is_seen_often_enough():
    twice = read(OnlinePhrases(), [1, 2, 3], [1, 2, 4])
    assert set(twice.phrases()) == {(1, 2)}
    thrice = OnlinePhrases(OnlineSettings(min_count=3))
    read(thrice, [1, 2], [1, 2])
    assert len(thrice) == 0
    read(thrice, [1, 2])
    assert set(thrice.phrases()) == {(1, 2)}


def test_phrases_do_not_reach_from_one_text_into_the_next():
    assert len(read(OnlinePhrases(), [1], [2], [1], [2])) == 0


def test_phrases_have_two_tokens_to_max_tokens():
    phrases = read(OnlinePhrases(OnlineSettings(max_tokens=3)), [1, 2, 3, 4], [1, 2, 3, 4]).phrases()
    assert set(phrases) == {(1, 2), (2, 3), (3, 4), (1, 2, 3), (2, 3, 4)}


def test_a_count_halves_in_half_a_life():
    phrases = read(OnlinePhrases(OnlineSettings(half_life=100)), [1, 2], [1, 2])
    before = phrases.phrases()[1, 2]
    read(phrases, [9] * 100)
    assert phrases.phrases()[1, 2] == pytest.approx(before / 2)


def test_counts_are_right_beyond_what_a_float_can_hold():
    phrases = OnlinePhrases(OnlineSettings(half_life=1))
    for _ in range(800):  # 2 ** 1600 would be infinite
        read(phrases, [1, 2])
    assert phrases.phrases()[1, 2] == pytest.approx(4 / 3)  # 1 + 1/4 + 1/16 + ...
    assert phrases.num_tokens == pytest.approx(2)


def test_the_longest_stored_beginning_answers():
    phrases = read(OnlinePhrases(OnlineSettings(half_life=10**9)), [1, 2, 3], [1, 2, 3], [8, 2, 4], [8, 2, 4], [2, 5])
    assert phrases.followers((7, 1, 2)).candidates(8) == [Candidate(3, pytest.approx(2 / (2 + 1 / 2)), strength=2)]
    # 2 was followed by 3, 4 twice each, and by 5 once, which is no phrase yet but lowers what the others have.
    shorter = phrases.followers((6, 2)).candidates(8)
    assert {(each.token, each.strength) for each in shorter} == {(3, 1), (4, 1)}
    assert [each.probability for each in shorter] == pytest.approx([2 / 6, 2 / 6])
    assert phrases.followers((6, 2)).candidates(1) == [max(shorter, key=lambda each: each.probability)]
    assert phrases.followers((3,)) is None
    assert phrases.followers(()) is None


def test_short_matches_say_nothing_where_longer_ones_are_asked_for():
    phrases = read(OnlinePhrases(OnlineSettings(min_match=2)), [1, 2, 3], [1, 2, 3])
    assert phrases.followers((1, 2)) is not None
    assert phrases.followers((9, 2)) is None


def test_single_tokens_are_phrases_where_nothing_else_knows_them():
    phrases = read(OnlinePhrases(counts_alone=lambda token: token > 5), [9, 1, 9, 1], [9])
    assert phrases.single_tokens() == pytest.approx({9: 3 / 5}, abs=1e-3)
    assert phrases.followers(()) is None


@pytest.mark.parametrize("vocab", [40, 3_000])
def test_it_is_bounded_in_a_long_stream_of_random_tokens(vocab):
    settings = OnlineSettings(max_phrases=300)
    phrases = OnlinePhrases(settings, counts_alone=lambda token: token % 2 == 0)
    before = ()
    most = 0
    for token in noise(30_000, vocab=vocab):
        before = phrases.learn(before, token)
        most = max(most, len(phrases))
        assert phrases.num_waiting <= settings.max_waiting
    assert 250 < most <= 300
    assert len(phrases.phrases()) == len(phrases)


def test_nothing_leaves_without_eviction():
    phrases = read(OnlinePhrases(OnlineSettings(max_phrases=50, evict=False)), [1, 2], [1, 2], noise(20_000, vocab=40))
    assert len(phrases) > 500
    assert (1, 2) in phrases.phrases()


def test_the_least_valuable_go_first():
    phrases = OnlinePhrases(OnlineSettings(max_phrases=20, max_tokens=2, half_life=10**9))
    for often, first in ((5, 100), (2, 200)):
        for pair in range(10):
            read(phrases, *[[first + pair, first + 50 + pair]] * often)
    assert len(phrases) == 20
    read(phrases, *[[300, 301]] * 2)
    held = phrases.phrases()
    assert len(held) == 18
    assert all((100 + pair, 150 + pair) in held for pair in range(10))


def test_a_long_phrase_is_worth_more_than_a_short_one_seen_as_often():
    phrases = OnlinePhrases(OnlineSettings(max_phrases=10, max_tokens=4, half_life=10**9))
    read(phrases, *[[1, 2, 3, 4]] * 3)  # 6 phrases: 3 of two tokens, 2 of three, 1 of four
    read(phrases, *[[pair, pair + 10] for pair in range(50, 55)] * 2)
    held = phrases.phrases()
    assert (1, 2, 3, 4) in held
    assert (1, 2, 3) in held
    assert len(held) <= 10
    assert sum(len(phrase) == 2 for phrase in held) < 8


def test_what_is_used_again_stays_and_what_is_not_leaves():
    phrases = OnlinePhrases(OnlineSettings(max_phrases=200, half_life=500))
    read(phrases, *[[1, 2, 3]] * 4, *[[4, 5, 6]] * 4)
    for seed in range(60):
        read(phrases, noise(300, seed=seed, vocab=60), [1, 2, 3])
    assert (1, 2, 3) in phrases.phrases()
    assert (4, 5, 6) not in phrases.phrases()


def test_a_table_holds_all_that_candidates_come_from():
    phrases = read(OnlinePhrases(counts_alone=lambda token: token < 5), noise(4_000, vocab=30))
    again = OnlinePhrases(counts_alone=lambda token: token < 5)
    again.restore(phrases.table())
    assert again.phrases() == phrases.phrases()
    assert again.single_tokens() == phrases.single_tokens()
    for text in ((3,), (9, 4), tuple(noise(6, seed=5, vocab=30))):
        assert again.followers(text) == phrases.followers(text)


def test_a_table_of_other_settings_is_taken_as_far_as_it_fits():
    phrases = read(OnlinePhrases(counts_alone=lambda token: token < 5), noise(4_000, vocab=30))
    small = OnlinePhrases(OnlineSettings(max_tokens=2, max_phrases=100))
    small.restore(phrases.table())
    assert 0 < len(small) <= 100
    assert all(len(phrase) == 2 for phrase in small.phrases())
    strongest = max((phrase for phrase in phrases.phrases() if len(phrase) == 2), key=phrases.phrases().__getitem__)
    assert strongest in small.phrases()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": 1}, "`max_tokens` is `1`, it may be 2 or more"),
        ({"max_phrases": 0}, "`max_phrases` is `0`, it may be 1 or more"),
        ({"half_life": 0}, "`half_life` is `0`, it may be 1 or more"),
        ({"min_count": True}, "`min_count` is `True`, it may be 1 or more"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(OptionError, match=message):
        OnlineSettings(**settings)
