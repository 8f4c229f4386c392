"""The corpus: answers of the target to training prompts, one JSON object a line."""

import gzip
import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasedraft.errors import DataError

EXPECTED = 'each line is `{"id": text, "prompt": [token ids], "response": [token ids]}`'


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the target answered to one prompt, in its own tokens."""

    id: str
    prompt: tuple[int, ...]
    response: tuple[int, ...]

    @property
    def num_tokens(self) -> int:
        """How long prompt and response are together."""
        return len(self.prompt) + len(self.response)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The answers of one file, in order; `name` is the file's, `sha256` that of its bytes as they lie on disk."""

    name: str
    sha256: str
    answers: tuple[Answer, ...]

    @property
    def num_response_tokens(self) -> int:
        """How many tokens the target wrote."""
        return sum(len(answer.response) for answer in self.answers)

    @property
    def max_new_tokens(self) -> int:
        """The limit the answers were generated with, as far as they show it: the length of the longest."""
        return max(len(answer.response) for answer in self.answers)


def read_corpora(paths: Sequence[Path]) -> list[Corpus]:
    """The answers in `paths` (`.jsonl` or `.jsonl.gz`); `DataError` names the line that cannot be used."""
    corpora = []
    for path in paths:
        data = _read(path)
        answers = tuple(_parse(path, _unpack(path, data)))
        if not answers:
            raise DataError(f"there are no answers in `{path}`", hint=EXPECTED)
        corpora.append(Corpus(name=corpus_name(path), sha256=hashlib.sha256(data).hexdigest(), answers=answers))
    _refuse_duplicates([answer for corpus in corpora for answer in corpus.answers])
    return corpora


def corpus_name(path: Path) -> str:
    """What the answers in a file are called."""
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(f"corpus `{path}` cannot be read: {error.strerror}", hint="check the path") from error


def _unpack(path: Path, data: bytes) -> str:
    try:
        return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(
            f"corpus `{path}` is damaged: {error}", hint="a killed run may have cut it; copy or generate it again"
        ) from error


def _parse(path: Path, text: str) -> list[Answer]:
    """The answers of one file; blank lines are passed over."""
    answers = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            answers.append(_answer(json.loads(line)))
        except DataError as error:
            raise DataError(f"`{path}` line {number}: {error}", hint=EXPECTED) from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"`{path}` line {number} is not JSON: {error}", hint=EXPECTED) from error
    return answers


def _answer(record: Any) -> Answer:  # whatever JSON holds
    """One checked record."""
    if not isinstance(record, dict):
        raise DataError(f"is a {type(record).__name__}, not an object")
    name = record.get("id")
    if not isinstance(name, str) or not name:
        raise DataError("`id` is missing or not a text")
    prompt, response = (_tokens(record, field) for field in ("prompt", "response"))
    if not response:
        raise DataError(f"answer `{name}` is empty")
    if not prompt:
        raise DataError(f"the prompt of `{name}` is empty")
    return Answer(id=name, prompt=prompt, response=response)


def _tokens(record: dict[str, Any], field: str) -> tuple[int, ...]:
    """A field that holds token ids."""
    value = record.get(field)
    if not isinstance(value, list) or not all(type(token) is int and token >= 0 for token in value):
        raise DataError(f"`{field}` is missing or not a list of token ids")
    return tuple(value)


def _refuse_duplicates(answers: Sequence[Answer]) -> None:
    """Two answers of one id could land on both sides of the held-out split."""
    seen = set()
    for answer in answers:
        if answer.id in seen:
            raise DataError(
                f"answer `{answer.id}` occurs twice", hint="give each file once, and each prompt one answer"
            )
        seen.add(answer.id)


def check_tokens(corpus: Corpus, vocab_size: int, target: str) -> None:
    """Refuse answers that hold tokens the target does not have."""
    for answer in corpus.answers:
        highest = max(*answer.prompt, *answer.response)
        if highest >= vocab_size:
            raise DataError(
                f"answer `{answer.id}` of `{corpus.name}` holds token `{highest}`, target `{target}` has tokens 0 to "
                f"{vocab_size - 1}",
                hint="these are answers of a target with another vocabulary; generate them with `phrasedraft distill`",
            )


def is_held_out(answer: Answer, share: float, seed: int) -> bool:
    """Whether an answer belongs to the `share` held out; its id and `seed` alone decide, so the side never changes.

    The answers of one conversation (`id`, `id#2`, ...) hold each other as prompts, so they stay together.
    """
    conversation = re.sub(r"#\d+$", "", answer.id)
    draw = int.from_bytes(hashlib.sha256(f"{seed} {conversation}".encode()).digest()[:8]) / 2**64
    return draw < share
