"""How the target's tokenizer writes text: the bytes of each token, and greedy longest match over them."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

from phrasedraft.errors import DataError


@runtime_checkable
class Tokenizer(Protocol):
    """What phrases need of a tokenizer; every tokenizer of transformers has it."""

    @property
    def all_special_ids(self) -> Sequence[int]:
        """The ids of tokens that stand for no text."""
        ...

    @property
    def added_tokens_decoder(self) -> Mapping[int, Any]:
        """Tokens added beside the model's own, by id; each has a `special` flag."""
        ...

    def get_vocab(self) -> Mapping[str, int]:
        """The id of each token by the name the tokenizer stores it under."""
        ...

    def encode(self, text: str, *, add_special_tokens: bool) -> Sequence[int]:
        """The tokens of `text`."""
        ...


def _byte_alphabet() -> dict[str, int]:
    r"""The byte that each character of a byte-level vocabulary stands for: itself if printable, else from U+0100 on.

    >>> alphabet = _byte_alphabet()
    >>> len(alphabet), bytes(alphabet[character] for character in "Ġà¤ķĊ").decode()
    (256, ' क\n')
    """
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    hidden = sorted(set(range(256)) - set(printable))
    return {chr(byte): byte for byte in printable} | {chr(256 + index): byte for index, byte in enumerate(hidden)}


def special_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """The tokens that stand for no text, such as the one that ends an answer."""
    added = {token_id for token_id, token in tokenizer.added_tokens_decoder.items() if token.special}
    return frozenset(tokenizer.all_special_ids) | added


def token_bytes(tokenizer: Tokenizer) -> dict[int, bytes]:
    """The bytes of text each token stands for, special tokens left out.

    Byte-level vocabularies (GPT-2's alphabet, where `Ġ` is a space) and SentencePiece ones (`▁` is a space, `<0xE4>` a
    byte) are told apart by which of the two spaces more tokens begin with; names with neither are taken as they are.
    """
    vocab = tokenizer.get_vocab()
    alphabet = _byte_alphabet()
    num_byte_level = sum(name.startswith("Ġ") for name in vocab)
    is_byte_level = num_byte_level > sum(name.startswith("▁") for name in vocab)
    added = tokenizer.added_tokens_decoder
    special = special_ids(tokenizer)

    def as_bytes(name: str, token_id: int) -> bytes:
        if token_id in added:
            return name.encode()
        if is_byte_level and all(character in alphabet for character in name):
            return bytes(alphabet[character] for character in name)
        if not is_byte_level and len(name) == 6 and name.startswith("<0x") and name.endswith(">"):
            return bytes.fromhex(name[3:5])
        return name.replace("▁", " ").encode("utf-8", "surrogatepass")

    return {token_id: as_bytes(name, token_id) for name, token_id in vocab.items() if token_id not in special}


class Speller:
    """Spells text in the target's tokens in two ways: greedy longest match, and as its tokenizer does."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._bytes = token_bytes(tokenizer)
        self._ids: dict[bytes, int] = {}
        for token_id, piece in sorted(self._bytes.items()):
            self._ids.setdefault(piece, token_id)
        self._longest = max(map(len, self._ids), default=0)

    def longest_match(self, text: str) -> tuple[int, ...]:
        """The tokens of `text`, each the longest one that fits; `DataError` where none does."""
        data, start, tokens = text.encode(), 0, list[int]()
        while start < len(data):
            for end in range(min(len(data), start + self._longest), start, -1):
                token = self._ids.get(data[start:end])
                if token is not None:
                    break
            else:
                raise DataError(
                    f"no token of the target begins the rest `{data[start:].decode(errors='replace')}` of `{text}`",
                    hint="leave this phrase out, its tokenizer would write an unknown token for it",
                )
            tokens.append(token)
            start = end
        return tuple(tokens)

    def tokenized(self, text: str) -> tuple[int, ...]:
        """The tokens the tokenizer writes for `text` inside a text, without the space some put before its start."""
        if not self._prepends_space:
            return self._encode(text)
        if text.startswith(" "):
            return self._encode(text[1:])
        anchor = self._encode("\n")
        anchored = self._encode("\n" + text)
        return anchored[len(anchor) :] if anchored[: len(anchor)] == anchor else self._encode(text)

    @cached_property
    def _prepends_space(self) -> bool:
        return b"".join(self._bytes.get(token, b"") for token in self._encode("a")) == b" a"

    def _encode(self, text: str) -> tuple[int, ...]:
        return tuple(self._tokenizer.encode(text, add_special_tokens=False))
