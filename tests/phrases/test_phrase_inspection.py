import pytest

from phrasedraft.errors import HeadMismatchError
from phrasedraft.phrases import PhraseCategory, PhraseVocabulary, TokenPieces, categorize, describe


def pieces_of(*pieces: str) -> TokenPieces:
    return TokenPieces.from_bytes({token: piece.encode() for token, piece in enumerate(pieces)}, len(pieces))


@pytest.mark.parametrize(
    ("pieces", "category"),
    [
        ([" the", " num", "ber"], PhraseCategory.WORDS),
        ([".", "\n", "\n"], PhraseCategory.PUNCTUATION),
        ([" =", " ", "1", "2", "."], PhraseCategory.DIGITS),
        ([".", " The"], PhraseCategory.MIXED),
        ([" 3", " apples"], PhraseCategory.MIXED),
        (["$", "\\frac", "{"], PhraseCategory.LATEX),
        ([" torch", "_", "x"], PhraseCategory.CODE),
        ([".", ""], PhraseCategory.SPECIAL),
    ],
)
def test_a_phrase_is_told_by_its_tokens(pieces, category):
    assert categorize(range(len(pieces)), pieces_of(*pieces)) is category


def test_a_report_counts_every_phrase_once_and_shows_the_longer_ones_in_order(byte_level):
    speller_ids = [
        byte_level.encode(text, add_special_tokens=False) for text in (" the then", ".\n\n", " a the a", "x")
    ]
    vocabulary = PhraseVocabulary.from_phrases(speller_ids)
    pieces = TokenPieces.from_tokenizer(byte_level, len(byte_level))
    report = describe(vocabulary, pieces, byte_level, num_top=2)
    assert report.num_phrases == 4
    assert report.by_num_tokens == {1: 1, 2: 2, 3: 1}
    assert report.mean_tokens == 8 / 4
    assert report.by_num_words == {0: 1, 1: 1, 2: 1, 3: 1}
    assert report.by_category == {PhraseCategory.WORDS: 3, PhraseCategory.PUNCTUATION: 1}
    assert report.top == (" the then", ".\n\n")
    assert (report.num_compared, report.num_mismatches, report.mismatches) == (4, 0, ())


def test_phrases_spelled_unlike_the_tokenizer_are_counted_and_shown(byte_level):
    vocab = byte_level.get_vocab()
    odd, usual = (vocab["t"], vocab["he"]), (vocab["the"],)
    half_a_character = (vocab["à"],)
    ending = (vocab["."], byte_level.eos_token_id)
    pieces = TokenPieces.from_tokenizer(byte_level, len(byte_level))
    vocabulary = PhraseVocabulary.from_phrases([odd, usual, half_a_character, ending])
    report = describe(vocabulary, pieces, byte_level)
    assert (report.num_compared, report.num_mismatches) == (2, 1)
    assert [(spelling.text, spelling.tokens, spelling.tokenized) for spelling in report.mismatches] == [
        ("the", odd, usual)
    ]
    assert describe(vocabulary, pieces).num_mismatches is None


def test_an_empty_vocabulary_is_described_too(byte_level):
    pieces = TokenPieces.from_tokenizer(byte_level, len(byte_level))
    report = describe(PhraseVocabulary.from_phrases([]), pieces, byte_level)
    assert (report.num_phrases, report.mean_tokens, report.by_category, report.top) == (0, 0.0, {}, ())


def test_a_vocabulary_of_another_target_is_refused():
    with pytest.raises(HeadMismatchError, match="token `7`, the target has 2 tokens") as error:
        describe(PhraseVocabulary.from_phrases([(0, 7)]), pieces_of("a", "b"))
    assert error.value.hint
