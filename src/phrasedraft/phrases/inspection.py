"""What is in a phrase vocabulary: lengths, categories, the best phrases, and how they are spelled."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from phrasedraft.errors import HeadMismatchError
from phrasedraft.phrases.pieces import TokenKind, TokenPieces
from phrasedraft.phrases.spelling import Speller, Tokenizer
from phrasedraft.phrases.vocabulary import PhraseVocabulary, Spelling


class PhraseCategory(StrEnum):
    """What a phrase is made of."""

    WORDS = "words"
    PUNCTUATION = "punctuation"  # newlines and spaces too
    DIGITS = "digits"  # with or without punctuation, as in ` = 12.`
    LATEX = "latex"
    CODE = "code"
    MIXED = "mixed"  # words with punctuation or digits, as in `. The`
    SPECIAL = "special"  # with a token that stands for no text, as the end of an answer


@dataclass(frozen=True, kw_only=True)
class VocabularyReport:
    """What `phrasedraft inspect` says of a vocabulary.

    `num_compared` phrases are whole text, which can be tokenized again; `num_mismatches` of them come out as other
    tokens. Both are None where no tokenizer was given.
    """

    num_phrases: int
    max_tokens: int
    mean_tokens: float
    by_num_tokens: dict[int, int]
    by_num_words: dict[int, int]
    by_category: dict[PhraseCategory, int]
    top: tuple[str, ...]
    num_compared: int | None
    num_mismatches: int | None
    mismatches: tuple[Spelling, ...]


def categorize(tokens: Sequence[int], pieces: TokenPieces) -> PhraseCategory:
    """The category of a phrase; LaTeX and code signs decide over everything else."""
    kinds = {TokenKind(kind) for kind in pieces.kinds[list(tokens)].tolist()}
    for kind, category in _DECISIVE.items():
        if kind in kinds:
            return category
    has_words = not kinds.isdisjoint({TokenKind.WORD_START, TokenKind.WORD_CONTINUATION})
    has_more = not kinds <= {TokenKind.WORD_START, TokenKind.WORD_CONTINUATION, TokenKind.SPACE}
    if has_words:
        return PhraseCategory.MIXED if has_more else PhraseCategory.WORDS
    return PhraseCategory.DIGITS if TokenKind.DIGIT in kinds else PhraseCategory.PUNCTUATION


def describe(
    vocabulary: PhraseVocabulary,
    pieces: TokenPieces,
    tokenizer: Tokenizer | None = None,
    *,
    num_top: int = 20,
    num_examples: int = 10,
) -> VocabularyReport:
    """A report on `vocabulary`: `num_top` of its longer phrases in its own order, which for mined ones is best first.

    `HeadMismatchError` where a phrase holds a token that the target of `pieces` does not have.
    """
    if int(vocabulary.phrase_tokens.max(initial=-1)) >= len(pieces):
        raise HeadMismatchError(
            f"the vocabulary holds token `{vocabulary.phrase_tokens.max()}`, the target has {len(pieces)} tokens",
            hint="inspect the vocabulary with the tokenizer of the target it was mined for",
        )
    phrases = [vocabulary.expand(phrase_id) for phrase_id in range(len(vocabulary))]
    longer = [phrase for phrase in phrases if len(phrase) > 1][:num_top]
    compared = None if tokenizer is None else _spellings(phrases, pieces, Speller(tokenizer))
    differing = [spelling for spelling in compared or () if spelling.tokens != spelling.tokenized]
    return VocabularyReport(
        num_phrases=len(phrases),
        max_tokens=vocabulary.max_tokens,
        mean_tokens=float(vocabulary.lengths.mean()) if phrases else 0.0,
        by_num_tokens=_sorted_counts(map(len, phrases)),
        by_num_words=_sorted_counts(map(pieces.num_words, phrases)),
        by_category=dict(Counter(categorize(phrase, pieces) for phrase in phrases).most_common()),
        top=tuple(pieces.text(phrase) for phrase in longer),
        num_compared=None if compared is None else len(compared),
        num_mismatches=None if compared is None else len(differing),
        mismatches=tuple(differing[:num_examples]),
    )


_DECISIVE = {
    TokenKind.SPECIAL: PhraseCategory.SPECIAL,
    TokenKind.LATEX: PhraseCategory.LATEX,
    TokenKind.CODE: PhraseCategory.CODE,
}


def _spellings(phrases: Sequence[tuple[int, ...]], pieces: TokenPieces, speller: Speller) -> list[Spelling]:
    """For each phrase that is whole text, its tokens beside those the tokenizer writes for that text."""
    spellings = list[Spelling]()
    for phrase in phrases:
        if any(not pieces.pieces[token] for token in phrase):
            continue
        try:
            text = pieces.join(phrase).decode()
        except UnicodeDecodeError:
            continue
        spellings.append(Spelling(text, phrase, speller.tokenized(text)))
    return spellings


def _sorted_counts(values: Iterable[int]) -> dict[int, int]:
    return dict(sorted(Counter(values).items()))
