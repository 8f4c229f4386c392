"""The tables of `phrasedraft replay`, at most 100 columns wide."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from phrasedraft.cli.console import compact_table
from phrasedraft.evaluation.replay_report import ReplayReport
from phrasedraft.evaluation.replay_sets import NodeCountReport

TOGETHER = "together"
MAX_COLUMNS = 8
"""Lengths and positions beyond this are left to `--json`."""


def show_replay(console: Console, reports: Sequence[NodeCountReport]) -> None:
    """Print the account of a replay, table by table."""
    largest = max(reports, key=lambda report: report.num_nodes)
    console.print("[bold]what was accepted[/] (whole: phrases accepted to their end, of passes that landed)")
    console.print(_summary(reports))
    console.print("[bold]accepted tokens of a pass[/], share of passes")
    console.print(_lengths(reports))
    console.print("[bold]position below the root[/], share of passes accepted there (of those that got so far)")
    console.print(_positions(reports))
    console.print(f"[bold]kinds of phrases[/] at {largest.num_nodes} draft tokens")
    console.print(_kinds(largest.together))
    console.print(f"[bold]calibration[/] at {largest.num_nodes} draft tokens")
    console.print(_calibration(largest.together))


def _summary(reports: Sequence[NodeCountReport]) -> Table:
    table = compact_table(
        ("answers", "nodes", "tokens/pass", "landing", "banked", "whole", "ECE", "at temp. 1", "passes")
    )
    names = list(reports[0].by_set)
    for name in [*names, TOGETHER] if len(names) > 1 else names:
        for report in reports:
            each = report.by_set.get(name, report.together)
            table.add_row(
                escape(name),
                str(report.num_nodes),
                f"{each.stats.mean_acceptance_length:.3f}",
                f"{each.stats.landing:.3f}",
                f"{each.stats.banked:.2f}",
                f"{each.whole_phrases.share:.3f}",
                f"{each.calibration.ece:.3f}",
                f"{each.uncalibrated.ece:.3f}" if each.uncalibrated is not None else "",
                f"{each.stats.num_passes:,}",
            )
    return table


def _lengths(reports: Sequence[NodeCountReport]) -> Table:
    longest = max(max(report.together.accepted_lengths, default=0) for report in reports)
    shown = min(longest, MAX_COLUMNS - 1)
    table = compact_table(("nodes", *(str(length) for length in range(shown)), f"{shown}+" if longest else "0"))
    for report in reports:
        counts, passes = report.together.accepted_lengths, max(report.together.stats.num_passes, 1)
        cells = [counts.get(length, 0) for length in range(shown)]
        cells.append(sum(count for length, count in counts.items() if length >= shown))
        table.add_row(str(report.num_nodes), *(f"{count / passes:.1%}" for count in cells))
    return table


def _positions(reports: Sequence[NodeCountReport]) -> Table:
    deepest = min(max(len(report.together.positions) for report in reports), MAX_COLUMNS)
    table = compact_table(("nodes", *(str(position) for position in range(1, deepest + 1))))
    for report in reports:
        cells = [f"{line.share:.0%} ({line.share_after_previous:.0%})" for line in report.together.positions[:deepest]]
        table.add_row(str(report.num_nodes), *cells)
    return table


def _kinds(report: ReplayReport) -> Table:
    table = compact_table(("kind", "drafted", "accepted", "rate", "passes landed", "tokens saved", "of all saved"))
    saved = max(report.stats.num_accepted_tokens, 1)
    for kind, line in report.categories.items():
        table.add_row(
            kind.value,
            f"{line.num_draft_tokens:,}",
            f"{line.num_accepted_tokens:,}",
            f"{line.num_accepted_tokens / max(line.num_draft_tokens, 1):.1%}",
            f"{line.num_landings:,}",
            f"{line.num_saved_tokens:,}",
            f"{line.num_saved_tokens / saved:.1%}",
        )
    return table


def _calibration(report: ReplayReport) -> Table:
    before = {each.low: each for each in report.uncalibrated.bins} if report.uncalibrated is not None else {}
    after = {each.low: each for each in report.calibration.bins}
    table = compact_table(("node value", "nodes", "promised", "true", "nodes, temp. 1", "promised", "true"))
    for low in sorted(before.keys() | after.keys()):
        cells = []
        for side in (after, before):
            each = side.get(low)
            cells += (
                [f"{each.num_nodes:,}", f"{each.mean_value:.3f}", f"{each.share_right:.3f}"] if each else ["", "", ""]
            )
        high = (after.get(low) or before[low]).high
        table.add_row(f"{low:.1f} to {high:.1f}", *cells)
    return table
