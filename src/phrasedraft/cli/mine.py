"""`phrasedraft mine`: the phrases a head will draft from."""

from pathlib import Path
from typing import Annotated

import typer

from phrasedraft.cli.options import AsJson, with_option_groups


@with_option_groups
def mine(
    target: Annotated[str, typer.Argument(help="`smollm2-135m`, a local folder, or a hub id; no weights are read.")],
    corpus: Annotated[
        list[Path], typer.Option(help="Answers of the target, `.jsonl` or `.jsonl.gz`; give it once a file.")
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="The file the phrases are written to, `.safetensors`.")
    ],
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting: `method=spans`, `num_phrases=32000`; repeat it for more."),
    ] = None,
    num_top: Annotated[int, typer.Option("--top", min=0, help="How many phrases to list.")] = 20,
    held_out_share: Annotated[
        float,
        typer.Option(min=0, max=0.99, help="The share of answers that `train` will hold out and that are not mined."),
    ] = 0.05,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")] = None,
    trust_remote_code: Annotated[
        bool, typer.Option("--trust-remote-code", help="Run code that comes with the target.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Mine a phrase vocabulary for TARGET from answers it gave.

    Methods: `prefixes` (the default, what heads are trained on), `spans`, `merges`.

    Example: phrasedraft mine smollm2-135m --corpus gsm8k_train.jsonl.gz -o phrases.safetensors --set max_words=4
    """
    from phrasedraft.cli.mining import mine_vocabulary

    mine_vocabulary(
        target,
        corpus,
        output,
        settings or [],
        num_top=num_top,
        held_out_share=held_out_share,
        revision=revision,
        trust_remote_code=trust_remote_code,
        as_json=as_json,
    )
