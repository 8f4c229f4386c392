"""The picture of speed-ups."""

from collections.abc import Sequence
from typing import Any

from phrasedraft.evaluation.bench.plots.canvas import (
    GREY,
    drafter_styles,
    grid,
    methods_in_order,
    num_rows,
    panels,
    picture,
)
from phrasedraft.evaluation.bench.summary import Summary
from phrasedraft.evaluation.statistics import SpeedUp

_ROW_INCHES = 0.2


def speedup_picture(summaries: Sequence[Summary]) -> bytes | None:
    """The speed-up over `generate()` of each method with its interval, a panel for each prompt set."""
    shown = {
        title: {each.method: each for each in mine if each.over_generate is not None}
        for title, mine in panels(summaries).items()
    }
    shown = {title: mine for title, mine in shown.items() if mine}
    if not shown:
        return None
    methods = [name for name in methods_in_order(summaries) if any(name in mine for mine in shown.values())]
    columns = 3 if len(shown) > 4 else 2
    height = num_rows(len(shown), columns) * (0.45 + _ROW_INCHES * len(methods)) + 0.5

    def draw(figure: Any) -> None:
        styles = drafter_styles(summaries)
        axes = grid(figure, len(shown), columns, sharex=True, sharey=True)
        for each, (title, mine) in zip(axes, shown.items(), strict=True):
            each.set_title(title)
            each.axvline(1, color=GREY, linewidth=1, linestyle="--")
            for row, method in enumerate(methods):
                if method in mine:
                    _draw_row(each, row, mine[method], styles)
            each.grid(axis="x", color="#E5E5E5")
            each.set_axisbelow(True)
            each.tick_params(axis="y", labelsize=8.5)
        axes[0].set_yticks(range(len(methods)), methods)
        axes[0].set_ylim(len(methods) - 0.4, -0.6)
        axes[0].set_xlim(
            *_limits([s.over_generate for mine in shown.values() for s in mine.values() if s.over_generate])
        )
        figure.supxlabel("times as fast as generate(), 95 % interval", fontsize=10)

    return picture(height, draw)


def _draw_row(axes: Any, row: int, summary: Summary, styles: dict[str, tuple[str, str]]) -> None:
    found = summary.over_generate
    assert found is not None
    color, marker = styles[summary.drafter]
    low, high = _ends(found)
    axes.plot([low, high], [row, row], color=color, linewidth=2)
    axes.plot(found.ratio, row, marker=marker, color=color, markersize=5, linestyle="none")
    value = f"{found.ratio:.2f}"
    place = axes.get_yaxis_transform()  # the figures stand in one column at the right
    box = {"facecolor": "white", "edgecolor": "none", "pad": 0.5}
    axes.text(0.995, row, value, transform=place, ha="right", va="center", fontsize=8.5, bbox=box)


def _limits(found: Sequence[SpeedUp]) -> tuple[float, float]:
    """From the lowest end to the highest, with room for the figures at the right."""
    low = min(0.95, *(_ends(each)[0] for each in found))
    high = max(1.05, *(_ends(each)[1] for each in found))
    return low - 0.05 * (high - low), high + 0.25 * (high - low)


def _ends(found: SpeedUp) -> tuple[float, float]:
    return (
        found.ratio if found.low is None else found.low,
        found.ratio if found.high is None else found.high,
    )
