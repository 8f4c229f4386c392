import random
import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft.phrases import TokenPieces, VocabularySettings, mine_merges, mine_prefixes

# Token n is a word of one letter below 20, from there on a sign that is no word.
PIECES = TokenPieces.from_bytes({n: b" " + bytes([97 + n]) if n < 20 else b"." for n in range(40)}, 40)
OPEN = {"method": "merges", "close_prefixes": False, "single_token_share": 0.0, "min_count": 2, "min_answers": 1}


def mined(answers, pieces=PIECES, **settings):
    vocabulary = mine_merges(answers, pieces, VocabularySettings(**{**OPEN, **settings}))
    return [vocabulary.expand(phrase) for phrase in range(len(vocabulary))]


def longer(phrases):
    return [phrase for phrase in phrases if len(phrase) > 1]


def test_the_most_frequent_pair_is_merged_first_and_then_is_one_neighbour():
    answers = [[1, 2, 3], [1, 2, 3], [1, 2, 3], [1, 2, 4], [1, 2, 4], [9, 4]]
    assert longer(mined(answers)) == [(1, 2), (1, 2, 3), (1, 2, 4)]
    assert (2, 3) not in mined(answers)  # what a merge has taken is no neighbour any more
    assert (2, 3) in longer(mine_pairs(answers))


def mine_pairs(answers):
    vocabulary = mine_prefixes(answers, PIECES, VocabularySettings(min_count=2, min_answers=1))
    return [vocabulary.expand(phrase) for phrase in range(len(vocabulary))]


def test_merges_cross_words_and_signs_up_to_the_word_limit():
    answers = [[1, 20, 2, 21, 3, 4]] * 5
    assert (1, 20, 2, 21) in mined(answers, max_words=2)
    assert all(PIECES.num_words(phrase) <= 2 for phrase in longer(mined(answers, max_words=2)))


def test_merges_over_the_limits_are_built_on_and_replaced_by_more_merges():
    """Half of these sentences are said twice as often, and what they are merged to has too many words to be kept."""
    draw = random.Random(0)
    often = [draw.sample(range(20), 8) for _ in range(40)]
    rarely = [draw.sample(range(20), 2) for _ in range(60)]
    answers = [line for line in often for _ in range(6)] + [line for line in rarely for _ in range(3)]
    found = longer(mined(answers, max_words=1 + 1, num_phrases=150))
    assert len(found) > 100
    assert sum(tuple(line) in found for line in rarely) > 50


def test_an_answer_that_repeats_itself_makes_no_phrases():
    looping, other = [1, 2] * 30, [5, 6, 7]
    found = longer(mined([looping, other, other], min_answers=2))
    assert found == [(5, 6), (5, 6, 7)]


def test_no_merge_runs_over_the_end_of_an_answer():
    assert (3, 1) not in mined([[1, 2, 3]] * 5)


@given(
    st.lists(st.lists(st.integers(0, 39), min_size=1, max_size=15), min_size=1, max_size=10),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_every_phrase_is_a_frequent_span_whatever_the_order_of_the_answers(answers, close, random):
    settings = {"num_phrases": 60, "close_prefixes": close}
    found = mined(answers, **settings)
    assert found == mined(random.sample(answers, len(answers)), **settings)
    assert set(longer(found)) <= set(longer(mine_pairs(answers)))
    if close:
        assert all(phrase[:-1] in found for phrase in longer(found))


def test_tokens_whose_numbers_are_no_characters_are_merged_too():
    """A token is stood for by a character while merging, and code points from U+D800 on are none."""
    kinds, edges = np.zeros(60_000, dtype=np.uint8), np.ones(60_000, dtype=np.int8)
    pieces = TokenPieces((b" x",) * 60_000, kinds, np.zeros_like(edges), edges, np.full(60_000, 2))
    everything = [[n] for n in range(60_000)]
    phrase = [0, 0xD7FF, 0xD800]
    found = mined([*everything, *[phrase] * 3, *[[0xDFFF, 59_999]] * 3], pieces, num_phrases=100)
    assert longer(found) == [(0, 0xD7FF), (0xDFFF, 59_999), (0, 0xD7FF, 0xD800)]


def test_one_very_long_answer_takes_seconds():
    draw = random.Random(0)
    stock = [draw.choices(range(40), k=5) for _ in range(2000)]
    answer = [token for _ in range(20_000) for token in draw.choice(stock)]
    begin = time.perf_counter()
    found = longer(mined([answer], num_phrases=2000))
    assert time.perf_counter() - begin < 20
    assert len(found) > 1500


@pytest.mark.parametrize("share", [0.0, 1 / 3, 1.0])
def test_single_tokens_keep_their_share(share):
    answers = [list(range(40)), list(range(40))] * 2
    found = mined(answers, num_phrases=30, single_token_share=share)
    assert len(found) == 30
    assert len(found) - len(longer(found)) >= int(30 * share)
