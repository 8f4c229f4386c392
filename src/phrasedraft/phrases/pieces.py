"""What each token of the target is a piece of: the start of a word, its middle, a digit, punctuation, LaTeX, ..."""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cache

import numpy as np
from jaxtyping import Bool, Int8, Int64, UInt8

from phrasedraft.phrases.spelling import Tokenizer, token_bytes


class TokenKind(IntEnum):
    """What a token is on its own; `WORD_CONTINUATION` has no space before it, so after punctuation it starts a word."""

    WORD_START = 0
    WORD_CONTINUATION = 1
    DIGIT = 2
    PUNCTUATION = 3
    NEWLINE = 4
    SPACE = 5
    LATEX = 6
    CODE = 7
    SPECIAL = 8


class Edge(IntEnum):
    """What a token begins or ends with, as far as its neighbour could belong to the same word or number."""

    NONE = 0
    LETTER = 1
    DIGIT = 2
    SPLIT_CHARACTER = 3  # bytes of a character that the neighbour completes


@dataclass(frozen=True, eq=False)
class TokenPieces:
    """The text of each token of the target and where words begin and end in it.

    `leads` and `tails` are `Edge`s. A token continues the word or number before it where its lead is the tail of the
    token before, or completes a split character. Chinese and Japanese have no spaces, and their words have one or two
    characters most of the time: two characters count as one word. `inner_half_words` therefore counts halves, of what
    begins inside a token whatever stands before it: one a character of these scripts, two a word after a space.
    """

    pieces: tuple[bytes, ...]
    kinds: UInt8[np.ndarray, " vocab"]
    leads: Int8[np.ndarray, " vocab"]
    tails: Int8[np.ndarray, " vocab"]
    inner_half_words: Int64[np.ndarray, " vocab"]

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer, vocab_size: int) -> "TokenPieces":
        """The pieces of the tokens below `vocab_size`, the width of the target's logits."""
        return cls.from_bytes(token_bytes(tokenizer), vocab_size)

    @classmethod
    def from_bytes(cls, known: Mapping[int, bytes], vocab_size: int) -> "TokenPieces":
        """The pieces of tokens whose bytes are known; the others are special."""
        shapes = [_shape(known.get(token, b"")) for token in range(vocab_size)]
        return cls(
            pieces=tuple(known.get(token, b"") for token in range(vocab_size)),
            kinds=np.array([shape.kind for shape in shapes], dtype=np.uint8),
            leads=np.array([shape.lead for shape in shapes], dtype=np.int8),
            tails=np.array([shape.tail for shape in shapes], dtype=np.int8),
            inner_half_words=np.array([shape.inner_half_words for shape in shapes], dtype=np.int64),
        )

    def __len__(self) -> int:
        return len(self.pieces)

    def join(self, tokens: Sequence[int]) -> bytes:
        """The bytes of text that `tokens` spell; special tokens spell nothing."""
        return b"".join(self.pieces[token] for token in tokens)

    def text(self, tokens: Sequence[int]) -> str:
        """The text that `tokens` spell, with a replacement character for bytes that are no whole character."""
        return self.join(tokens).decode(errors="replace")

    def continues(
        self, before: Int64[np.ndarray, " position"], tokens: Int64[np.ndarray, " position"]
    ) -> Bool[np.ndarray, " position"]:
        """Whether each token goes on with the word, number or character that the token before it stopped in."""
        leads = self.leads[tokens]
        return np.asarray((leads == Edge.SPLIT_CHARACTER) | ((leads != Edge.NONE) & (leads == self.tails[before])))

    def num_words(self, tokens: Sequence[int]) -> int:
        """How many words and numbers `tokens` touch; a rest of a word at the start and half a word count as one."""
        if not tokens:
            return 0
        ids = np.asarray(tokens, dtype=np.int64)
        opens = self.leads[ids] != Edge.NONE
        opens[1:] &= ~self.continues(ids[:-1], ids[1:])
        return (int(self.inner_half_words[ids].sum()) + 2 * int(opens.sum()) + 1) // 2


@dataclass(frozen=True)
class _Shape:
    kind: TokenKind
    lead: Edge
    tail: Edge
    inner_half_words: int


_LATEX = re.compile(r"\s*(\$|\\([A-Za-z\[\]()\\{}]|$))")
_CODE = re.compile(r"[`_{}\[\]|~@;&^\\]|\(\)|[=!<>]=|->|=>|//|/\*|\*/|\)\)|\(\(")
_CLITIC = re.compile(r"['\u2019][^\W\d_]+")


def _shape(piece: bytes) -> _Shape:
    """What one token is, from its bytes."""
    if not piece:
        return _Shape(TokenKind.SPECIAL, Edge.NONE, Edge.NONE, 0)
    rest = piece.lstrip(bytes(range(0x80, 0xC0)))
    text, opened = _whole_characters(rest)
    classes = ["a" if _CLITIC.fullmatch(text) else _character_class(character) for character in text]
    if opened:
        classes.append(_class_of_lead_byte(opened[0]))
    if len(rest) < len(piece):  # the bytes before belong to a character that began in an earlier token
        classes.insert(0, "a")
    lead, tail = _edge(classes[0]), _edge(classes[-1])
    half_words = classes.count("c")
    half_words += 2 * sum(c in "a1" and c != before for before, c in zip([" ", *classes], classes, strict=False))
    return _Shape(
        kind=_kind(text, classes),
        lead=Edge.SPLIT_CHARACTER if len(rest) < len(piece) else lead,
        tail=Edge.SPLIT_CHARACTER if opened else tail,
        inner_half_words=half_words - 2 * (lead != Edge.NONE),
    )


def _kind(text: str, classes: list[str]) -> TokenKind:
    visible = [c for c in classes if c != " "]
    if not visible:
        return TokenKind.NEWLINE if "\n" in text or "\r" in text else TokenKind.SPACE
    if visible[0] in "ac":
        return TokenKind.WORD_CONTINUATION if classes[0] == "a" else TokenKind.WORD_START
    if visible[0] == "1":
        return TokenKind.DIGIT
    if _LATEX.match(text):
        return TokenKind.LATEX
    return TokenKind.CODE if _CODE.search(text) else TokenKind.PUNCTUATION


def _edge(character_class: str) -> Edge:
    return {"a": Edge.LETTER, "1": Edge.DIGIT}.get(character_class, Edge.NONE)


def _whole_characters(data: bytes) -> tuple[str, bytes]:
    """The text of `data`, and the bytes of a character at its end that is not complete."""
    for num_open in range(min(4, len(data)) + 1):
        closed, opened = data[: len(data) - num_open], data[len(data) - num_open :]
        try:
            text = closed.decode()
        except UnicodeDecodeError:
            continue
        if not opened or opened[0] >= 0xC0:
            return text, opened
    return data.decode(errors="replace"), b""


@cache
def _character_class(character: str) -> str:
    """`a` letter or mark, `c` a character that is half a word, `1` digit, space, or `.` for any other sign."""
    category = unicodedata.category(character)
    if category[0] in "LM":
        return "c" if _is_cjk(ord(character)) else "a"
    if category[0] == "N":
        return "1"
    return " " if character.isspace() else "."


def _is_cjk(code: int) -> bool:
    """Whether a letter belongs to a script written without spaces, whose words have one or two characters."""
    return (
        0x2E80 <= code <= 0x9FFF or 0xF900 <= code <= 0xFAFF or 0xFF66 <= code <= 0xFF9F or 0x20000 <= code <= 0x3FFFF
    )


def _class_of_lead_byte(byte: int) -> str:
    """The class of most characters whose first byte in UTF-8 this is."""
    if byte in {0xE2, 0xEF} or not 0xC2 <= byte <= 0xF4:
        return "."
    return "c" if 0xE3 <= byte <= 0xE9 or byte >= 0xF0 else "a"
