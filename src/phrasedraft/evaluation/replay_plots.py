"""Pictures of a replay, where matplotlib is installed."""

import importlib.util
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from phrasedraft.errors import OptionError
from phrasedraft.evaluation.calibration_curve import CalibrationCurve
from phrasedraft.evaluation.replay_sets import NodeCountReport
from phrasedraft.whole_file import replace_file

PLOTS = ("tokens-per-pass.png", "accepted-lengths.png", "reliability.png")


def require_matplotlib() -> None:
    """Refuse to draw where matplotlib is missing, with the command that installs it."""
    if importlib.util.find_spec("matplotlib") is None:
        raise OptionError("plots need matplotlib, which is not installed", hint="pip install 'phrasedraft[plots]'")


def plot_replay(folder: Path, reports: Sequence[NodeCountReport]) -> list[Path]:
    """Draw tokens per pass against nodes, accepted lengths, and the reliability diagram; the files written."""
    require_matplotlib()
    folder.mkdir(parents=True, exist_ok=True)
    draw = (_tokens_per_pass, _accepted_lengths, _reliability)
    paths = [folder / name for name in PLOTS]
    for path, drawn in zip(paths, draw, strict=True):
        replace_file(path, _picture(drawn, reports))
    return paths


def _picture(draw: Any, reports: Sequence[NodeCountReport]) -> bytes:  # a function of axes and reports
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    FigureCanvasAgg(figure)
    draw(figure.subplots(), reports)
    data = io.BytesIO()
    figure.savefig(data, dpi=150, format="png")
    return data.getvalue()


def _tokens_per_pass(axes: Any, reports: Sequence[NodeCountReport]) -> None:
    ordered = sorted(reports, key=lambda report: report.num_nodes)
    nodes = [report.num_nodes for report in ordered]
    names = list(ordered[0].by_set)
    for name in names:
        axes.plot(
            nodes, [report.by_set[name].stats.mean_acceptance_length for report in ordered], marker="o", label=name
        )
    if len(names) > 1:
        together = [report.together.stats.mean_acceptance_length for report in ordered]
        axes.plot(nodes, together, marker="o", color="black", label="together")
    axes.set_xlabel("draft tokens a pass")
    axes.set_ylabel("tokens per pass, bonus token included")
    axes.set_xticks(nodes)
    axes.set_ylim(bottom=1)
    axes.legend()


def _accepted_lengths(axes: Any, reports: Sequence[NodeCountReport]) -> None:
    width = 0.8 / len(reports)
    for index, report in enumerate(reports):
        lengths, passes = report.together.accepted_lengths, report.together.stats.num_passes
        axes.bar(
            [length + (index - (len(reports) - 1) / 2) * width for length in lengths],
            [count / max(passes, 1) for count in lengths.values()],
            width=width,
            label=f"{report.num_nodes} nodes",
        )
    axes.set_xlabel("accepted tokens of a pass")
    axes.set_ylabel("share of passes")
    axes.legend()


def _reliability(axes: Any, reports: Sequence[NodeCountReport]) -> None:
    largest = max(reports, key=lambda report: report.num_nodes).together
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1)
    _curve(axes, largest.calibration, "as it is", "#4c9a6a")
    if largest.uncalibrated is not None:
        _curve(axes, largest.uncalibrated, "temperature 1", "#b05050")
    axes.set_xlabel("value of a node")
    axes.set_ylabel("share of nodes that were right")
    axes.legend()


def _curve(axes: Any, curve: CalibrationCurve, name: str, color: str) -> None:
    axes.plot(
        [each.mean_value for each in curve.bins],
        [each.share_right for each in curve.bins],
        marker="o",
        color=color,
        label=f"{name}, ECE {curve.ece:.3f}",
    )
