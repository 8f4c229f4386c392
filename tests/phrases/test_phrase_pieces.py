from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft.phrases import TokenKind, TokenPieces


def pieces_of(*pieces: str | bytes) -> TokenPieces:
    known = {token: piece if isinstance(piece, bytes) else piece.encode() for token, piece in enumerate(pieces)}
    return TokenPieces.from_bytes(known, len(pieces))


@pytest.mark.parametrize(
    ("piece", "kind"),
    [
        (" the", TokenKind.WORD_START),
        (" Über", TokenKind.WORD_START),
        ("ing", TokenKind.WORD_CONTINUATION),
        ("The", TokenKind.WORD_CONTINUATION),
        ("'t", TokenKind.WORD_CONTINUATION),
        ("\u2019re", TokenKind.WORD_CONTINUATION),
        ("7", TokenKind.DIGIT),
        (" 12", TokenKind.DIGIT),
        ("½", TokenKind.DIGIT),
        (".", TokenKind.PUNCTUATION),
        (" (", TokenKind.PUNCTUATION),
        (").\n\n", TokenKind.PUNCTUATION),
        ("…", TokenKind.PUNCTUATION),
        ("\n\n", TokenKind.NEWLINE),
        ("\n    ", TokenKind.NEWLINE),
        ("    ", TokenKind.SPACE),
        ("\t", TokenKind.SPACE),
        ("$", TokenKind.LATEX),
        (" $\\", TokenKind.LATEX),
        ("\\frac", TokenKind.LATEX),
        ("\\", TokenKind.LATEX),
        ("```", TokenKind.CODE),
        ("():", TokenKind.CODE),
        ("_", TokenKind.CODE),
        (" ==", TokenKind.CODE),
        ("", TokenKind.SPECIAL),
        ("我们", TokenKind.WORD_START),
        ("의", TokenKind.WORD_CONTINUATION),
        (" क", TokenKind.WORD_START),
        ("ि", TokenKind.WORD_CONTINUATION),
        ("。", TokenKind.PUNCTUATION),
        (b"\xa4\x95", TokenKind.WORD_CONTINUATION),
        (b"\xe0\xa4", TokenKind.WORD_CONTINUATION),
        (b" \xe0\xa4", TokenKind.WORD_START),
        (b"\xe4", TokenKind.WORD_START),
        (b"\xff", TokenKind.PUNCTUATION),
    ],
)
def test_a_token_is_told_by_its_text(piece, kind):
    assert TokenKind(pieces_of(piece).kinds[0]) is kind


@pytest.mark.parametrize(
    ("pieces", "num_words"),
    [
        ([" the", " num", "ber", " of"], 3),
        (["ber", " of"], 2),  # the rest of a word is a word that the phrase touches
        (["The", " end"], 2),
        ([".", "\n\n", "The"], 1),
        ([" don", "'t"], 1),
        ([" torch", ".", "sigmoid", "("], 2),
        ([" ", "1", "2", " =", " ", "7"], 2),
        ([" 1", "x"], 2),
        (["|", "---", "|", "---"], 0),
        (["我们", "是"], 2),  # two characters are a word, and so is one that is left
        (["我", "们", "是", "。", "人"], 2),
        (["こん", "にちは"], 3),
        (["我", "x", "y"], 2),
        ([b"\xe6", b"\x88", b"\x91"], 1),  # one character in three tokens
        ([b"\xe6", b"\x88\x91", b"\xe4", b"\xbb\xac"], 1),
        ([b"\xe6", b"\x88\x91", b"\xe4", b"\xbb\xac", b"\xe6\x98\xaf"], 2),
        ([b"\x88\x91", b"\xe4\xbb", b"\xac"], 2),  # begins inside a character, which may be a whole word's end
        ([b" \xe0\xa4", b"\x95", b"\xe0\xa4", b"\xbf", b"\xe0\xa4\xa4"], 1),  # one Hindi word in bytes
        ([b" \xe0\xb0", b"\xa4", " a"], 2),
        (["", "a"], 1),
        ([], 0),
    ],
)
def test_words_are_counted_across_the_tokens_they_are_split_over(pieces, num_words):
    assert pieces_of(*pieces).num_words(range(len(pieces))) == num_words


def split(whole, data):
    """The parts of `whole` between a few places chosen by hypothesis, none empty."""
    cuts = data.draw(st.sets(st.integers(1, max(len(whole) - 1, 1)), max_size=5))
    bounds = sorted({0, *(cut for cut in cuts if cut < len(whole)), len(whole)})
    return [whole[start:end] for start, end in pairwise(bounds)]


@given(st.text(alphabet="ab 1.\nकि-é", min_size=1, max_size=12), st.data())
def test_splitting_a_text_anywhere_even_inside_characters_changes_no_word_count(text, data):
    pieces = pieces_of(*split(text.encode(), data))
    assert pieces.num_words(range(len(pieces))) == pieces_of(text).num_words([0])
    assert pieces.text(range(len(pieces))) == text


@given(st.text(alphabet="ab 1.\n我们の-", min_size=1, max_size=12), st.data())
def test_splitting_a_text_of_words_without_spaces_between_characters_changes_no_word_count(text, data):
    pieces = pieces_of(*split(text, data))
    assert pieces.num_words(range(len(pieces))) == pieces_of(text).num_words([0])


def test_tokens_beyond_the_tokenizer_and_special_ones_are_special(byte_level):
    size = len(byte_level.get_vocab())
    pieces = TokenPieces.from_tokenizer(byte_level, size + 3)
    assert len(pieces) == size + 3
    special = {token for token in range(len(pieces)) if pieces.kinds[token] == TokenKind.SPECIAL}
    assert special == {byte_level.eos_token_id, size, size + 1, size + 2}
    assert pieces.text([byte_level.eos_token_id, size]) == ""


@given(st.text(max_size=20))
def test_the_pieces_of_a_text_join_to_the_text(byte_level, sentencepiece_like, text):
    text = text.replace("\r", "")
    byte_level_pieces = TokenPieces.from_tokenizer(byte_level, len(byte_level))
    assert byte_level_pieces.text(byte_level.encode(text, add_special_tokens=False)) == text
    ids = sentencepiece_like.encode(text, add_special_tokens=False)
    spelled = TokenPieces.from_tokenizer(sentencepiece_like, len(sentencepiece_like)).text(ids)
    assert spelled.removeprefix(" ") == text.replace("▁", " ").removeprefix(" ")
