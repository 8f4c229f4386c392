"""`phrasedraft bench`: methods against each other, prompt by prompt."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from phrasedraft.cli.options import AsJson, TargetOptions, with_option_groups


def _refuse_without_effect(verb: str, options: Mapping[str, object]) -> None:
    """Refuse options that say how to measure beside one that measures nothing."""
    from phrasedraft.errors import OptionError

    given = [name for name, value in options.items() if value]
    if given:
        raise OptionError(
            f"`{verb}` measures nothing, so {', '.join(f'`{name}`' for name in given)} would have no effect",
            hint="leave one or the other out",
        )


@with_option_groups
def bench(
    target: TargetOptions,
    prompts: Annotated[
        list[str] | None,
        typer.Option(
            "--prompts",
            metavar="SET[@LIMIT]",
            help="`gsm8k_test`, `math500`, `mt_bench`, `humaneval`, `all` of them, or a JSONL file; repeat it for "
            "more. `mt_bench@20` takes 20 of this one.",
        ),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Prompts of each set; 40 unless given.")] = None,
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", "-n", help="Draft tokens a pass; `4,8,16,46`; `auto`: as many as are worth it."),
    ] = None,
    drafter: Annotated[
        list[str] | None,
        typer.Option(
            "--drafter",
            metavar="NAME[@NODES]",
            help="Measure `prompt-lookup`, `suffix-automaton`, `token-recycling`, the head in a folder, or `head` at "
            "other node counts too; `+` joins several, `NAME@auto` checks as many as are worth it; repeat it for more.",
        ),
    ] = None,
    drafter_limit: Annotated[
        int | None,
        typer.Option("--drafter-limit", min=1, help="Prompts of each set for these; all if not given."),
    ] = None,
    batch_sizes: Annotated[str, typer.Option("--batch-sizes", help="Prompts at once, comma-separated.")] = "1",
    max_new_tokens: Annotated[
        int | None, typer.Option("--max-new-tokens", min=1, help="Most tokens of an answer; 256 unless given.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Draws the order of the methods for each prompt.")] = 0,
    twice: Annotated[
        bool, typer.Option("--twice", help="Measure the plain loop a second time: how much is noise.")
    ] = False,
    most_load: Annotated[
        float | None,
        typer.Option(
            "--most-load",
            min=0,
            help="Measure finished turns again in which other programs kept more cores busy than this.",
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Two typical prompts of each bundled set, 8 nodes: some minutes.")
    ] = False,
    paper: Annotated[
        bool, typer.Option("--paper", help="Also write paper.md: the paper's figures beside these, row by row.")
    ] = False,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Results go here; finished ones are not measured again.")
    ] = Path("bench"),
    rebuild: Annotated[
        bool, typer.Option("--rebuild", help="Measure nothing; write the report anew from `-o`'s results.parquet.")
    ] = False,
    compare: Annotated[
        tuple[Path, Path] | None,
        typer.Option(
            "--compare", metavar="BEFORE AFTER", help="Measure nothing; leave with 1 where AFTER is worse than BEFORE."
        ),
    ] = None,
    tolerance: Annotated[
        float, typer.Option("--tolerance", min=0, max=1, help="How much worse `--compare` lets a ratio be.")
    ] = 0.05,
    as_json: AsJson = False,
) -> None:
    """Compare generate(), transformers' prompt lookup, our loop without drafts, and drafters; greedy and paired.

    Every method answers a turn before the next one begins, in an order drawn for each; later turns follow its own
    answers. `--dtype` may name several, comma-separated. Writes results.parquet, report.md and plots. Run it with
    nothing else running. Leaves with 1 if a float32 target gave a different text.

    Example: phrasedraft bench --limit 2 --nodes 8 --max-new-tokens 32 -o bench-quick
    """
    measuring = {
        "--prompts": prompts,
        "--limit": limit,
        "--nodes": nodes,
        "--drafter": drafter,
        "--drafter-limit": drafter_limit,
        "--max-new-tokens": max_new_tokens,
        "--twice": twice,
        "--most-load": most_load,
        "--quick": quick,
    }
    if compare is not None or rebuild:
        _refuse_without_effect("--compare" if compare is not None else "--rebuild", measuring)
    if compare is not None:
        _refuse_without_effect("--compare", {"--rebuild": rebuild, "--paper": paper})
        from phrasedraft.cli.bench_show import show_comparison

        if not show_comparison(*compare, tolerance, as_json=as_json):
            raise typer.Exit(1)
        return
    if rebuild:
        from phrasedraft.cli.bench_show import rebuild_report

        rebuild_report(output, paper=paper, as_json=as_json)
        return
    from phrasedraft.cli.bench_options import (
        ALL_SETS,
        NUM_PROMPTS,
        NUM_TOKENS,
        QUICK_PROMPTS,
        BenchOptions,
    )
    from phrasedraft.cli.benching import bench_methods
    from phrasedraft.cli.console import terminable

    options = BenchOptions(
        prompts=tuple(prompts or ((ALL_SETS,) if quick else ("gsm8k_test",))),
        limit=limit or (QUICK_PROMPTS if quick else NUM_PROMPTS),
        typical=quick and limit is None,
        nodes=nodes or ("8" if quick else "4,8,16,46"),
        drafters=tuple(drafter or ()),
        drafter_limit=drafter_limit,
        batch_sizes=batch_sizes,
        max_new_tokens=max_new_tokens or NUM_TOKENS,
        seed=seed,
        twice=twice,
        most_load=most_load,
        paper=paper,
        output=output,
    )
    with terminable():
        is_exact = bench_methods(target, options, as_json=as_json)
    if not is_exact:
        raise typer.Exit(1)
