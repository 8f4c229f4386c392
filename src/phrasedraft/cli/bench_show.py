"""What is written and shown of a benchmark: parquet, report, paper, tables; and the verbs that measure nothing."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from phrasedraft.cli.bench_options import BenchOptions
from phrasedraft.cli.console import compact_table, data_console, note_console, print_json
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.bench.compare import compare
from phrasedraft.evaluation.bench.paper import PAGE, write_paper
from phrasedraft.evaluation.bench.report import rebuild, write_report
from phrasedraft.evaluation.bench.result import Provenance, Result
from phrasedraft.evaluation.bench.summary import Summary, summarize
from phrasedraft.evaluation.bench.table import RESULTS_FILE, read_results, write_results


def finish(
    options: BenchOptions, results: Sequence[Result], provenance: Provenance, notes: Console, *, as_json: bool
) -> None:
    """Write everything into the output folder and print the figures."""
    try:
        write_results(options.output / RESULTS_FILE, results, provenance)
    except OptionError as error:  # without pyarrow there is still the report
        notes.print(f"no {RESULTS_FILE}: {escape(str(error))}; {escape(error.hint or '')}")
    write_report(options.output, results, provenance)
    (options.output / PAGE).unlink(missing_ok=True)  # it would be of other results
    if options.paper:
        write_paper(options.output, results, provenance)
    for remark in provenance.remarks:
        notes.print(escape(remark), soft_wrap=True)
    _show(results, provenance, options.output, as_json=as_json)


def rebuild_report(folder: Path, *, paper: bool, as_json: bool) -> None:
    """Write the report of a folder anew from its `results.parquet`, and print the figures."""
    folder = folder.parent if folder.is_file() else folder
    rebuild(folder)
    results, provenance = read_results(folder)
    if paper:
        write_paper(folder, results, provenance)
    _show(results, provenance, folder, as_json=as_json)


def show_comparison(before: Path, after: Path, tolerance: float, *, as_json: bool) -> bool:
    """Print what two benchmarks have in common; whether the second is no worse."""
    comparison = compare(before, after, tolerance)
    if as_json:
        print_json(comparison.as_dict())
    else:
        console = data_console()
        for header, rows in comparison.tables():
            table = compact_table(header)
            for row in rows:
                table.add_row(*map(escape, row))
            console.print(table)
    notes = note_console()
    for remark in comparison.remarks:
        notes.print(escape(remark), soft_wrap=True)
    return not comparison.failures


def _show(results: Sequence[Result], provenance: Provenance, folder: Path, *, as_json: bool) -> None:
    if not results:
        raise DataError("there are no results", hint="no prompt fits into the target's context")
    summaries = summarize(results, provenance.differences, provenance.drafters)
    if as_json:
        facts = {name: value for name, value in provenance.as_dict().items() if name != "differences"}
        print_json(
            {
                "summaries": [each.as_dict() for each in summaries],
                "differences": [asdict(each) for each in provenance.differences],
                "facts": facts,
                "output": str(folder),
            }
        )
        return
    console = data_console()
    for conditions in dict.fromkeys((each.prompt_set, each.dtype, each.batch_size) for each in summaries):
        rows = [each for each in summaries if (each.prompt_set, each.dtype, each.batch_size) == conditions]
        console.print(f"[bold]{escape(conditions[0])}[/] {conditions[1]}, batch size {conditions[2]}")
        console.print(_table(rows))
    console.print(f"report: {escape(str(folder / 'report.md'))}", soft_wrap=True)


def _table(rows: Sequence[Summary]) -> object:
    table = compact_table(
        ("method", "identical", "tokens/s", "over generate()", "over plain", "tokens a pass", "landing", "ms a pass")
    )
    for row in rows:
        table.add_row(
            escape(row.method),
            f"{row.num_identical}/{row.num_compared}",
            f"{row.tokens_per_second:.2f}",
            str(row.over_generate or ""),
            str(row.over_plain or ""),
            "" if row.tokens_per_pass is None else f"{row.tokens_per_pass:.3f}",
            "" if row.landing is None else f"{row.landing:.3f}",
            "" if row.milliseconds_per_pass is None else f"{row.milliseconds_per_pass:.1f}",
        )
    return table
