"""What is refused before a benchmark measures anything."""

import hashlib
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from phrasedraft.cli.bench_entrants import Rival
from phrasedraft.corpus.prompts import TrainingPrompt
from phrasedraft.errors import DataError, OptionError, PromptError
from phrasedraft.evaluation.bench.folder import ResultsFolder
from phrasedraft.evaluation.dialogue import Dialogue
from phrasedraft.target.loading import DTYPES
from phrasedraft.target.model import TransformersTarget

SAMPLED = 1024
"""So many numbers of each weight tell one target from another."""


def check_output(output: Path) -> None:
    """Raise `OptionError` where no folder can be made at `output`."""
    nearest = next(each for each in (output.absolute(), *output.absolute().parents) if each.exists())
    if not nearest.is_dir():
        raise OptionError(f"`{output}` is no folder: `{nearest}` is a file", hint="give another folder with `-o`")
    if not os.access(nearest, os.W_OK):
        raise OptionError(f"`{output}` cannot be written", hint="give another folder with `-o`")


def parse_dtypes(text: str) -> tuple[str, ...]:
    """The dtypes in a comma-separated list.

    >>> parse_dtypes("float32, bfloat16")
    ('float32', 'bfloat16')
    """
    dtypes, known = tuple(part.strip() for part in text.split(",")), ("auto", *DTYPES)
    if not set(dtypes) <= set(known) or len(set(dtypes)) < len(dtypes):
        raise OptionError(
            f"`--dtype` is `{text}`, it may be different ones of {', '.join(f'`{each}`' for each in known)}",
            hint="`float32,bfloat16` measures both",
        )
    return dtypes


def check_prompts(sets: Mapping[str, Sequence[Dialogue]], context_limit: int | None) -> None:
    """Raise for the first prompt that the target cannot be asked, with its name."""
    for name, dialogues in sets.items():
        for dialogue in dialogues:
            where = f"prompt `{dialogue.answer_ids[0]}` of `{name}`"
            try:
                tokens = dialogue.tokens([]) or []
            except PromptError as error:
                raise PromptError(f"{where}: {error}", hint=error.hint) from error
            if context_limit is not None and len(tokens) >= context_limit:
                raise PromptError(
                    f"{where} has {len(tokens):,} tokens, the target's context has {context_limit:,}",
                    hint="leave the prompt out, or measure a target with a longer context",
                )


def check_same_prompts(sets: Mapping[str, Sequence[TrainingPrompt]], folder: ResultsFolder) -> None:
    """Raise `DataError` where the folder holds answers to another prompt of the same name; remember these."""
    known = folder.notes.setdefault("prompts", {})
    for name, prompts in sets.items():
        digests = known.setdefault(name, {})
        for prompt in prompts:
            digest = hashlib.sha256(repr(prompt).encode("utf-8", "surrogatepass")).hexdigest()[:16]
            if digests.setdefault(prompt.id, digest) != digest:
                raise DataError(
                    f"the results hold answers to another prompt `{prompt.id}` of `{name}`",
                    hint="give another folder with `-o`, or the prompts the run was begun with",
                )


def check_same_target(target: TransformersTarget, folder: ResultsFolder, output: Path) -> None:
    """Raise `OptionError` where the folder holds results of other weights in the same dtype; remember these."""
    known = folder.notes.setdefault("target_weights", {})
    dtype, digest = str(target.model.dtype), _weights_sample(target.model)
    if known.setdefault(dtype, digest) != digest:
        raise OptionError(
            f"`{output}` holds results of other weights of `{target.identity.name}`",
            hint="give another folder with `-o`",
        )


def _weights_sample(model: torch.nn.Module) -> str:
    """A hash of some numbers of every weight."""
    digest = hashlib.sha256()
    for name, tensor in model.state_dict().items():
        some = tensor.flatten()[:: max(tensor.numel() // SAMPLED, 1)]
        digest.update(name.encode() + some.float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]


def check_same_drafters(rivals: Sequence[Rival], folder: ResultsFolder, output: Path) -> None:
    """Raise `OptionError` where the folder holds results of another drafter of the same name; remember these."""
    known = folder.notes.setdefault("drafters", {})
    for rival in rivals:
        digest = rival.digest()
        if known.setdefault(rival.label, digest) != digest:
            raise OptionError(
                f"`{output}` holds results of another `{rival.label}`", hint="give another folder with `-o`"
            )
