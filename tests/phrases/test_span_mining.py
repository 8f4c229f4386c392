import time
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft.errors import DataError
from phrasedraft.phrases import PhraseMatcher, PhraseVocabulary, TokenPieces, VocabularySettings, mine_spans
from phrasedraft.phrases.span_mining import NUM_ROUNDS, POOL_FACTOR

PIECES = TokenPieces.from_bytes(
    dict(enumerate([b" a", b" b", b" c", b"ing", b".", b"\n", b"1", b"2", b" d", b"\xe6\x88"])), 11
)
A, B, C, ING, DOT, NEWLINE, ONE, TWO, D, SPLIT, END = range(11)
answer_lists = st.lists(
    st.lists(st.sampled_from([A, B, ING, DOT, ONE, SPLIT, END]), min_size=1, max_size=12), min_size=1, max_size=12
)


def mined(answers, **settings) -> list[tuple[int, ...]]:
    vocabulary = mine_spans(answers, PIECES, VocabularySettings(**{"close_prefixes": False, **settings}))
    return [vocabulary.expand(phrase_id) for phrase_id in range(len(vocabulary))]


def candidates_by_counting(answers, settings) -> dict[tuple[int, ...], int]:
    counts, seen_in = Counter(), defaultdict(set)
    for number, answer in enumerate(answers):
        for start in range(len(answer)):
            for end in range(start + 2, len(answer) + 1):
                span = tuple(answer[start:end])
                words = PIECES.num_words(span)
                if words > settings.max_words or len(span) > settings.max_tokens_per_word * max(words, 1):
                    break  # a longer span may have room for more tokens, but a head gets there by way of this one
                counts[span] += 1
                seen_in[span].add(number)
    return {
        span: count
        for span, count in counts.items()
        if count >= settings.min_count and len(seen_in[span]) >= settings.min_answers
    }


def added_tokens_by_trying_all(answers, chosen) -> Counter:
    added = Counter()
    for answer in answers:
        for start in range(len(answer)):
            fits = sorted(
                (
                    tuple(answer[start:end])
                    for end in range(start + 2, len(answer) + 1)
                    if tuple(answer[start:end]) in chosen
                ),
                key=len,
            )
            if fits:
                added[fits[-1]] += len(fits[-1]) - (len(fits[-2]) if len(fits) > 1 else 1)
    return added


def mined_slowly(answers, settings) -> list[tuple[int, ...]]:
    """The reference: the same choice, written with dictionaries."""
    counts = candidates_by_counting(answers, settings)
    values = {span: count * (len(span) - 1) for span, count in counts.items()}
    kept = list(counts)
    for round_index in range(NUM_ROUNDS + 1):
        wanted = settings.num_phrases - settings.num_single_tokens
        size = int(wanted * POOL_FACTOR ** (1 - round_index / NUM_ROUNDS))
        kept = sorted(kept, key=lambda span: (-values[span], len(span), span))[:size]
        chosen = {span for span in kept if values[span] > 0}
        values = added_tokens_by_trying_all(answers, chosen)
    phrases = sorted(chosen, key=lambda span: (-values[span], len(span), span))
    singles = Counter(token for answer in answers for token in answer)
    ranked = sorted(singles, key=lambda token: (-singles[token], token))
    return phrases + [(token,) for token in ranked[: settings.num_phrases - len(phrases)]]


@given(answer_lists, st.integers(1, 12), st.integers(1, 3), st.integers(1, 4), st.integers(1, 3))
def test_mining_chooses_what_the_slow_reference_chooses(answers, num_phrases, max_words, max_tokens_per_word, least):
    settings = {
        "num_phrases": num_phrases,
        "max_words": max_words,
        "max_tokens_per_word": max_tokens_per_word,
        "min_count": least,
        "min_answers": least,
    }
    assert mined(answers, **settings) == mined_slowly(answers, VocabularySettings(**settings))


@given(answer_lists, st.randoms(use_true_random=False))
def test_the_order_of_the_answers_does_not_matter(answers, random):
    shuffled = random.sample(answers, len(answers))
    settings = {"num_phrases": 9, "min_count": 1, "min_answers": 1}
    assert mined(answers, **settings) == mined(shuffled, **settings)


def test_a_phrase_nested_in_a_longer_one_that_always_follows_is_not_kept():
    phrases = mined([[A, B, C]] * 5)
    assert (A, B, C) in phrases
    assert (B, C) in phrases  # a draft may begin after the first token
    assert (A, B) not in phrases


def test_a_phrase_may_cross_punctuation_and_newlines_but_not_the_word_limit():
    phrases = mined([[DOT, NEWLINE, A, B, C, DOT, D]] * 5, max_words=2)
    assert (DOT, NEWLINE, A, B) in phrases
    assert (B, C, DOT) in phrases
    assert all(PIECES.num_words(phrase) <= 2 for phrase in phrases)


def test_a_phrase_may_begin_inside_a_word_and_a_number_is_one_word():
    phrases = mined([[A, ING, B, ONE, TWO, DOT]] * 5, max_words=2)
    assert (ING, B) in phrases
    assert (B, ONE, TWO, DOT) in phrases


def test_an_answer_that_repeats_itself_makes_no_phrases():
    assert mined([[A, B] * 50, [C], [D]]) == [(A,), (B,), (C,), (D,)]
    assert (A, B) in mined([[A, B] * 50, [C], [D]], min_answers=1)


def test_a_phrase_never_runs_from_one_answer_into_the_next():
    phrases = mined([[A, DOT, END], [B, DOT]] * 5)
    assert (A, DOT, END) in phrases
    assert (DOT, B) not in phrases
    assert all(END not in phrase[:-1] for phrase in phrases)


def test_a_phrase_may_go_on_after_a_token_that_stands_for_no_text():
    """As between the channels of an answer, where what follows is always the same."""
    assert (END, A, END) in mined([[A, END, A, END, B], [C, END, A, END, D]] * 3)


def test_the_most_frequent_tokens_stay_beside_the_phrases():
    answers = [[A, B, C], [A, B], [A, D]] * 4
    phrases = mined(answers, num_phrases=4, single_token_share=0.5)
    assert [len(phrase) for phrase in phrases] == [2, 2, 1, 1] or [len(phrase) for phrase in phrases] == [3, 2, 1, 1]
    assert phrases[2:] == [(A,), (B,)]
    assert mined(answers, num_phrases=2, single_token_share=1.0) == [(A,), (B,)]


def test_text_of_the_mined_kind_takes_fewer_phrases_than_tokens():
    random = np.random.default_rng(1)
    sentences = [[A, B, DOT], [C, ING, B, NEWLINE], [ONE, TWO, DOT, A]]
    answers = [[token for pick in random.integers(0, 3, 20) for token in sentences[pick]] for _ in range(40)]
    vocabulary = mine_spans(answers[:30], PIECES, VocabularySettings(num_phrases=40))
    matcher = PhraseMatcher(vocabulary)
    num_tokens = sum(map(len, answers[30:]))
    assert num_tokens / sum(len(matcher.segment(answer)) for answer in answers[30:]) > 3


@pytest.mark.parametrize(
    ("answers", "message"),
    [([], "no answers"), ([[], []], "no answers"), ([[1, 11]], "token `11`"), ([[-1]], "token `-1`")],
)
def test_answers_that_cannot_be_mined_are_refused(answers, message):
    with pytest.raises(DataError, match=message) as error:
        mined(answers)
    assert error.value.hint


def test_one_token_alone_can_be_mined():
    assert mine_spans([[A]], PIECES, VocabularySettings()) == PhraseVocabulary.from_phrases([(A,)])


def test_half_a_million_tokens_are_mined_in_seconds():
    random = np.random.default_rng(0)
    letters = str.maketrans("0123456789", "abcdefghij")
    known = {token: f" {token}".translate(letters).encode() for token in range(49_152)}
    pieces = TokenPieces.from_bytes(known, len(known))
    stock = random.zipf(1.3, (3000, 6)) % len(known)
    answers = [stock[random.integers(0, 3000, 40)].reshape(-1).tolist() for _ in range(2000)]
    begin = time.perf_counter()
    vocabulary = mine_spans(answers, pieces, VocabularySettings())
    assert time.perf_counter() - begin < 30
    assert (vocabulary.lengths == 3).sum() > 2000
