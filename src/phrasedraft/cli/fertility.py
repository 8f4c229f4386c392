"""`phrasedraft fertility`: how many tokens a target spends on a word, in six languages."""

from typing import Annotated

import typer

from phrasedraft.cli.options import DEFAULT_TARGET, AsJson, LoadOptions, with_option_groups


@with_option_groups
def fertility(
    load: LoadOptions,
    target: Annotated[
        str, typer.Argument(metavar="TARGET", help="`smollm2-135m`, a local folder, or a hub id.")
    ] = DEFAULT_TARGET,
    head: Annotated[
        str | None,
        typer.Option("--head", metavar="HEAD", help="Replay this head on the texts too: a folder or a shipped name."),
    ] = None,
    nodes: Annotated[
        int | None, typer.Option("--nodes", "-n", min=1, help="Most draft tokens a pass; 8 unless given.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count a target's tokens a word on bundled texts: English, German, Hindi, Telugu, Chinese, code.

    Needs the target's tokenizer only. With `--head` the target also reads each text once, and the head is replayed on
    it as if the target had written it: a comparison of languages, not what users would see.

    Example: phrasedraft fertility smollm2-135m
    """
    from phrasedraft.cli.fertility_report import report_fertility

    report_fertility(target, head, load, nodes=nodes, as_json=as_json)
