"""The draft vocabulary: phrases, each a short sequence of the target's own tokens."""

import hashlib
import os
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from jaxtyping import Int32, Int64
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_safetensors

from phrasedraft.errors import HeadFileError, OptionError
from phrasedraft.phrases.spelling import Speller, Tokenizer
from phrasedraft.phrases.trie import PhraseTrie

if TYPE_CHECKING:
    import torch

PADDING = -1
_KEY = "phrase_tokens"


@dataclass(frozen=True, eq=False)
class PhraseVocabulary:
    """Phrases by id: row `phrase_id` holds the phrase's tokens, padded on the right with -1.

    `OptionError` unless every row has a token, tokens are 0 or more, and no two rows are the same. No phrase at all is
    fine: such a vocabulary drafts nothing.

    >>> vocabulary = PhraseVocabulary.from_phrases([(7, 8, 9), (5,), (7, 8, 9)])
    >>> len(vocabulary), vocabulary.max_tokens, vocabulary.lengths.tolist(), vocabulary.expand(0)
    (2, 3, [3, 1], (7, 8, 9))
    """

    phrase_tokens: Int32[np.ndarray, "phrase token"]

    def __post_init__(self) -> None:
        table = self.phrase_tokens
        if table.dtype != np.int32 or table.ndim != 2:
            raise OptionError(
                f"`phrase_tokens` is {table.dtype} of {table.ndim} axes, it must be int32 with axes phrase and token"
            )
        lengths = (table >= 0).sum(axis=1)
        tokens_first = np.arange(table.shape[1]) < lengths[:, None]
        broken = (np.where(tokens_first, table >= 0, table == PADDING) == 0).any(axis=1) | (lengths == 0)
        if broken.any():
            row = int(broken.argmax())
            raise OptionError(
                f"phrase {row} is `{table[row].tolist()}`: it must be one or more tokens of 0 or more, then only `-1`"
            )
        repeated = _repeated_row(table)
        if repeated is not None:
            raise OptionError(f"phrase {repeated} is `{_phrase(table, repeated)}`, which an earlier phrase is already")
        table.flags.writeable = False

    @classmethod
    def from_phrases(cls, phrases: Iterable[Sequence[int]]) -> "PhraseVocabulary":
        """The vocabulary of `phrases` in their order; of equal ones the first stays."""
        unique = list(dict.fromkeys(tuple(phrase) for phrase in phrases))
        table = np.full((len(unique), max(map(len, unique), default=1)), PADDING, dtype=np.int32)
        for row, phrase in enumerate(unique):
            table[row, : len(phrase)] = phrase
        return cls(table)

    @classmethod
    def from_texts(cls, texts: Iterable[str], tokenizer: Tokenizer) -> "SpelledPhrases":
        """The vocabulary of phrases given as text, spelled by greedy longest match over the target's own tokens.

        Texts that come out alike are one phrase; `DataError` for a text the target has no tokens for.
        """
        speller = Speller(tokenizer)
        phrases, mismatches = list[tuple[int, ...]](), list[SpellingMismatch]()
        for text in dict.fromkeys(texts):
            if not text:
                raise OptionError("a phrase is empty, it must be a text of one character or more")
            tokens, tokenized = speller.longest_match(text), speller.tokenized(text)
            phrases.append(tokens)
            if tokens != tokenized:
                mismatches.append(SpellingMismatch(text, tokens, tokenized))
        return SpelledPhrases(cls.from_phrases(phrases), tuple(mismatches))

    def __len__(self) -> int:
        return len(self.phrase_tokens)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PhraseVocabulary):
            return NotImplemented
        return np.array_equal(self.phrase_tokens, other.phrase_tokens)

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @property
    def max_tokens(self) -> int:
        """The width of the table; no phrase has more tokens."""
        return int(self.phrase_tokens.shape[1])

    @cached_property
    def lengths(self) -> Int64[np.ndarray, " phrase"]:
        """The number of tokens of each phrase."""
        return (self.phrase_tokens >= 0).sum(axis=1, dtype=np.int64)

    @cached_property
    def trie(self) -> PhraseTrie:
        """The prefix tree of the phrases."""
        return PhraseTrie.of(self.phrase_tokens)

    @cached_property
    def fingerprint(self) -> str:
        """A hash of the whole table: two heads with the same one draft from the same phrases."""
        shape = f"{self.phrase_tokens.shape}".encode()
        return hashlib.sha256(shape + self.phrase_tokens.astype("<i4").tobytes()).hexdigest()[:32]

    def expand(self, phrase_id: int) -> tuple[int, ...]:
        """The tokens of one phrase."""
        return _phrase(self.phrase_tokens, phrase_id)

    def to_tensor(self) -> "torch.Tensor":
        """The table as an int32 tensor of its own memory, the way a head's file holds it."""
        import torch  # phrases work without it

        return torch.from_numpy(self.phrase_tokens.copy())

    @classmethod
    def from_tensor(cls, tensor: "torch.Tensor") -> "PhraseVocabulary":
        """The vocabulary a head's file holds; `HeadFileError` where the tensor is none."""
        return cls._from_file(tensor.detach().cpu().numpy().copy(), "phrase_tokens")

    def save(self, path: Path) -> None:
        """Write the table to one safetensors file, which appears whole or not at all."""
        content = to_safetensors({_KEY: self.phrase_tokens}, {"fingerprint": self.fingerprint})
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise

    @classmethod
    def load(cls, path: Path) -> "PhraseVocabulary":
        """The vocabulary in a file that `save` wrote; `HeadFileError` where it is missing, altered or another kind."""
        try:
            with safe_open(path, framework="np") as file:
                metadata = file.metadata() or {}
                if _KEY not in file.keys():  # noqa: SIM118 - the file object is no mapping
                    raise HeadFileError(f"`{path}` holds no `{_KEY}`", hint=_HINT)
                table = file.get_tensor(_KEY)
        except FileNotFoundError as error:
            raise HeadFileError(f"there is no vocabulary at `{path}`", hint=_HINT) from error
        except (SafetensorError, IsADirectoryError) as error:
            raise HeadFileError(f"`{path}` is not a whole safetensors file: {error}", hint=_HINT) from error
        vocabulary = cls._from_file(table, str(path))
        if metadata.get("fingerprint") not in {None, vocabulary.fingerprint}:
            raise HeadFileError(f"the phrases in `{path}` are not those it was saved with", hint=_HINT)
        return vocabulary

    @classmethod
    def _from_file(cls, table: np.ndarray, name: str) -> "PhraseVocabulary":
        try:
            return cls(table)
        except OptionError as error:
            raise HeadFileError(f"`{name}` holds no phrase vocabulary: {error}", hint=_HINT) from error


_HINT = "copy the file again, or mine the vocabulary anew with `phrasedraft vocabulary`"


@dataclass(frozen=True)
class SpellingMismatch:
    """A phrase that greedy longest match spells unlike the tokenizer, so it matches that text less often."""

    text: str
    tokens: tuple[int, ...]
    tokenized: tuple[int, ...]


@dataclass(frozen=True)
class SpelledPhrases:
    """A vocabulary made from texts, and the texts that are spelled unlike the tokenizer spells them."""

    vocabulary: PhraseVocabulary
    mismatches: tuple[SpellingMismatch, ...]


def _phrase(table: np.ndarray, row: int) -> tuple[int, ...]:
    return tuple(token for token in table[row].tolist() if token >= 0)


def _repeated_row(table: np.ndarray) -> int | None:
    """The first row that an earlier row equals."""
    _, first = np.unique(table, axis=0, return_index=True) if len(table) else (None, np.arange(0))
    repeated = np.setdiff1d(np.arange(len(table)), first)
    return int(repeated[0]) if len(repeated) else None
