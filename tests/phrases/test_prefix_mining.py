import random

import pytest

from phrasedraft.errors import DataError
from phrasedraft.phrases import TokenPieces, VocabularySettings, mine_prefixes

# Token n is a word of one letter below 20, from there on a sign that is no word.
PIECES = TokenPieces.from_bytes({n: b" " + bytes([97 + n]) if n < 20 else b"." for n in range(40)}, 40)
LOOSE = VocabularySettings(num_phrases=1000, max_words=8, min_count=2, min_answers=1)


def phrases_of(answers, settings=LOOSE):
    vocabulary = mine_prefixes(answers, PIECES, settings)
    return [vocabulary.expand(phrase) for phrase in range(len(vocabulary))]


def random_answers(count=30, seed=0):
    draw = random.Random(seed)
    sentences = [draw.choices(range(40), k=6) for _ in range(8)]
    return [[token for _ in range(5) for token in draw.choice(sentences)] for _ in range(count)]


def test_counts_are_those_of_a_plain_count_of_spans():
    answers = random_answers()
    counted = {}
    for answer in answers:
        for start in range(len(answer)):
            for end in range(start + 1, len(answer) + 1):
                words = PIECES.num_words(answer[start:end])
                if words > 2 or end - start > 2 * max(words, 1):
                    break
                counted.setdefault(tuple(answer[start:end]), []).append(id(answer))
    wanted = {
        phrase for phrase, where in counted.items() if len(phrase) == 1 or (len(where) >= 3 and len(set(where)) >= 2)
    }
    settings = VocabularySettings(num_phrases=100_000, max_words=2, max_tokens_per_word=2, min_count=3, min_answers=2)
    assert set(phrases_of(answers, settings)) == wanted


@pytest.mark.parametrize("num_phrases", [5, 30, 90])
def test_every_prefix_of_a_phrase_is_a_phrase_however_few_are_kept(num_phrases):
    found = phrases_of(random_answers(), VocabularySettings(num_phrases=num_phrases, min_answers=1))
    assert len(found) == len(set(found)) == num_phrases
    assert all(phrase[:-1] in found for phrase in found if len(phrase) > 1)


def test_the_more_frequent_phrase_is_kept():
    answers = [[1, 2, 3, 20, 1, 2, 4], [1, 2, 3, 21, 1, 2, 3]]
    found = phrases_of(answers, VocabularySettings(num_phrases=9, min_count=1, min_answers=1, max_words=8))
    assert (1, 2) in found
    assert (1, 2, 3) in found
    assert (1, 2, 4) not in found


def test_a_phrase_has_no_more_words_than_allowed_but_signs_are_free():
    answers = [[1, 2, 3, 20, 21, 20, 4]] * 5
    longest = max(phrases_of(answers, VocabularySettings(max_words=3)), key=len)
    assert longest == (1, 2, 3, 20, 21, 20)


def test_no_phrase_runs_over_the_end_of_an_answer():
    assert (3, 1) not in phrases_of([[1, 2, 3]] * 5)


def test_an_answer_that_repeats_itself_makes_no_phrases():
    looping, other = [1, 2] * 30, [5, 6, 7]
    found = phrases_of([looping, other, other], VocabularySettings(min_count=2, min_answers=2))
    assert (1, 2) not in found
    assert (5, 6, 7) in found
    assert (1,) in found


def test_single_tokens_fill_what_phrases_leave():
    answers = [[token] for token in range(30)] + [[1, 2]] * 5
    settings = VocabularySettings(num_phrases=20, single_token_share=0.1)
    found = phrases_of(answers, settings)
    assert found[:3] == [(1, 2), (1,), (2,)]
    assert len(found) == 20
    assert all(len(phrase) == 1 for phrase in found[1:])


def test_a_phrase_brings_the_token_it_begins_with_though_no_place_was_kept_for_it():
    answers = [[1], [2], [3], [4]] * 9 + [[5, 6, 7]] * 5
    found = phrases_of(answers, VocabularySettings(num_phrases=4, single_token_share=0.25))
    assert found == [(5, 6), (5, 6, 7), (1,), (5,)]


def test_nothing_to_mine_from_is_an_error():
    with pytest.raises(DataError, match="no answers"):
        phrases_of([])
