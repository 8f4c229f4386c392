"""`phrasedraft train`: a head from phrases and answers that exist; traces that exist are used again."""

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from phrasedraft.cli.console import note_console
from phrasedraft.cli.fitting import show_result
from phrasedraft.cli.loading import load_target_quietly
from phrasedraft.cli.options import AsJson, LoadOptions
from phrasedraft.phrases import PhraseVocabulary
from phrasedraft.training.fit import fit
from phrasedraft.training.fit_settings import TOKEN_CHAIN, FitSettings
from phrasedraft.training.settings import with_overrides


def train(
    target: Annotated[str, typer.Argument(help="`smollm2-135m`, a local folder, or a hub id.")],
    corpus: Annotated[
        list[Path], typer.Option("--corpus", metavar="FILE", help="Answers of the target, `.jsonl[.gz]`; repeat it.")
    ],
    phrases: Annotated[Path, typer.Option("--phrases", metavar="FILE", help="What `phrasedraft mine` wrote.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder the head is written to.")],
    work: Annotated[
        Path | None, typer.Option(help="Where traces and checkpoints are kept; `OUTPUT.work` unless given.")
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="Change a setting; repeat it.")
    ] = None,
    max_steps: Annotated[int, typer.Option(min=0, help="Stop early, to try the run out; 0 does not.")] = 0,
    dtype: Annotated[str, typer.Option(help="`auto`, `float32`, `bfloat16` or `float16`.")] = "auto",
    device: Annotated[str, typer.Option(help="`auto` or a torch device.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Train a head for TARGET on the phrases of a file and on answers whose traces are in WORK/traces, or are made.

    Example: phrasedraft train smollm2-135m --corpus answers.jsonl --phrases phrases.safetensors -o my-head
    """
    overrides = [*(settings or []), *([f"training.max_steps={max_steps}"] if max_steps else [])]
    resolved = with_overrides(FitSettings(), overrides)
    vocabulary = PhraseVocabulary.load(phrases)
    mined = json.loads(PhraseVocabulary.provenance(phrases).get("settings", "{}"))
    known = {name: value for name, value in mined.items() if name in vars(resolved.vocabulary)}
    if resolved.head.kind != TOKEN_CHAIN:  # which takes nothing but the single tokens from the file
        resolved = replace(resolved, vocabulary=replace(resolved.vocabulary, **known))
    result = fit(
        load_target_quietly(target, LoadOptions(dtype=dtype, device=device)),
        corpus,
        output,
        resolved,
        work=work or output.absolute().with_name(output.absolute().name + ".work"),
        command=shlex.join(["phrasedraft", *sys.argv[1:]]),
        vocabulary=vocabulary,
        console=note_console(),
    )
    show_result(str(output), result, as_json=as_json)
