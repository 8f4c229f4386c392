"""`phrasedraft fit`: a head for a target, from prompts or from answers of that target."""

from pathlib import Path
from typing import Annotated

import typer

from phrasedraft.cli.fitting import FitOptions, run_fit
from phrasedraft.cli.options import AsJson


def fit(
    target: Annotated[
        str | None, typer.Argument(help="`smollm2-135m`, a local folder, or a hub id; unless the recipe names it.")
    ] = None,
    prompts: Annotated[
        list[Path] | None,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help="Prompts the target answers first: `.jsonl` with `turns`, `messages`, `conversations`, `prompt` or "
            "`text`; repeat it.",
        ),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option("--corpus", metavar="FILE", help="Answers the target gave before, `.jsonl[.gz]`; repeat it."),
    ] = None,
    output: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="DIR | SECTION.FIELD=VALUE",
            help="The folder the head is written to; or one setting, as `-o training.num_epochs=4`; repeat it.",
        ),
    ] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="SECTION.FIELD=VALUE", help="The same for a setting.")
    ] = None,
    recipe: Annotated[
        Path | None, typer.Option("--recipe", metavar="FILE", help="A TOML file with all of this; options go over it.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option(help="Keeps answers, traces, checkpoints between runs; `OUTPUT.work` unless given.")
    ] = None,
    self_prompts: Annotated[
        int | None, typer.Option("--self-prompts", min=1, help="Let the target make up this many prompts of its own.")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="An OpenAI-compatible server that answers for the target."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="What that server calls the target.")] = None,
    system_prompt: Annotated[str | None, typer.Option(help="The system message of prompts that have none.")] = None,
    thinking: Annotated[str | None, typer.Option(help="`on` or `off` for chat templates with such a switch.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Stop training early, to try the whole run out.")] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what time, disk and memory it would take, and do nothing.")
    ] = False,
    dtype: Annotated[str | None, typer.Option(help="`auto`, `float32`, `bfloat16` or `float16`.")] = None,
    device: Annotated[str | None, typer.Option(help="`auto` or a torch device.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train a phrase head for TARGET: it answers the prompts, and the head learns to say what it will say.

    A run that was stopped goes on with the same command. `recipe.toml` beside the head is all that was decided.

    Example: phrasedraft fit smollm2-135m --prompts questions.jsonl -o my-head
    """
    given = {
        "target": target,
        "prompts": tuple(map(str, prompts)) if prompts else None,
        "corpora": tuple(map(str, corpus)) if corpus else None,
        "num_self_prompts": self_prompts,
        "endpoint": endpoint,
        "endpoint_model": model,
        "work": str(work) if work else None,
        "dtype": dtype,
        "device": device,
    }
    sections = {
        "distill.template.system_prompt": system_prompt,
        "distill.template.thinking": thinking,
        "training.max_steps": max_steps,
    }
    options = FitOptions(
        recipe=recipe,
        given={name: value for name, value in given.items() if value is not None},
        sections={name: value for name, value in sections.items() if value is not None},
        outputs=tuple(output or ()),
        overrides=tuple(settings or ()),
    )
    run_fit(options, dry_run=dry_run, as_json=as_json)
