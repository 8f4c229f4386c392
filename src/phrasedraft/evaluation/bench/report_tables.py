"""The tables of a benchmark's report."""

from collections.abc import Mapping, Sequence
from typing import Any

from phrasedraft.evaluation.bench.markdown import Row, markdown_table, number
from phrasedraft.evaluation.bench.result import GENERATE, Provenance, Result
from phrasedraft.evaluation.bench.summary import PHASES, POOLED, Summary, main_conditions, summarize

NUM_DIFFERENCES = 50
"""The report names the differences with the largest gaps, so many of them; `results.parquet` has all."""

SPEED_HEADER: Row = ("method", "over generate()", "over plain loop", "pairs", "tokens/s", "first token ms")
TEXT_HEADER: Row = ("method", "answers", "tokens", "identical", "same end", "worst gap")
DRAFT_HEADER: Row = ("method", "tokens/pass", "nodes/pass", "landing", "banked", "acceptance", "parameters")
TIME_HEADER: Row = ("method", "ms/pass", *PHASES, "prompt s", "peak MB", "J/token")


def speed_rows(summaries: Sequence[Summary]) -> list[Row]:
    """How fast each method is; `pairs` are the groups its speed-up over `generate()` is drawn from."""
    return [
        (
            each.method,
            str(each.over_generate or "-"),
            str(each.over_plain or "-"),
            str(each.over_generate.num_prompts) if each.over_generate else "-",
            number(each.tokens_per_second),
            number(None if each.median_first_token_seconds is None else each.median_first_token_seconds * 1e3, 0),
        )
        for each in summaries
    ]


def text_rows(summaries: Sequence[Summary]) -> list[Row]:
    """Whether the texts are those of `generate()`, and how close the choice was at worst where they are not."""
    return [
        (
            each.method,
            str(each.num_answers),
            number(each.num_tokens, 0),
            f"{each.num_identical}/{each.num_compared}",
            f"{each.num_same_finish_reason}/{each.num_compared}",
            number(each.worst_gap, 4),
        )
        for each in summaries
    ]


def draft_rows(summaries: Sequence[Summary]) -> list[Row]:
    """What drafts gave, for the methods that are our own loop."""
    rows: list[Row] = []
    for each in summaries:
        if (stats := each.stats) is None:
            continue
        low_high = each.tokens_per_pass_interval
        interval = f" [{low_high[0]:.2f}, {low_high[1]:.2f}]" if low_high else ""
        drafts = stats.num_draft_tokens > 0
        rows.append(
            (
                each.method,
                f"{stats.mean_acceptance_length:.3f}{interval}",
                number(stats.mean_draft_tokens if drafts else None, 1),
                number(stats.landing if drafts else None, 3),
                number(stats.banked if drafts else None),
                number(stats.acceptance_rate if drafts else None, 3),
                number(each.num_parameters, 0),
            )
        )
    return rows


def time_rows(summaries: Sequence[Summary]) -> list[Row]:
    """Where the time of a pass went in our own loop, in milliseconds and shares, and what it took beside time."""
    rows = []
    for each in summaries:
        times, shares = each.phase_milliseconds, each.phase_shares
        phases = [f"{times[name]:.1f} ({shares[name]:.0%})" if times and shares else "-" for name in PHASES]
        rows.append(
            (
                each.method,
                number(each.milliseconds_per_pass, 1),
                *phases,
                number(each.stats.prefill_seconds if each.stats else None, 1),
                number(each.peak_megabytes, 0),
                number(each.joules_per_token),
            )
        )
    return rows


def summary_tables(summaries: Sequence[Summary]) -> list[tuple[Row, list[Row]]]:
    """The four tables of one prompt set, each a header and its rows."""
    return [
        (SPEED_HEADER, speed_rows(summaries)),
        (TEXT_HEADER, text_rows(summaries)),
        (DRAFT_HEADER, draft_rows(summaries)),
        (TIME_HEADER, time_rows(summaries)),
    ]


def headline_table(
    results: Sequence[Result],
    provenance: Provenance,
    *,
    methods: Sequence[str] | None = None,
    conditions: tuple[str, int] | None = None,
) -> str:
    """The table for a README: methods by prompt sets, the speed-up over `generate()` and tokens per pass.

    `methods` are those to show, in that order (default: all but `generate()`), `conditions` a dtype and batch size
    (default: those with the most answers). A method that gave fewer answers than others says how many.
    """
    summaries = summarize(results, provenance.differences, provenance.drafters)
    return headline(summaries, methods=methods, conditions=conditions)


def headline(
    summaries: Sequence[Summary],
    *,
    methods: Sequence[str] | None = None,
    conditions: tuple[str, int] | None = None,
) -> str:
    """`headline_table` of summaries that are made already."""
    conditions = conditions or main_conditions(summaries)
    cells = {(each.method, each.prompt_set): each for each in summaries if each.conditions == conditions}
    names = (
        list(methods) if methods is not None else [name for name in _distinct(m for m, _ in cells) if name != GENERATE]
    )
    sets = _distinct(prompt_set for _, prompt_set in cells)
    most = {each: max(cell.num_answers for (_, of), cell in cells.items() if of == each) for each in sets}
    rows = [
        (
            _labelled(name, [cells[name, each] for each in sets if (name, each) in cells], most),
            *(_headline_cell(cells.get((name, each))) for each in sets),
        )
        for name in names
    ]
    titles = ["all sets" if prompt_set == POOLED else prompt_set for prompt_set in sets]
    return markdown_table(("method", *titles), rows)


def _labelled(name: str, cells: Sequence[Summary], most: Mapping[str, int]) -> str:
    """A method's name, and how many answers it gave where others gave more."""
    fewer = [cell for cell in cells if cell.num_answers < most[cell.prompt_set]]
    return f"{name} ({fewer[-1].num_answers} answers)" if fewer else name


def fertility_table(fertility: Sequence[dict[str, Any]]) -> str:
    """What the target's tokenizer makes of each text, and what a head saves there."""
    rows = [
        (
            str(line["text"]),
            number(line["words"], 0),
            number(line["tokens"], 0),
            number(line["tokens_per_word"]),
            number(line.get("tokens_per_pass")),
        )
        for line in fertility
    ]
    return markdown_table(("text", "words", "tokens", "tokens/word", "tokens/pass"), rows)


def difference_table(provenance: Provenance) -> str:
    """The differences from `generate()`, the largest gaps first."""
    ordered = sorted(
        provenance.differences,
        key=lambda each: (each.top_two_gap is None, -(each.top_two_gap or 0.0), each.prompt_set, each.answer_id),
    )
    rows = [
        (
            each.prompt_set,
            each.answer_id,
            each.method,
            each.dtype,
            str(each.batch_size),
            "-" if each.position is None else str(each.position),
            number(each.top_two_gap, 4),
        )
        for each in ordered[:NUM_DIFFERENCES]
    ]
    return markdown_table(("set", "answer", "method", "dtype", "batch", "position", "gap"), rows, num_left=4)


def _distinct(values: Any) -> list[str]:
    return list(dict.fromkeys(values))


def _headline_cell(summary: Summary | None) -> str:
    if summary is None or summary.over_generate is None:
        return "-"
    passes = summary.tokens_per_pass
    return str(summary.over_generate) + (f", {passes:.2f}" if passes is not None and summary.drafter else "")
