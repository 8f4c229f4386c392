"""What all pictures share: their size and letters, their colours, and a panel for each prompt set."""

import io
import math
from collections.abc import Callable, Sequence
from typing import Any

from phrasedraft.evaluation.bench.result import BASELINES
from phrasedraft.evaluation.bench.summary import POOLED, Summary, chief_sections, main_conditions

WIDTH = 9.0
"""Inches; a README shows a picture about as wide as that with 100 dots an inch."""

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
"""Told apart with every common kind of colour blindness (Okabe and Ito), the brown added in place of their yellow."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
GREY = "#6A6A6A"

_STYLE = {"font.size": 10, "axes.titlesize": 10.5, "axes.spines.top": False, "axes.spines.right": False}


def picture(height: float, draw: Callable[[Any], None]) -> bytes:
    """The PNG of a figure `height` inches high; `draw` is given the figure."""
    import matplotlib as mpl
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    data = io.BytesIO()
    style: dict[Any, Any] = {**mpl.rcParamsDefault, **_STYLE}  # not what the user's own settings say
    with mpl.rc_context(style):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasAgg(figure)
        draw(figure)
        figure.savefig(data, dpi=150, format="png")
    return data.getvalue()


def grid(figure: Any, count: int, columns: int, **options: Any) -> list[Any]:
    """`count` panels in rows of `columns`; numbers stand under the lowest of each column."""
    columns = min(columns, count)
    axes: list[Any] = figure.subplots(math.ceil(count / columns), columns, squeeze=False, **options).ravel().tolist()
    for place, each in enumerate(axes):
        each.set_axis_on() if place < count else each.set_axis_off()
        each.tick_params(labelbottom=place + columns >= count)
    return axes[:count]


def num_rows(count: int, columns: int) -> int:
    """How many rows such a grid has."""
    return math.ceil(count / min(columns, count))


def drafter_styles(summaries: Sequence[Summary]) -> dict[str, tuple[str, str]]:
    """A colour and a marker for each drafter, the same in every picture; grey dots where nothing drafts."""
    names = [name for name in dict.fromkeys(each.drafter for each in summaries) if name]
    styles = {
        name: (COLORS[place % len(COLORS)], MARKERS[(place + place // len(COLORS)) % len(MARKERS)])
        for place, name in enumerate(names)
    }
    return {"": (GREY, "o"), **styles}


def panels(summaries: Sequence[Summary]) -> dict[str, list[Summary]]:
    """The panels to draw, by title: `chief_sections`, conditions named where they are not the main ones."""
    main = main_conditions(summaries)
    return {
        _title(prompt_set, None if conditions == main else conditions): mine
        for (prompt_set, conditions), mine in chief_sections(summaries).items()
    }


def methods_in_order(summaries: Sequence[Summary]) -> list[str]:
    """Every method once: baselines, then drafters by nodes, whichever conditions they were measured under."""
    drafters = list(dict.fromkeys(each.drafter for each in summaries))

    def key(summary: Summary) -> tuple[int, int]:
        if summary.method in BASELINES:
            return -1, BASELINES.index(summary.method)
        return drafters.index(summary.drafter), summary.num_draft_tokens

    return list(dict.fromkeys(each.method for each in sorted(summaries, key=key)))


def whole_run(summaries: Sequence[Summary], conditions: tuple[str, int]) -> list[Summary]:
    """The summaries over all sets under these conditions; those of the only set where there is one."""
    mine = [each for each in summaries if each.conditions == conditions]
    return [each for each in mine if each.prompt_set == POOLED] or mine


def _title(prompt_set: str, conditions: tuple[str, int] | None) -> str:
    """The name of a panel; conditions are named where they are not the main ones."""
    name = "all sets" if prompt_set == POOLED else prompt_set
    return name if conditions is None else f"{name}\n{conditions[0]}, batch size {conditions[1]}"
