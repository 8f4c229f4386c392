"""Real tiny targets that end their answers, and what tests of generated corpora share."""

import copy
import io
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

import texts
import zoo
from phrasedraft import TransformersTarget
from phrasedraft.corpus.prompts import PromptFile, read_prompts

QUESTIONS = ("what is the end?", "she sells shells", "1 + 1", "the story of the sea shore, please", "is it 42?", "STOP")


def quiet() -> Console:
    return Console(file=io.StringIO())


@cache
def ending_target(gain: float = 1.0, *, chat: bool = True, **changes: Any) -> TransformersTarget:
    """A llama whose answers often end in `<|im_end|>`, the less often the smaller `gain` is: that row of its head."""
    tokenizer = copy.deepcopy(texts.byte_level_tokenizer(chat=chat))
    model = zoo.build_model("llama", vocab_size=texts.VOCAB_SIZE, **changes)
    with torch.no_grad():
        model.get_output_embeddings().weight[tokenizer.eos_token_id] *= gain
    return TransformersTarget(model, tokenizer, packed=False, name="tiny")


def with_template(target: TransformersTarget, template: str | None, **changes: Any) -> TransformersTarget:
    """The same model with a tokenizer whose chat template is another."""
    tokenizer = copy.deepcopy(target.tokenizer)
    tokenizer.chat_template = template
    return TransformersTarget(target.model, tokenizer, packed=False, check=False, name="tiny", **changes)


def write_jsonl(path: Path, records: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(record, ensure_ascii=False) + "\n" for record in records))
    return path


def question_file(folder: Path, questions: Sequence[str] = QUESTIONS, name: str = "questions") -> PromptFile:
    records = [{"id": f"q{index}", "turns": [question]} for index, question in enumerate(questions)]
    return read_prompts(write_jsonl(folder / f"{name}.jsonl", records))


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]
