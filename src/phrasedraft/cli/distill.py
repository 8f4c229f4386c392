"""`phrasedraft distill`: the target's answers to training prompts, as `phrasedraft fit` reads them."""

from pathlib import Path
from typing import Annotated

import typer

from phrasedraft.cli.options import AsJson


def distill(
    target: Annotated[str, typer.Argument(help="`smollm2-135m`, a local folder, or a hub id.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="The folder the answers are written to.")],
    prompts: Annotated[
        list[Path] | None,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help="`.jsonl` with `turns`, `messages`, `conversations`, `prompt` or `text`, or `.jsonl.gz`; repeat it.",
        ),
    ] = None,
    self_prompts: Annotated[
        int, typer.Option("--self-prompts", min=0, help="Let the target make up this many prompts of its own.")
    ] = 0,
    endpoint: Annotated[
        str | None,
        typer.Option("--endpoint", metavar="URL", help="An OpenAI-compatible server that answers for the target."),
    ] = None,
    model: Annotated[str | None, typer.Option("--model", help="What the server calls the target.")] = None,
    concurrency: Annotated[int, typer.Option("--concurrency", min=1, help="Requests the server gets at once.")] = 8,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting: `max_new_tokens=512`, `temperature=0.7`; repeat it for more."),
    ] = None,
    system_prompt: Annotated[str, typer.Option(help="The system message of prompts that have none.")] = "",
    thinking: Annotated[str, typer.Option(help="`on` or `off` for chat templates with such a switch.")] = "default",
    dtype: Annotated[str, typer.Option(help="`auto`, `float32`, `bfloat16` or `float16`.")] = "auto",
    device: Annotated[str, typer.Option(help="`auto` or a torch device.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Let TARGET answer training prompts, greedily unless `temperature` is set, one file of answers a file of prompts.

    Answers are written as they are made; the same command again goes on where a stopped one was. With `--endpoint`
    TARGET is loaded without its weights; the environment variable `OPENAI_API_KEY`, if set, is the server's key.

    Example: phrasedraft distill smollm2-135m --prompts questions.jsonl -o answers
    """
    from phrasedraft.cli.distilling import DistillOptions, distill_all
    from phrasedraft.corpus.template import TemplateSettings

    options = DistillOptions(
        target=target,
        prompts=tuple(prompts or ()),
        output=output,
        self_prompts=self_prompts,
        endpoint=endpoint,
        model=model,
        concurrency=concurrency,
        overrides=tuple(settings or ()),
        template=TemplateSettings(system_prompt=system_prompt, thinking=thinking),
        dtype=dtype,
        device=device,
    )
    distill_all(options, as_json=as_json)
