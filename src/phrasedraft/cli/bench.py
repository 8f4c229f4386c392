"""`phrasedraft bench`: methods against each other, prompt by prompt."""

from pathlib import Path
from typing import Annotated

import typer

from phrasedraft.cli.options import AsJson, MaxNewTokens, TargetOptions, with_option_groups


@with_option_groups
def bench(
    target: TargetOptions,
    prompts: Annotated[
        str,
        typer.Option(
            "--prompts", metavar="FILE", help="`gsm8k_test`, `math500`, `mt_bench`, `humaneval`, or a JSONL file."
        ),
    ] = "gsm8k_test",
    limit: Annotated[int, typer.Option("--limit", min=1, help="Take this many prompts.")] = 40,
    nodes: Annotated[str, typer.Option("--nodes", "-n", help="Draft tokens a pass, comma-separated.")] = "4,8,16,46",
    drafter: Annotated[
        list[str] | None,
        typer.Option(
            "--drafter",
            metavar="NAME",
            help="Measure `prompt-lookup`, `suffix-automaton` or `token-recycling` too; repeat it for more.",
        ),
    ] = None,
    max_new_tokens: MaxNewTokens = 256,
    seed: Annotated[int, typer.Option("--seed", help="Draws the order of the methods for each prompt.")] = 0,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Results go here; finished ones are not measured again.")
    ] = Path("bench"),
    as_json: AsJson = False,
) -> None:
    """Compare generate(), our loop without drafts, and phrase drafting at several node counts; greedy and paired.

    `--drafter` adds drafters that need no training. Every method answers a turn before the next one begins; later
    turns follow its own answers. Writes results.jsonl, report.md and speedup.png. Run it with nothing else running.
    Leaves with 1 if a float32 target gave a different text.

    Example: phrasedraft bench --limit 2 --nodes 8 --max-new-tokens 32 -o bench-quick
    """
    from phrasedraft.cli.benching import BenchOptions, bench_methods

    options = BenchOptions(
        prompts=prompts,
        limit=limit,
        nodes=nodes,
        drafters=tuple(drafter or ()),
        max_new_tokens=max_new_tokens,
        seed=seed,
        output=output,
    )
    if not bench_methods(target, options, as_json=as_json):
        raise typer.Exit(1)
