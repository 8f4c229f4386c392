"""What may be a phrase, how many are kept, and which way they are chosen."""

from dataclasses import dataclass
from typing import Final

from phrasedraft.errors import OptionError

PREFIXES: Final = "prefixes"
SPANS: Final = "spans"
MERGES: Final = "merges"
METHODS: Final = (PREFIXES, SPANS, MERGES)

MOST_WORDS: Final = 8


@dataclass(frozen=True, kw_only=True)
class VocabularySettings:
    """What may be a phrase, how many are kept, and which way they are chosen.

    `num_phrases` is meant for 1,000 to 512,000; `single_token_share` of them or more are the most frequent tokens. A
    phrase of two tokens or more touches up to `max_words` words and numbers (1 to 8; punctuation and newlines count as
    none, two Chinese or Japanese characters as one) and has up to `max_tokens_per_word` tokens for each of them, or
    that many in all where it touches none: what a script spends on a word decides how long its phrases get. It occurs
    `min_count` times or more, in `min_answers` answers or more, so that an answer that repeats itself makes no phrases.

    With `close_prefixes` every prefix of a phrase is a phrase too, within `num_phrases`: a head that chooses among
    siblings needs that. Method `prefixes` does so anyway.
    """

    method: str = PREFIXES
    num_phrases: int = 8000
    single_token_share: float = 1 / 3
    max_words: int = 3
    max_tokens_per_word: int = 12
    min_count: int = 4
    min_answers: int = 3
    close_prefixes: bool = True

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise OptionError(
                f"`method` is `{self.method}`, it may be {', '.join(f'`{method}`' for method in METHODS)}",
                hint=f"`{PREFIXES}` is what heads are trained on",
            )
        for name in ("num_phrases", "max_tokens_per_word", "min_count", "min_answers"):
            if getattr(self, name) < 1:
                raise OptionError(f"`{name}` is `{getattr(self, name)}`, it must be 1 or more")
        if not 1 <= self.max_words <= MOST_WORDS:
            raise OptionError(
                f"`max_words` is `{self.max_words}`, it must be from 1 to {MOST_WORDS}",
                hint="3 is the default; longer phrases are rarely said again",
            )
        if not 0 <= self.single_token_share <= 1:
            raise OptionError(f"`single_token_share` is `{self.single_token_share}`, it must be from 0 to 1")

    @property
    def num_single_tokens(self) -> int:
        """How many places are kept for single tokens; more are taken where too few longer phrases are found."""
        return int(self.num_phrases * self.single_token_share)
