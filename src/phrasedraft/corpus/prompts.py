"""Training prompts: JSONL in the shapes people have, one conversation or text a line."""

import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from phrasedraft.errors import DataError

FORMAT = (
    'a line is `{"turns": ["user text"]}`, `{"messages": [{"role": "user", "content": "..."}]}`, '
    '`{"conversations": [{"from": "human", "value": "..."}]}`, `{"prompt": "user text"}` or `{"text": "text to go on"}`'
)

ROLES = {
    "human": "user",
    "user": "user",
    "gpt": "assistant",
    "assistant": "assistant",
    "system": "system",
    "developer": "developer",
    "tool": "tool",
}
"""The speakers there may be, and what chat templates call them."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """What one side of a conversation said."""

    role: str
    content: str


@dataclass(frozen=True, kw_only=True)
class TrainingPrompt:
    """What the target is to answer: a conversation, or a plain `text` that it goes on with (no template).

    `opening` ends with the first message the target answers; each of `follow_ups` is the user's next turn after the
    target's own answer. Where `text` is not empty, both are.
    """

    id: str
    opening: tuple[Message, ...] = ()
    follow_ups: tuple[str, ...] = ()
    text: str = ""

    @property
    def num_answers(self) -> int:
        """How many answers the target gives."""
        return 1 + len(self.follow_ups)

    @property
    def answer_ids(self) -> tuple[str, ...]:
        """What each answer is called: the prompt's own id, then `id#2`, `id#3`, ..."""
        return (self.id, *(f"{self.id}#{turn}" for turn in range(2, self.num_answers + 1)))

    def messages(self, answers: Sequence[str]) -> list[Message]:
        """The conversation up to the turn that comes after `answers`."""
        said = list(self.opening)
        for answer, follow_up in zip(answers, self.follow_ups, strict=False):
            said += [Message(role="assistant", content=answer), Message(role="user", content=follow_up)]
        return said


@dataclass(frozen=True, kw_only=True)
class PromptFile:
    """The prompts of one file, in order; `name` is the file's, `sha256` that of its (unpacked) bytes."""

    name: str
    sha256: str
    prompts: tuple[TrainingPrompt, ...]

    @property
    def num_answers(self) -> int:
        """How many answers the target gives to all of them."""
        return sum(prompt.num_answers for prompt in self.prompts)


def read_prompts(path: Path) -> PromptFile:
    """The prompts in `path` (`.jsonl` or `.jsonl.gz`); `DataError` names the line that cannot be used, and why.

    The shapes may be mixed in one file. A final assistant message is dropped, as the target gives its own; earlier
    ones stay. A line without `id` is called by the file's name and its number.
    """
    data = _read(path)
    name = path.name.removesuffix(".gz").removesuffix(".jsonl")
    prompts = tuple(_parse(path, data, name))
    if not prompts:
        raise DataError(f"there are no prompts in `{path}`", hint=FORMAT)
    return PromptFile(name=name, sha256=hashlib.sha256(data).hexdigest(), prompts=prompts)


def _read(path: Path) -> bytes:
    """The unpacked bytes of a file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"prompt file `{path}` cannot be read: {error.strerror}", hint="check the path") from error
    try:
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"prompt file `{path}` is damaged: {error}", hint="copy or pack it again") from error


def _parse(path: Path, data: bytes, name: str) -> Iterator[TrainingPrompt]:
    """Each line as a prompt, blank lines passed over; no answer's id may occur twice."""
    seen: dict[str, int] = {}
    for number, line in enumerate(data.split(b"\n"), start=1):
        if not line.strip():
            continue
        where = f"`{path}` line {number}"
        try:
            prompt = _prompt(json.loads(line.decode("utf-8-sig")), f"{name}:{number}")
        except DataError as error:
            raise DataError(f"{where}: {error}", hint=error.hint or FORMAT) from None
        except (ValueError, RecursionError) as error:
            raise DataError(f"{where} is not JSON: {error}", hint=FORMAT) from error
        for answer_id in prompt.answer_ids:
            if answer_id in seen:
                raise DataError(
                    f"{where} has the id `{answer_id}`, which line {seen[answer_id]} has too",
                    hint="answers are kept by id, so give each prompt its own, or leave `id` out",
                )
            seen[answer_id] = number
        yield prompt


def _prompt(record: Any, default_id: str) -> TrainingPrompt:  # whatever JSON holds
    """One checked record; where it has several shapes, the first named in `FORMAT` counts."""
    if not isinstance(record, dict):
        raise DataError(f"is a {type(record).__name__}, not an object")
    name = _id(record.get("id"), default_id)
    shape = next((key for key in ("turns", "messages", "conversations", "prompt", "text") if _has(record, key)), None)
    if shape is None:
        raise DataError("has none of `turns`, `messages`, `conversations`, `prompt` and `text`")
    value = record[shape]
    if shape == "text":
        return TrainingPrompt(id=name, text=_text(value, "`text`"))
    if shape == "turns":
        turns = [_text(turn, "a turn") for turn in _list(value, "turns")]
        return TrainingPrompt(id=name, opening=(Message(role="user", content=turns[0]),), follow_ups=tuple(turns[1:]))
    if shape == "prompt" and not isinstance(value, list):
        return TrainingPrompt(id=name, opening=(Message(role="user", content=_text(value, "`prompt`")),))
    return TrainingPrompt(id=name, opening=_opening([_message(message) for message in _list(value, shape)]))


def _has(record: dict[str, Any], key: str) -> bool:
    return record.get(key) is not None  # exported tables hold null where a row has another shape


def _id(value: Any, default: str) -> str:
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DataError(f"`id` is `{value!r}`, it may be a text or a number, or left out")
    return str(value)


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list) or not value:
        raise DataError(f"`{name}` is `{_short(value)}`, it must be a list with one entry or more")
    return value


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{what} is `{_short(value)}`, it must be a text that is not empty")
    return _whole(value, what)


def _whole(text: str, what: str) -> str:
    """Refuse half of a character, as a text that was cut between the two may hold: no tokenizer takes it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise DataError(
            f"{what} holds half of a character (`{text[error.start]!a}` at {error.start})",
            hint="it was cut there; cut texts between characters, or leave the line out",
        ) from error
    return text


def _message(value: Any) -> Message:
    """One message, as OpenAI (`role`, `content`) or ShareGPT (`from`, `value`) writes it."""
    if not isinstance(value, dict):
        raise DataError(f"a message is `{_short(value)}`, it must be an object")
    role_key, content_key = ("role", "content") if "role" in value else ("from", "value")
    speaker = value.get(role_key)
    role = ROLES.get(speaker) if isinstance(speaker, str) else None
    if role is None:
        known = ", ".join(f"`{name}`" for name in ROLES)
        raise DataError(f"a message has `{role_key}` `{_short(speaker)}`, it may be {known}")
    content = value.get(content_key)
    if not isinstance(content, str) or (role == "user" and not content.strip()):
        raise DataError(f"a message of `{speaker}` has `{content_key}` `{_short(content)}`, it must be a text")
    return Message(role=role, content=_whole(content, f"a message of `{speaker}`"))


def _opening(messages: list[Message]) -> tuple[Message, ...]:
    """The messages up to the one the target answers."""
    while messages and messages[-1].role == "assistant":
        messages = messages[:-1]
    if not any(message.role == "user" for message in messages):
        raise DataError("has no message of the user that could be answered")
    if messages[-1].role not in ("user", "tool"):
        raise DataError(f"ends with a message of `{messages[-1].role}`, there is nothing to answer")
    return tuple(messages)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
