"""The corpus: what the target answers to training prompts, in its own tokens, generated on this machine in batches."""

import hashlib
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console

from phrasedraft.choice import GREEDY, Choice
from phrasedraft.corpus.answer_progress import AnswerProgress
from phrasedraft.corpus.answers import Corpus, read_corpora
from phrasedraft.corpus.block_file import Block, BlockFile
from phrasedraft.corpus.prompts import PromptFile, TrainingPrompt
from phrasedraft.corpus.template import TemplateSettings, check_template, encode_prompt, template_fingerprint
from phrasedraft.decoding.prompt import check_prompt
from phrasedraft.errors import DataError, OptionError
from phrasedraft.target import TransformersTarget
from phrasedraft.target.batching import answer_batch

FORMAT_VERSION = 1
TOO_LONG, UNREADABLE = "too_long", "unreadable"
"""Why an answer may be left out: no room in the context, or a server's text that is not these tokens'."""


@dataclass(frozen=True, kw_only=True)
class DistillSettings:
    """How answers are generated; temperature 0 is greedy, `top_k` 0 and `top_p` 1 leave all tokens in.

    `batch_size` prompts of the file are answered, written and resumed together.
    """

    max_new_tokens: int = 256
    temperature: float = 0.0
    top_p: float = 1.0
    top_k: int = 0
    seed: int = 0
    batch_size: int = 32
    template: TemplateSettings = field(default_factory=TemplateSettings)

    def __post_init__(self) -> None:
        _require(self.max_new_tokens >= 1, "max_new_tokens", self.max_new_tokens, "1 or more")
        _require(math.isfinite(self.temperature) and self.temperature >= 0, "temperature", self.temperature, ">= 0")
        _require(0 < self.top_p <= 1, "top_p", self.top_p, "above 0 and at most 1")
        _require(self.top_k >= 0, "top_k", self.top_k, "0 or more")
        _require(self.seed >= 0, "seed", self.seed, "0 or more")
        _require(self.batch_size >= 1, "batch_size", self.batch_size, "1 or more")

    def choice(self, name: str) -> Choice:
        """How the answer called `name` is chosen: sampled ones have a seed of their own, whatever is beside them."""
        if self.temperature == 0:
            return GREEDY
        return Choice(
            temperature=self.temperature, top_p=self.top_p, top_k=self.top_k or None, seed=seed_of(self.seed, name)
        )

    def warn(self) -> None:
        """Warn about settings that change nothing."""
        if self.temperature == 0 and (self.top_p < 1 or self.top_k):
            warnings.warn("with `temperature` 0, `top_p` and `top_k` have no effect", stacklevel=1)


@dataclass(frozen=True, kw_only=True)
class Question:
    """One turn to be answered."""

    id: str
    prompt: tuple[int, ...]


Answerer: TypeAlias = Callable[[Sequence[Question], Callable[[int], None]], list[list[int] | None]]
"""Answers questions, telling how many tokens came just now; None for an answer that has to be left out."""


def seed_of(seed: int, name: str) -> int:
    """The seed of one answer (63 bits, which every server takes)."""
    return int.from_bytes(hashlib.sha256(f"{seed} {name}".encode()).digest()[:8]) >> 1


def local_answerer(target: TransformersTarget, settings: DistillSettings) -> Answerer:
    """The target itself answers, all questions in one batch."""

    def answer(questions: Sequence[Question], on_tokens: Callable[[int], None]) -> list[list[int] | None]:
        answers = answer_batch(
            target,
            [question.prompt for question in questions],
            max_new_tokens=settings.max_new_tokens,
            choices=[settings.choice(question.id) for question in questions],
            on_tokens=on_tokens,
        )
        return list(answers)

    return answer


def distill(
    target: TransformersTarget,
    prompts: PromptFile,
    settings: DistillSettings,
    path: Path,
    *,
    console: Console | None = None,
) -> Corpus:
    """The target's answers to `prompts`, written to `path` as they are made; a killed run goes on where it was.

    The same prompts and settings give the same bytes on the same machine. Raises `DataError` where `path` was begun
    with another recipe or all answers are empty, `PromptError` for conversations and a target without a template.
    """
    made_by = {"dtype": str(target.network.dtype).removeprefix("torch.")}
    return write_answers(
        target, prompts, settings, path, local_answerer(target, settings), made_by=made_by, console=console
    )


def write_answers(
    target: TransformersTarget,
    prompts: PromptFile,
    settings: DistillSettings,
    path: Path,
    answerer: Answerer,
    *,
    made_by: dict[str, Any],
    console: Console | None = None,
) -> Corpus:
    """What `distill` does, with answers from anywhere; `made_by` joins the recipe."""
    console = console or Console(stderr=True)
    settings.warn()
    check_template(target, prompts.prompts, settings.template)
    recipe = recipe_of(target, settings, made_by) | {"prompts": {"name": prompts.name, "sha256": prompts.sha256}}
    file = BlockFile(path, recipe)
    today = date.fromisoformat(file.recipe["date"])
    size = settings.batch_size
    blocks = [prompts.prompts[start : start + size] for start in range(0, len(prompts.prompts), size)]
    num_done = sum(prompt.num_answers for block in blocks[: file.num_blocks] for prompt in block)
    if num_done:
        console.print(f"going on after {num_done:,} of {prompts.num_answers:,} answers in {path}", soft_wrap=True)
    with AnswerProgress(
        console, path.name, total=prompts.num_answers, completed=num_done, longest=settings.max_new_tokens
    ) as progress:
        for block in blocks[file.num_blocks :]:
            file.append(_answered(target, block, settings, today, answerer, progress.tokens))
            progress.finished(sum(prompt.num_answers for prompt in block))
    return _finished(target, prompts, settings, file)


def recipe_of(target: TransformersTarget, settings: Any, made_by: dict[str, Any]) -> dict[str, Any]:
    """What decides the text a target generates; `settings` is a dataclass with a `template`."""
    identity = target.identity
    return {
        "format_version": FORMAT_VERSION,
        "target": identity.name,
        "tokenizer_fingerprint": identity.tokenizer_fingerprint(identity.vocab_size),
        "template_fingerprint": template_fingerprint(target, settings.template),
        "settings": asdict(settings),
        "made_by": made_by,
        "date": date.today().isoformat(),
    }


def _answered(
    target: TransformersTarget,
    prompts: Sequence[TrainingPrompt],
    settings: DistillSettings,
    today: date,
    answerer: Answerer,
    on_tokens: Callable[[int], None],
) -> Block:
    """One block: first turns are answered together, then second turns, and so on; lines are in the prompts' order."""
    assert target.tokenizer is not None
    lines: dict[str, dict[str, Any]] = {}
    said: dict[str, list[str]] = {prompt.id: [] for prompt in prompts}
    left_out: Counter[str] = Counter()
    waiting = list(prompts)
    while waiting:
        asked: list[tuple[TrainingPrompt, Question]] = []
        for prompt in waiting:
            turn = len(said[prompt.id])
            tokens = encode_prompt(target, prompt, settings.template, today, said[prompt.id])
            if target.context_limit is not None and len(tokens) + settings.max_new_tokens > target.context_limit:
                left_out[TOO_LONG] += prompt.num_answers - turn
                continue
            check_prompt(target, tokens)
            asked.append((prompt, Question(id=prompt.answer_ids[turn], prompt=tuple(tokens))))
        asked.sort(key=lambda pair: len(pair[1].prompt))  # like lengths together, so that little is padded
        answers = answerer([question for _, question in asked], on_tokens) if asked else []
        waiting = []
        for (prompt, question), answer in zip(asked, answers, strict=True):
            if answer is None:
                left_out[UNREADABLE] += prompt.num_answers - len(said[prompt.id])
                continue
            lines[question.id] = _line(question, answer, target.eos_token_ids)
            said[prompt.id].append(target.tokenizer.decode(answer, skip_special_tokens=True))
            if len(said[prompt.id]) < prompt.num_answers:
                waiting.append(prompt)
    order = [name for prompt in prompts for name in prompt.answer_ids if name in lines]
    return Block(records=[lines[name] for name in order], left_out=left_out)


def _line(question: Question, answer: Sequence[int], eos_token_ids: frozenset[int]) -> dict[str, Any]:
    finish = "stop" if answer[-1] in eos_token_ids else "length"
    return {"id": question.id, "prompt": list(question.prompt), "response": list(answer), "finish": finish}


def _finished(target: TransformersTarget, prompts: PromptFile, settings: DistillSettings, file: BlockFile) -> Corpus:
    """The whole corpus; warns about what was left out, refuses what nothing can be learnt from."""
    too_long, unreadable = file.left_out.get(TOO_LONG, 0), file.left_out.get(UNREADABLE, 0)
    room = f"`max_new_tokens` {settings.max_new_tokens} leave no room in the context of {target.context_limit} tokens"
    if not file.records and unreadable:
        raise DataError(
            f"no answer of the {prompts.num_answers} could be kept: the server's texts are not what its tokens, or the "
            f"tokens of `{target.identity.name}`, spell",
            hint="the server has to serve this very target; check its model and tokenizer",
        )
    if not file.records:
        raise DataError(
            f"none of the {prompts.num_answers} answers can be given: prompts and {room}",
            hint="lower `max_new_tokens`, or give shorter prompts",
        )
    if all(set(record["response"]) <= target.eos_token_ids for record in file.records):
        raise DataError(
            f"all {len(file.records)} answers in `{file.path}` are empty: the target ends its turn at once",
            hint="check that the chat template and the tokenizer are those of the target",
        )
    if too_long:
        warnings.warn(f"{too_long} of {prompts.num_answers} answers were left out: prompt and {room}", stacklevel=1)
    if unreadable:
        warnings.warn(
            f"{unreadable} of {prompts.num_answers} answers were left out: the server's text does not tell its tokens",
            stacklevel=1,
        )
    return read_corpora([file.path])[0]


def _require(holds: bool, name: str, value: object, allowed: str) -> None:
    if not holds:
        raise OptionError(f"`{name}` is `{value}`, it may be {allowed}")
