"""Prompts for users who have none: the target goes on where a user's turn begins, and so asks its own questions.

The idea is that of Magpie (Xu et al. 2024, arXiv:2406.08464): an aligned model has seen many user turns.
"""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any

from rich.console import Console

from phrasedraft.corpus.answer_progress import AnswerProgress
from phrasedraft.corpus.block_file import Block, BlockFile
from phrasedraft.corpus.distill import Answerer, DistillSettings, Question, local_answerer, recipe_of
from phrasedraft.corpus.prompts import Message, PromptFile, read_prompts
from phrasedraft.corpus.template import TemplateSettings, encode_messages, has_template
from phrasedraft.errors import DataError, OptionError, PromptError
from phrasedraft.phrases.spelling import special_ids
from phrasedraft.target import TransformersTarget
from phrasedraft.target.fingerprint import DatedTemplate

MARKERS = ("Zebra crossing", "7 of them", "(so far)", "how it works")
"""Beginnings of a user's turn with nothing in common: what their renderings share is the template's own."""

MAX_TRIES_EACH = 8
"""How many turns may be sampled for each prompt that is asked for, before it is clear that they repeat."""


@dataclass(frozen=True, kw_only=True)
class SelfPromptSettings:
    """How the target makes up prompts; a turn that is cut at `max_new_tokens` is kept as it is."""

    max_new_tokens: int = 128
    temperature: float = 1.0
    top_p: float = 0.95
    top_k: int = 0
    seed: int = 0
    batch_size: int = 32
    template: TemplateSettings = field(default_factory=TemplateSettings)

    def __post_init__(self) -> None:
        if self.temperature == 0:
            raise OptionError("`temperature` is `0.0`: all prompts would be the same", hint="1.0 is a good value")
        _ = self.as_distill  # which checks the others

    @property
    def as_distill(self) -> DistillSettings:
        """The same, as settings of answers."""
        return DistillSettings(
            max_new_tokens=self.max_new_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            seed=self.seed,
            batch_size=self.batch_size,
            template=self.template,
        )


@dataclass(frozen=True, kw_only=True)
class UserTurn:
    """Where a user's turn begins (`start`, token ids), and the text that ends it where no special token does."""

    start: tuple[int, ...]
    after: str


def make_prompts(
    target: TransformersTarget,
    count: int,
    settings: SelfPromptSettings,
    path: Path,
    *,
    answerer: Answerer | None = None,
    made_by: dict[str, Any] | None = None,
    console: Console | None = None,
) -> PromptFile:
    """`count` prompts the target makes up, no two alike, written to `path`; a killed run goes on where it was.

    The same settings give the same bytes on the same machine. Lines are `turns` for a target with a chat template,
    `text` for one without. `answerer` samples them elsewhere (see `endpoint`), `made_by` then says where.
    """
    if count < 1:
        raise OptionError(f"the number of prompts is `{count}`, it may be 1 or more")
    console = console or Console(stderr=True)
    made_by = made_by or {"dtype": str(target.network.dtype).removeprefix("torch.")}
    turn = user_turn(target, settings.template, date.today())
    recipe = recipe_of(target, settings, made_by)
    file = BlockFile(path, recipe | {"count": count})
    if file.recipe["date"] != recipe["date"]:
        turn = user_turn(target, settings.template, date.fromisoformat(file.recipe["date"]))
    answer = answerer or local_answerer(target, settings.as_distill)
    most = math.ceil(count * MAX_TRIES_EACH / settings.batch_size)
    with AnswerProgress(
        console, path.name, total=count, completed=len(file.records), longest=settings.max_new_tokens
    ) as progress:
        while len(file.records) < count:
            if file.num_blocks >= most:
                raise DataError(
                    f"{most * settings.batch_size} sampled turns gave {len(file.records)} different prompts of the "
                    f"{count} asked for",
                    hint="raise `temperature` or `top_p`, ask for fewer, or bring prompts of your own",
                )
            block = _block(target, turn, settings, file, count, answer, progress.tokens)
            file.append(block)
            progress.finished(len(block.records))
    return read_prompts(path)


def _block(
    target: TransformersTarget,
    turn: UserTurn,
    settings: SelfPromptSettings,
    file: BlockFile,
    count: int,
    answer: Answerer,
    on_tokens: Callable[[int], None],
) -> Block:
    """The prompts of the next block of tries that are neither empty nor there already."""
    shape = "turns" if has_template(target) else "text"
    first = file.num_blocks * settings.batch_size
    names = [f"self-{number}" for number in range(first, first + settings.batch_size)]
    seen = {_content(record) for record in file.records}
    records: list[dict[str, Any]] = []
    for name, tokens in zip(
        names, answer([Question(id=name, prompt=turn.start) for name in names], on_tokens), strict=True
    ):
        text = _text(target, tokens or (), turn.after)
        if text and text not in seen and len(file.records) + len(records) < count:
            seen.add(text)
            records.append({"id": name, shape: [text] if shape == "turns" else text, "source": "self"})
    return Block(records=records, left_out={"empty_or_repeated": len(names) - len(records)})


def _content(record: dict[str, Any]) -> str:
    return str(record["turns"][0] if "turns" in record else record["text"])


def _text(target: TransformersTarget, tokens: Sequence[int], after: str) -> str:
    """What the user says: up to the first special token, or to where the template would go on."""
    assert target.tokenizer is not None
    special = special_ids(target.tokenizer) | target.eos_token_ids
    end = next((index for index, token in enumerate(tokens) if token in special), len(tokens))
    text = str(target.tokenizer.decode(list(tokens[:end])))
    if after and after in text:
        text = text[: text.index(after)]
    return text.replace("\ufffd", "").strip()


def user_turn(target: TransformersTarget, settings: TemplateSettings, today: date) -> UserTurn:
    """Where the user's turn begins in the target's template; for a target without one, where a text begins."""
    tokenizer = target.tokenizer
    if tokenizer is None or not has_template(target):
        if settings != TemplateSettings():
            warnings.warn(
                "the target has no chat template: `thinking` and `system_prompt` have no effect", stacklevel=1
            )
        return UserTurn(start=_beginning(target), after="")
    template = DatedTemplate(target, today)
    rendered = [encode_messages(template, [Message(role="user", content=marker)], settings) for marker in MARKERS]
    start, end = _shared(rendered), _shared([tokens[::-1] for tokens in rendered])[::-1]
    for tokens, marker in zip(rendered, MARKERS, strict=True):
        content = str(tokenizer.decode(tokens[len(start) : len(tokens) - len(end)]))
        if not start or marker not in content or not content.lstrip().startswith(marker):
            raise PromptError(
                f"the chat template of `{target.identity.name}` does not show where a user's turn begins",
                hint="bring prompts of your own",
            )
    special = special_ids(tokenizer)
    before_special = next((index for index, token in enumerate(end) if token in special), len(end))
    return UserTurn(start=tuple(start), after=str(tokenizer.decode(end[:before_special])).strip())


def _shared(rows: Sequence[Sequence[int]]) -> list[int]:
    """The tokens all rows begin with."""
    shared: list[int] = []
    for column in zip(*rows, strict=False):
        if len(set(column)) > 1:
            break
        shared.append(column[0])
    return shared


def _beginning(target: TransformersTarget) -> tuple[int, ...]:
    """The token a text begins with: the tokenizer's own, else the one that ends texts, which stands between them."""
    candidates = [*target.encode(""), getattr(target.tokenizer, "bos_token_id", None), *sorted(target.eos_token_ids)]
    first = next((token for token in candidates if token is not None), None)
    if first is None:
        raise PromptError(
            f"the tokenizer of `{target.identity.name}` has no token that begins a text",
            hint="bring prompts of your own",
        )
    return (int(first),)
