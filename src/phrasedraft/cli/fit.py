"""`phrasedraft fit`: a head for a target, from answers of that target."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from phrasedraft.target.loading import load_target
from phrasedraft.training.fit import FitSettings, summary
from phrasedraft.training.fit import fit as fit_head
from phrasedraft.training.settings import with_overrides


def fit(
    target: Annotated[str, typer.Argument(help="`smollm2-135m`, a local folder, or a hub id.")],
    corpus: Annotated[
        list[Path], typer.Option(help="Answers of the target, `.jsonl` or `.jsonl.gz`; give it once a file.")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder the head is written to.")],
    work: Annotated[
        Path | None, typer.Option(help="Where traces and checkpoints are kept; `OUTPUT.work` unless given.")
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting: `training.num_epochs=4`; repeat it for more."),
    ] = None,
    dtype: Annotated[str, typer.Option(help="`auto`, `float32`, `bfloat16` or `float16`.")] = "auto",
    device: Annotated[str, typer.Option(help="`auto` or a torch device.")] = "auto",
    as_json: Annotated[bool, typer.Option("--json", help="Print the held-out figures as JSON.")] = False,
) -> None:
    """Train a phrase head for TARGET on answers the target generated.

    Example: phrasedraft fit smollm2-135m --corpus gsm8k_train.jsonl.gz --corpus chat_train.jsonl.gz -o my-head
    """
    resolved = with_overrides(FitSettings(), settings or [])
    result = fit_head(
        load_target(target, dtype=dtype, device=device),
        corpus,
        output,
        resolved,
        work=work or output.with_name(output.name + ".work"),
        command=shlex.join(["phrasedraft", *sys.argv[1:]]),
        console=Console(stderr=True),
    )
    tables = {
        name: {str(nodes): summary(stats) for nodes, stats in table.items()} for name, table in result.replayed.items()
    }
    if as_json:
        typer.echo(json.dumps({"output": str(output), "held_out": tables}))
        return
    for name, table in tables.items():
        for nodes, line in table.items():
            typer.echo(f"{name}\t{nodes} draft tokens\t{line['tokens_per_pass']:.3f} tokens per pass")
