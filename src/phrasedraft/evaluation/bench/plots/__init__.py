"""The pictures of a benchmark's report, where matplotlib is installed."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path

from phrasedraft.evaluation.bench.plots.accepted import accepted_picture, category_picture
from phrasedraft.evaluation.bench.plots.passes import cost_picture, tokens_per_pass_picture
from phrasedraft.evaluation.bench.plots.speed import speedup_picture
from phrasedraft.evaluation.bench.result import Provenance, Result
from phrasedraft.evaluation.bench.summary import Summary
from phrasedraft.whole_file import replace_file

PICTURES = ("speedup.png", "tokens_per_pass.png", "cost.png", "accepted_lengths.png", "categories.png")


def draw_plots(
    folder: Path, results: Sequence[Result], summaries: Sequence[Summary], provenance: Provenance
) -> list[str]:
    """Draw `PICTURES` into `folder`; the names of those there was something to draw for, none without matplotlib.

    A picture of an earlier report that there is nothing to draw for any more is removed.
    """
    for name in PICTURES:
        (folder / name).unlink(missing_ok=True)
    if importlib.util.find_spec("matplotlib") is None:
        return []
    drawn = {
        "speedup.png": speedup_picture(summaries),
        "tokens_per_pass.png": tokens_per_pass_picture(summaries),
        "cost.png": cost_picture(summaries, provenance),
        "accepted_lengths.png": accepted_picture(results, summaries),
        "categories.png": category_picture(results, summaries),
    }
    for name, picture in drawn.items():
        if picture is not None:
            replace_file(folder / name, picture)
    return [name for name in PICTURES if drawn[name] is not None]
