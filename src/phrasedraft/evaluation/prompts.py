"""Evaluation prompts: the bundled set, or any file with one JSON object a line."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from phrasedraft.errors import DataError, OptionError

BUNDLED = ("gsm8k_test",)
"""The prompt sets that come with the package, by name."""

_FORMAT = 'each line is one JSON object such as {"id": "question-1", "turns": ["What is 2 + 2?"]}'


@dataclass(frozen=True, kw_only=True)
class EvaluationPrompt:
    """A question, or the user's turns of a conversation, with a name that is unique in its file."""

    id: str
    turns: tuple[str, ...]


def load_prompts(source: str, limit: int | None = None) -> list[EvaluationPrompt]:
    """The first `limit` prompts of a bundled set or of a JSONL file; `DataError` names the line that is wrong."""
    if limit is not None and limit < 1:
        raise OptionError(f"the number of prompts is `{limit}`, it may be 1 or more")
    prompts = list(_parse(_read(source), source))
    if not prompts:
        raise DataError(f"prompt file `{source}` holds no prompts", hint=_FORMAT)
    return prompts[:limit]


def _read(source: str) -> bytes:
    if source in BUNDLED:
        return files("phrasedraft.evaluation").joinpath("data", f"{source}.jsonl").read_bytes()
    try:
        return Path(source).read_bytes()
    except OSError as error:
        raise DataError(
            f"prompt file `{source}` cannot be read: {error.strerror or error}",
            hint=f"give a JSONL file, or the name of a bundled set: {', '.join(f'`{name}`' for name in BUNDLED)}",
        ) from error


def _parse(data: bytes, source: str) -> Iterator[EvaluationPrompt]:
    seen: dict[str, int] = {}
    for number, line in enumerate(data.splitlines(), start=1):
        if not line.strip():
            continue
        prompt = _prompt(line, f"line {number} of prompt file `{source}`", f"line-{number}")
        if prompt.id in seen:
            raise DataError(
                f"line {number} of prompt file `{source}` has the id `{prompt.id}`, line {seen[prompt.id]} has it too",
                hint="results are kept by id, so give each prompt its own",
            )
        seen[prompt.id] = number
        yield prompt


def _prompt(line: bytes, where: str, default_id: str) -> EvaluationPrompt:
    try:
        value: Any = json.loads(line.decode("utf-8-sig"))
    except ValueError as error:
        raise DataError(f"{where} is not JSON: {error}", hint=_FORMAT) from error
    turns = value.get("turns") if isinstance(value, dict) else None
    if not isinstance(turns, list) or not turns:
        raise DataError(f"{where} has no list `turns` of the user's messages", hint=_FORMAT)
    for turn in turns:
        if not isinstance(turn, str) or not turn.strip():
            raise DataError(f"{where} has the turn `{turn!r}`, each must be a text that is not empty", hint=_FORMAT)
    return EvaluationPrompt(id=str(value.get("id", default_id)), turns=tuple(turns))
