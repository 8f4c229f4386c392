"""`phrasedraft demo`: the same questions answered by generate() and by phrase drafting."""

from typing import Annotated

import typer

from phrasedraft.budget import AUTO
from phrasedraft.cli.options import AsJson, DraftingOptions, MaxNewTokens, NodesOrAuto, with_option_groups


@with_option_groups
def demo(
    target: DraftingOptions,
    prompts: Annotated[int, typer.Option("--prompts", min=1, help="How many of the bundled questions.")] = 8,
    nodes: NodesOrAuto = AUTO,
    max_new_tokens: MaxNewTokens = 128,
    as_json: AsJson = False,
) -> None:
    """Answer GSM8K test questions with transformers' generate() and with phrase drafting, and compare.

    Both answer greedily from the same token ids, in alternating order, after a warm-up that does not count. Leaves
    with 1 if a float32 target gave a different text.

    Example: phrasedraft demo --prompts 2 --max-new-tokens 64
    """
    from phrasedraft.cli.comparison import compare

    if not compare(target, num_prompts=prompts, nodes=nodes, max_new_tokens=max_new_tokens, as_json=as_json):
        raise typer.Exit(1)
