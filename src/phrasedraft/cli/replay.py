"""`phrasedraft replay`: what a head would have had accepted, from the target's own answers."""

from pathlib import Path
from typing import Annotated

import typer

from phrasedraft.cli.options import AsJson, LoadOptions, with_option_groups


@with_option_groups
def replay(
    load: LoadOptions,
    head: Annotated[
        str,
        typer.Argument(
            help="The folder of a head, the name of a shipped one (`smollm2-135m`), `prompt-lookup` or "
            "`suffix-automaton`."
        ),
    ],
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            "--prompts",
            metavar="FILE",
            help="A bundled set or a JSONL file, answered by the target first; repeat it for more.",
        ),
    ] = None,
    corpus: Annotated[
        list[Path] | None,
        typer.Option("--corpus", metavar="FILE", help="Answers the target has given; repeat it for more."),
    ] = None,
    target: Annotated[
        str | None, typer.Option("--target", "-t", metavar="TARGET", help="Instead of the target the head names.")
    ] = None,
    nodes: Annotated[
        str, typer.Option("--nodes", "-n", help="Most draft tokens a pass, comma-separated.")
    ] = "4,8,16,46",
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Take this many prompts or answers a file.")
    ] = None,
    work: Annotated[
        Path | None, typer.Option("--work", help="Where answers and traces are kept; the cache folder unless given.")
    ] = None,
    max_new_tokens: Annotated[
        int | None,
        typer.Option("--max-new-tokens", min=1, help="Most tokens of an answer to a prompt; 256 unless given."),
    ] = None,
    trained_on: Annotated[
        bool, typer.Option("--trained-on", help="Replay the answers the head was trained on as well.")
    ] = False,
    plots: Annotated[
        Path | None, typer.Option("--plots", metavar="DIR", help="Draw three pictures into this folder.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count what a head would have had accepted, at several node counts, without decoding again.

    Shows tokens per pass, landing, banked, accepted lengths, acceptance by position and kind of phrase, whole phrases
    and calibration, for each file and together. Of a corpus the head was trained on, the held-out answers are replayed.

    Example: phrasedraft replay smollm2-135m --corpus gsm8k_train.max200.jsonl.gz --nodes 4,8 --limit 48
    """
    from phrasedraft.cli.replaying import ReplayOptions, replay_head

    options = ReplayOptions(
        head=head,
        target=target,
        prompts=tuple(prompts or ()),
        corpora=tuple(corpus or ()),
        nodes=nodes,
        limit=limit,
        work=work,
        max_new_tokens=max_new_tokens,
        trained_on=trained_on,
        plots=plots,
    )
    replay_head(load, options, as_json=as_json)
