"""The three ways of mining behind one interface."""

import random
import warnings
from functools import cache

import numpy as np
import pytest

from phrasedraft.errors import DataError, OptionError
from phrasedraft.phrases import METHODS, PhraseMatcher, PhraseVocabulary, TokenPieces, VocabularySettings, mine

NAMES = [" in", " order", " to", " go", " stay"]
PIECES = TokenPieces.from_bytes({token: name.encode() for token, name in enumerate(NAMES)}, len(NAMES))
IN, ORDER, TO, GO, STAY = range(5)
ANSWERS = [[IN, ORDER, TO, GO]] * 4 + [[TO, STAY]] * 3
LETTERS = str.maketrans("0123456789", "abcdefghij")


def phrases_of(vocabulary: PhraseVocabulary) -> list[tuple[int, ...]]:
    return [vocabulary.expand(phrase) for phrase in range(len(vocabulary))]


def added_tokens(vocabulary: PhraseVocabulary, answers: list[list[int]]) -> int:
    """How many tokens beyond the first the longest phrases hold, over all positions."""
    tokens = np.concatenate([np.asarray(answer, dtype=np.int64) for answer in answers])
    longest = PhraseMatcher(vocabulary).longest_at_each(tokens, np.cumsum([0, *map(len, answers)]))
    return int((vocabulary.lengths[longest] - 1).sum())


@pytest.mark.parametrize(
    ("method", "close", "phrases", "added"),
    [
        ("prefixes", True, [" in order", " order to", " to go"], 12),
        ("spans", False, [" in order to", " order to go", " to go"], 20),
        ("spans", True, [" in order", " in order to", " to go"], 12),
        ("merges", False, [" in order", " to go", " to stay"], 11),
        ("merges", True, [" in order", " to go", " to stay"], 11),
    ],
)
def test_the_example_of_the_page_on_phrases(method, close, phrases, added):
    settings = VocabularySettings(
        method=method, num_phrases=8, single_token_share=5 / 8, min_count=3, close_prefixes=close
    )
    vocabulary = mine(ANSWERS, PIECES, settings)
    assert [PIECES.text(phrase) for phrase in phrases_of(vocabulary) if len(phrase) > 1] == phrases
    assert phrases_of(vocabulary)[3:] == [(TO,), (IN,), (ORDER,), (GO,), (STAY,)]
    assert added_tokens(vocabulary, ANSWERS) == added


@cache
def sentences(stock: int, uses: int, vocab_size: int) -> tuple[list[list[int]], TokenPieces]:
    """Answers made of sentences of six tokens, each said `uses` times."""
    draw = np.random.default_rng(0)
    lines = draw.zipf(1.2, (stock, 6)) % vocab_size
    said = lines[draw.permutation(np.repeat(np.arange(stock), uses))]
    known = {token: f" {token}".translate(LETTERS).encode() for token in range(vocab_size)}
    return said.reshape(-1, 240).tolist(), TokenPieces.from_bytes(known, vocab_size)


@pytest.mark.parametrize("method", METHODS)
def test_the_order_of_the_answers_does_not_matter(method):
    answers, pieces = sentences(400, 5, 500)
    shuffled = random.Random(1).sample(answers, len(answers))
    settings = VocabularySettings(method=method, num_phrases=900)
    assert phrases_of(mine(answers, pieces, settings)) == phrases_of(mine(shuffled, pieces, settings))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("num_phrases", [1, 7, 100, 1_000, 5_000])
def test_a_vocabulary_has_the_size_asked_for_and_every_prefix_of_its_phrases(method, num_phrases):
    answers, pieces = sentences(2_000, 6, 3_000)
    settings = VocabularySettings(method=method, num_phrases=num_phrases)
    found = phrases_of(mine(answers, pieces, settings))
    assert len(found) == len(set(found)) == num_phrases
    assert {phrase[:-1] for phrase in found if len(phrase) > 1} <= set(found)
    assert sum(len(phrase) == 1 for phrase in found) >= settings.num_single_tokens


@pytest.mark.parametrize("method", ["spans", "merges"])
def test_prefixes_are_left_out_where_nobody_asks_for_them(method):
    answers = [[IN, ORDER, TO, STAY]] * 4
    settings = VocabularySettings(method=method, num_phrases=4, single_token_share=0.0, close_prefixes=False)
    found = phrases_of(mine(answers, PIECES, settings))
    assert any(phrase[:-1] not in found for phrase in found if len(phrase) > 1)


def test_no_vocabulary_with_its_prefixes_adds_more_tokens_than_the_most_frequent_ones():
    answers, pieces = sentences(400, 5, 300)
    added = {
        method: added_tokens(mine(answers, pieces, VocabularySettings(method=method, num_phrases=900)), answers)
        for method in METHODS
    }
    assert added["prefixes"] == max(added.values())
    assert added["prefixes"] > min(added.values())


def test_an_option_without_effect_is_said():
    with pytest.warns(UserWarning, match="`close_prefixes` has no effect with method `prefixes`"):
        mine(ANSWERS, PIECES, VocabularySettings(close_prefixes=False))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mine(ANSWERS, PIECES, VocabularySettings(method="merges", close_prefixes=False))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("method", "words"),
        ("num_phrases", 0),
        ("max_words", 0),
        ("max_words", 9),
        ("max_tokens_per_word", 0),
        ("min_count", 0),
        ("min_answers", -1),
        ("single_token_share", 1.5),
        ("single_token_share", float("nan")),
    ],
)
def test_a_setting_that_may_not_be_is_named_with_its_value(name, wrong):
    with pytest.raises(OptionError, match=f"`{name}` is `{wrong}`"):
        VocabularySettings(**{name: wrong})


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("answers", "message"),
    [([], "no answers"), ([[], []], "no answers"), ([[1, 5]], "token `5`, the target has tokens 0 to 4")],
)
def test_answers_that_cannot_be_mined_are_refused(method, answers, message):
    with pytest.raises(DataError, match=message) as error:
        mine(answers, PIECES, VocabularySettings(method=method))
    assert error.value.hint


@pytest.mark.parametrize("method", METHODS)
def test_where_nothing_is_frequent_single_tokens_are_the_vocabulary(method):
    vocabulary = mine([[TO, GO], [TO]], PIECES, VocabularySettings(method=method))
    assert phrases_of(vocabulary) == [(TO,), (GO,)]


@pytest.mark.parametrize("method", ["prefixes", "spans"])
def test_a_vocabulary_of_128_thousand_phrases_takes_seconds(method):
    answers, pieces = sentences(40_000, 6, 20_000)
    vocabulary = mine(answers, pieces, VocabularySettings(method=method, num_phrases=128_000))
    assert len(vocabulary) == 128_000
    assert (vocabulary.lengths > 1).sum() > 80_000
    assert len(vocabulary.trie) == 128_000  # closed: every node is a phrase


@pytest.mark.slow
@pytest.mark.parametrize("method", METHODS)
def test_a_vocabulary_of_half_a_million_phrases_is_mined_from_seven_million_tokens(method):
    answers, pieces = sentences(200_000, 6, 20_000)
    vocabulary = mine(answers, pieces, VocabularySettings(method=method, num_phrases=512_000))
    assert len(vocabulary) == 512_000 or method == "merges"  # three merges a sentence at most are short enough
    assert (vocabulary.lengths > 1).sum() > 200_000
    tokens = np.concatenate(answers[:1000]).astype(np.int64)
    longest = PhraseMatcher(vocabulary).longest_at_each(tokens, np.array([0, len(tokens)]))
    assert vocabulary.lengths[longest].mean() > 1.3
