"""The draft vocabulary: phrases, each a short sequence of the target's own tokens."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
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
from phrasedraft.whole_file import replace_file

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
        problem = _problem(self.phrase_tokens)
        if problem:
            raise OptionError(problem)
        table = self.phrase_tokens.copy()
        table.flags.writeable = False
        object.__setattr__(self, "phrase_tokens", table)

    @classmethod
    def from_phrases(cls, phrases: Iterable[Sequence[int]]) -> "PhraseVocabulary":
        """The vocabulary of `phrases` in their order; of equal ones the first stays."""
        unique = list(dict.fromkeys(tuple(phrase) for phrase in phrases))
        for phrase in unique:
            if not all(0 <= token < 2**31 for token in phrase):
                raise OptionError(f"phrase `{list(phrase)}` holds a token below 0 or of more than 31 bits")
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
        phrases, mismatches = list[tuple[int, ...]](), list[Spelling]()
        for text in dict.fromkeys(texts):
            if not text:
                raise OptionError("a phrase is empty, it must be a text of one character or more")
            tokens, tokenized = speller.longest_match(text), speller.tokenized(text)
            phrases.append(tokens)
            if tokens != tokenized:
                mismatches.append(Spelling(text, tokens, tokenized))
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
        return np.asarray((self.phrase_tokens >= 0).sum(axis=1), dtype=np.int64)

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
        if str(tensor.dtype) != "torch.int32":
            raise HeadFileError(f"`{_KEY}` is {tensor.dtype}, it must be torch.int32", hint=_HINT)
        return cls._from_file(tensor.detach().cpu().numpy(), _KEY)

    def save(self, path: Path, provenance: Mapping[str, str] | None = None) -> None:
        """Write the table and where it comes from to one safetensors file, which appears whole or not at all."""
        metadata = {**(provenance or {}), "fingerprint": self.fingerprint}
        content = to_safetensors({_KEY: self.phrase_tokens}, metadata)
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_file(path, content)

    @classmethod
    def load(cls, path: Path) -> "PhraseVocabulary":
        """The vocabulary in a file that `save` wrote; `HeadFileError` where it is missing, altered or another kind."""
        metadata, table = _read(path)
        vocabulary = cls._from_file(table, str(path))
        if metadata.get("fingerprint") not in {None, vocabulary.fingerprint}:
            raise HeadFileError(f"the phrases in `{path}` are not those it was saved with", hint=_HINT)
        return vocabulary

    @staticmethod
    def provenance(path: Path) -> dict[str, str]:
        """What `save` was told of where the vocabulary in a file comes from; `HeadFileError` as `load`."""
        return {name: text for name, text in _read(path)[0].items() if name != "fingerprint"}

    @classmethod
    def _from_file(cls, table: np.ndarray, name: str) -> "PhraseVocabulary":
        problem = _problem(table)
        if problem:
            raise HeadFileError(f"`{name}` holds no phrase vocabulary: {problem}", hint=_HINT)
        return cls(table)


_HINT = "copy the file again, or mine the vocabulary anew with `phrasedraft mine`"


def _read(path: Path) -> tuple[dict[str, str], np.ndarray]:
    """The metadata and the table of a vocabulary file."""
    try:
        with safe_open(path, framework="np") as file:
            metadata = file.metadata() or {}
            table = file.get_tensor(_KEY) if _KEY in set(file.keys()) else None
    except FileNotFoundError as error:
        raise HeadFileError(f"there is no vocabulary at `{path}`", hint=_HINT) from error
    except (SafetensorError, OSError) as error:
        raise HeadFileError(f"`{path}` is not a whole safetensors file: {error}", hint=_HINT) from error
    if table is None:
        raise HeadFileError(f"`{path}` holds no `{_KEY}`", hint=_HINT)
    return metadata, table


@dataclass(frozen=True)
class Spelling:
    """A phrase's tokens beside those the tokenizer writes for its text on its own; the two may differ."""

    text: str
    tokens: tuple[int, ...]
    tokenized: tuple[int, ...]


@dataclass(frozen=True)
class SpelledPhrases:
    """A vocabulary made from texts, and the texts that are spelled unlike the tokenizer spells them."""

    vocabulary: PhraseVocabulary
    mismatches: tuple[Spelling, ...]


def _phrase(table: np.ndarray, row: int) -> tuple[int, ...]:
    return tuple(token for token in table[row].tolist() if token >= 0)


def _problem(table: np.ndarray) -> str | None:
    """Why an array is no phrase table, None where it is one."""
    if table.dtype != np.int32 or table.ndim != 2:
        return f"`{_KEY}` is {table.dtype} of {table.ndim} axes, it must be int32 with axes phrase and token"
    lengths = (table >= 0).sum(axis=1)
    expected_padding = np.arange(table.shape[1]) >= lengths[:, None]
    broken = ((table == PADDING) != expected_padding).any(axis=1) | (lengths == 0)
    if broken.any():
        row = int(broken.argmax())
        return f"phrase {row} is `{table[row].tolist()}`, it must be one or more tokens of 0 or more, then only `-1`"
    _, first = np.unique(table, axis=0, return_index=True)
    repeated = np.setdiff1d(np.arange(len(table)), first)
    if len(repeated):
        return f"phrase {repeated[0]} is `{_phrase(table, int(repeated[0]))}`, which an earlier phrase is already"
    return None
