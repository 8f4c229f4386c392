import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft.errors import DataError
from phrasedraft.phrases import PhraseMatcher, PhraseVocabulary

NUM_TOKENS = 4
some_phrases = st.lists(st.lists(st.integers(0, NUM_TOKENS - 1), min_size=1, max_size=5), max_size=15)
texts = st.lists(st.integers(0, NUM_TOKENS + 1), max_size=30)


def longest_by_trying_all(vocabulary, text, start, end):
    fits = [
        phrase_id
        for phrase_id in range(len(vocabulary))
        if tuple(text[start:end][: vocabulary.lengths[phrase_id]]) == vocabulary.expand(phrase_id)
    ]
    return max(fits, key=lambda phrase_id: vocabulary.lengths[phrase_id], default=-1)


@given(some_phrases, texts)
def test_expanding_a_segmented_text_gives_the_text_back(phrases, text):
    vocabulary = PhraseVocabulary.from_phrases([*phrases, *([token] for token in range(NUM_TOKENS + 2))])
    segments = PhraseMatcher(vocabulary).segment(text)
    assert [token for phrase_id in segments for token in vocabulary.expand(phrase_id)] == text


@given(some_phrases, st.lists(texts, max_size=5))
def test_the_longest_phrase_at_each_position_is_found_within_its_answer(phrases, answers):
    vocabulary = PhraseVocabulary.from_phrases(phrases)
    text = [token for answer in answers for token in answer]
    offsets = np.cumsum([0, *map(len, answers)])
    expected = [
        longest_by_trying_all(vocabulary, text, start, end)
        for first, end in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)
        for start in range(first, end)
    ]
    found = PhraseMatcher(vocabulary).longest_at_each(np.array(text, dtype=np.int64), offsets)
    assert found.tolist() == expected


@given(some_phrases, texts)
def test_a_text_is_covered_exactly_where_it_can_be_segmented(phrases, text):
    matcher = PhraseMatcher(PhraseVocabulary.from_phrases(phrases))
    if matcher.covers(text):
        assert matcher.segment(text) is not None
    else:
        with pytest.raises(DataError):
            matcher.segment(text)


def test_a_token_that_begins_no_phrase_is_named():
    matcher = PhraseMatcher(PhraseVocabulary.from_phrases([(1, 2), (1,)]))
    with pytest.raises(DataError, match="position 3, token `77`") as error:
        matcher.segment([1, 2, 1, 77, 1])
    assert error.value.hint


def test_tokens_beyond_those_of_any_phrase_match_nothing():
    # As one number, (node of 1, token 3) would be (node after it, token 0) if tokens were not bounded.
    matcher = PhraseMatcher(PhraseVocabulary.from_phrases([(0, 0), (1, 0), (2, 0)]))
    assert not matcher.covers([0, 3])
    assert not matcher.covers([1, 6])
    assert not matcher.covers([1, -3])


def test_an_empty_vocabulary_matches_nothing_and_covers_the_empty_text():
    matcher = PhraseMatcher(PhraseVocabulary.from_phrases([]))
    assert matcher.covers([])
    assert matcher.segment([]) == []
    assert matcher.longest_at_each(np.array([5, 6]), np.array([0, 2])).tolist() == [-1, -1]


def test_half_a_million_tokens_are_matched_in_seconds():
    random = np.random.default_rng(0)
    text = random.zipf(1.3, 500_000) % 5000
    spans = [text[start : start + 1 + start % 12].tolist() for start in range(0, 240_000, 30)]
    matcher = PhraseMatcher(PhraseVocabulary.from_phrases(spans))
    begin = time.perf_counter()
    longest = matcher.longest_at_each(text, np.arange(0, 500_001, 250))
    assert time.perf_counter() - begin < 10
    assert (longest >= 0).mean() > 0.5
