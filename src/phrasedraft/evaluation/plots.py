"""Pictures of results, where matplotlib is installed."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phrasedraft.evaluation.report import Summary


def plot_speedups(path: Path, summaries: Sequence[Summary]) -> bool:
    """Draw the speed-ups over `generate()` with their intervals; False where matplotlib is missing."""
    if importlib.util.find_spec("matplotlib") is None:
        return False
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    drawn = [(each.method, each.over_generate) for each in summaries if each.over_generate is not None]
    figure = Figure(figsize=(6, 1 + 0.4 * len(drawn)), layout="constrained")
    FigureCanvasAgg(figure)
    axes: Any = figure.subplots()
    for row, (_, speedup) in enumerate(drawn):
        low, high = speedup.low or speedup.ratio, speedup.high or speedup.ratio
        axes.barh(row, speedup.ratio, color="#4c9a6a", height=0.6)
        axes.errorbar(
            speedup.ratio, row, xerr=[[speedup.ratio - low], [high - speedup.ratio]], color="black", capsize=3
        )
    axes.axvline(1, color="grey", linewidth=1)
    axes.set_yticks(range(len(drawn)), [method for method, _ in drawn])
    axes.invert_yaxis()
    axes.set_xlabel("times as fast as generate(), 95 % interval")
    figure.savefig(path, dpi=150)
    return True
