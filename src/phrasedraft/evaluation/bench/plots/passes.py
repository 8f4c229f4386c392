"""The pictures of passes: what one yields, and what one costs, by its number of draft tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

from phrasedraft.evaluation.bench.plots.canvas import (
    GREY,
    drafter_styles,
    grid,
    num_rows,
    panels,
    picture,
    whole_run,
)
from phrasedraft.evaluation.bench.result import CHOSEN_NODES, Provenance
from phrasedraft.evaluation.bench.summary import Summary

_Styles = Mapping[str, tuple[str, str]]


def tokens_per_pass_picture(summaries: Sequence[Summary]) -> bytes | None:
    """Tokens per pass with their intervals against draft tokens, a line for each drafter, a panel for each set.

    Methods whose nodes are chosen pass by pass have no place on the axis; `cost_picture` shows what they choose.
    """
    shown = {title: _by_drafter(mine) for title, mine in panels(summaries).items()}
    shown = {title: lines for title, lines in shown.items() if lines}
    if not shown:
        return None
    columns = 3 if len(shown) > 4 else 2
    counts = sorted({each.num_draft_tokens for lines in shown.values() for line in lines.values() for each in line})

    def draw(figure: Any) -> None:
        styles = drafter_styles(summaries)
        handles: dict[str, Any] = {}
        axes = grid(figure, len(shown), columns, sharex=True, sharey=True)
        for each, (title, lines) in zip(axes, shown.items(), strict=True):
            each.set_title(title)
            each.grid(axis="y", color="#E5E5E5")
            for place, (drafter, line) in enumerate(lines.items()):
                shift = 1.03 ** (place - (len(lines) - 1) / 2)  # so that intervals do not cover each other
                handles[drafter] = _draw_line(each, line, styles[drafter], shift)
        axes[0].set_xscale("log", base=2)
        axes[0].set_xticks(_ticks(counts), [str(count) for count in _ticks(counts)], minor=False)
        axes[0].minorticks_off()
        axes[0].set_xlim(counts[0] / 1.25, counts[-1] * 1.25)
        axes[0].set_ylim(bottom=1)
        figure.supylabel("tokens per pass, bonus token included", fontsize=10)
        figure.supxlabel("most draft tokens a pass (nodes)", fontsize=10)
        _legend(figure, handles)

    return picture(2.5 * num_rows(len(shown), columns) + 1.0, draw)


def cost_picture(summaries: Sequence[Summary], provenance: Provenance) -> bytes | None:
    """The time of a pass alone against its draft tokens, and each method's mean pass, a panel for each dtype."""
    dtypes = [name for name, cost in provenance.costs.items() if cost["times"]]
    if not dtypes:
        return None

    def draw(figure: Any) -> None:
        styles = drafter_styles(summaries)
        handles: dict[str, Any] = {}
        axes = grid(figure, len(dtypes), 2)
        for each, dtype in zip(axes, dtypes, strict=True):
            handles |= _draw_cost(each, provenance.costs[dtype]["times"])
            handles |= _draw_methods(each, summaries, dtype, styles)
            each.set_title(dtype)
            each.set_xlabel("draft tokens of a pass")
            each.set_ylabel("target's time per pass, ms")
            each.set_ylim(bottom=0)
            each.set_xlim(left=-1)
            each.grid(color="#E5E5E5")
            each.tick_params(labelbottom=True)
        _legend(figure, handles)

    return picture(3.6 * num_rows(len(dtypes), 2) + 0.8, draw)


def _by_drafter(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    lines: dict[str, list[Summary]] = {}
    for each in summaries:
        if each.num_draft_tokens and each.stats is not None and not each.method.endswith(CHOSEN_NODES):
            lines.setdefault(each.drafter, []).append(each)
    return {drafter: sorted(line, key=lambda each: each.num_draft_tokens) for drafter, line in lines.items()}


def _draw_line(axes: Any, line: Sequence[Summary], style: tuple[str, str], shift: float) -> Any:
    color, marker = style
    nodes = [each.num_draft_tokens * shift for each in line]
    values = [each.tokens_per_pass or 1.0 for each in line]
    intervals = [each.tokens_per_pass_interval or (value, value) for each, value in zip(line, values, strict=True)]
    axes.vlines(nodes, [low for low, _ in intervals], [high for _, high in intervals], color=color, linewidth=2)
    return axes.plot(nodes, values, marker=marker, color=color, markersize=5, linewidth=1.2)[0]


def _draw_cost(axes: Any, times: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The median with its quartiles after each context, one kind of dash each."""
    handles = {}
    contexts = sorted({time["context_tokens"] for time in times})
    for context, dashes in zip(contexts, ("-", "--", ":", "-.") * len(contexts), strict=False):
        curve = sorted((t for t in times if t["context_tokens"] == context), key=lambda t: int(t["num_draft_tokens"]))
        nodes = [time["num_draft_tokens"] for time in curve]
        low, middle, high = (
            [time[name] for time in curve] for name in ("low_milliseconds", "milliseconds", "high_milliseconds")
        )
        axes.fill_between(nodes, low, high, color=GREY, alpha=0.25, linewidth=0)
        handles[f"a pass by itself, after {context} tokens"] = axes.plot(nodes, middle, color=GREY, linestyle=dashes)[0]
    return handles


def _draw_methods(axes: Any, summaries: Sequence[Summary], dtype: str, styles: _Styles) -> dict[str, Any]:
    """Where each method runs: its mean drafted tokens per pass and its mean time of the target's pass."""
    sizes = sorted({each.batch_size for each in summaries if each.dtype == dtype and each.stats is not None})
    handles: dict[str, Any] = {}
    points: dict[str, list[tuple[float, float]]] = {}
    for each in whole_run(summaries, (dtype, sizes[0])) if sizes else []:
        if each.stats is not None and each.stats.num_passes and each.phase_milliseconds is not None:
            drafted = each.stats.num_draft_tokens / each.stats.num_passes
            points.setdefault(each.drafter, []).append((drafted, each.phase_milliseconds["verify"]))
    for drafter, places in points.items():
        color, marker = styles[drafter]
        drawn = axes.plot(
            *zip(*places, strict=True),
            marker=marker,
            color=color,
            markersize=7,
            linestyle="none",
            markerfacecolor="none",
            markeredgewidth=1.6,
        )
        handles[drafter or "plain loop"] = drawn[0]
    return handles


def _ticks(counts: Sequence[int]) -> list[int]:
    """The node counts, without those too close to the one before to be written beside it."""
    ticks: list[int] = []
    for count in counts:
        if not ticks or count >= 1.3 * ticks[-1]:
            ticks.append(count)
    return ticks


def _legend(figure: Any, handles: Mapping[str, Any]) -> None:
    figure.legend(handles.values(), handles.keys(), loc="outside upper center", ncols=3, frameon=False)
