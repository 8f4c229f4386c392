"""`phrasedraft generate`: answer one prompt."""

from typing import Annotated

import typer

from phrasedraft.budget import AUTO
from phrasedraft.cli.options import (
    AsJson,
    ChoiceOptions,
    DraftingOptions,
    NodesOrAuto,
    StoppingOptions,
    with_option_groups,
)


@with_option_groups
def generate(
    prompt: Annotated[str, typer.Argument(help="The prompt; `-` reads it from stdin.")],
    target: DraftingOptions,
    choice: ChoiceOptions,
    stopping: StoppingOptions,
    nodes: NodesOrAuto = AUTO,
    chat: Annotated[
        bool | None, typer.Option("--chat/--raw", help="In the chat template (where there is one), or as it is.")
    ] = None,
    system: Annotated[str | None, typer.Option(help="A system message in front of the prompt.")] = None,
    logprobs: Annotated[bool, typer.Option("--logprobs", help="One line a token: id, log probability, text.")] = False,
    show_drafts: Annotated[bool, typer.Option("--show-drafts", help="Mark what was drafted and accepted.")] = False,
    verify: Annotated[
        bool, typer.Option("--verify", help="Decode plainly too and compare; leave with 1 if the texts differ.")
    ] = False,
    stats: Annotated[bool, typer.Option("--stats", help="Say on stderr what the drafts gave.")] = False,
    as_json: AsJson = False,
) -> None:
    """Answer PROMPT, the text on stdout as it is decoded.

    Example: phrasedraft generate "What is 12 times 12?" --max-new-tokens 32 --show-drafts
    """
    from phrasedraft.cli.answering import AnswerOptions, answer

    is_same = answer(
        prompt,
        target,
        choice,
        stopping,
        AnswerOptions(
            nodes=nodes,
            chat=chat,
            system=system,
            logprobs=logprobs,
            show_drafts=show_drafts,
            verify=verify,
            stats=stats,
            as_json=as_json,
        ),
    )
    if not is_same:
        raise typer.Exit(1)
