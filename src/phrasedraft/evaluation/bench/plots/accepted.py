"""The pictures of what was accepted: how much in a pass, and in which kind of phrase."""

from collections.abc import Mapping, Sequence
from typing import Any

from phrasedraft.evaluation.bench.accepted import accepted_lengths, category_shares
from phrasedraft.evaluation.bench.plots.canvas import drafter_styles, grid, num_rows, picture
from phrasedraft.evaluation.bench.result import CHOSEN_NODES, Result
from phrasedraft.evaluation.bench.summary import Summary, main_conditions
from phrasedraft.phrases.inspection import PhraseCategory

LONGEST = 8
"""Passes that accept as much or more share a bar."""

_KIND_COLORS = dict(
    zip(PhraseCategory, ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#F0E442", "#B0B0B0"), strict=True)
)
_SMALLEST_LABELLED = 0.06


def accepted_picture(results: Sequence[Result], summaries: Sequence[Summary]) -> bytes | None:
    """The share of passes by accepted tokens, a panel for each drafter, a shade for each number of nodes."""
    lengths = accepted_lengths(_main_results(results, summaries))
    shown: dict[str, dict[str, int]] = {}
    for each in summaries:
        if each.drafter and each.method in lengths:
            shown.setdefault(each.drafter, {})[each.method] = each.num_draft_tokens
    if not shown:
        return None

    def draw(figure: Any) -> None:
        styles = drafter_styles(summaries)
        axes = grid(figure, len(shown), 3, sharex=True, sharey=True)
        for each, (drafter, methods) in zip(axes, shown.items(), strict=True):
            each.set_title(drafter)
            each.grid(axis="y", color="#E5E5E5")
            each.set_axisbelow(True)
            _draw_lengths(each, methods, lengths, styles[drafter][0])
        axes[0].set_xticks(range(LONGEST + 1), [*map(str, range(LONGEST)), f"{LONGEST}+"])
        axes[0].yaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        figure.supxlabel("draft tokens accepted by a pass", fontsize=10)
        figure.supylabel("share of passes", fontsize=10)

    return picture(2.6 * num_rows(len(shown), 3) + 0.4, draw)


def category_picture(results: Sequence[Result], summaries: Sequence[Summary]) -> bytes | None:
    """The shares of the kinds of phrases among accepted tokens, a bar for each method."""
    found = category_shares(_main_results(results, summaries))
    methods = [name for name in dict.fromkeys(each.method for each in summaries) if name in found]
    if not methods:
        return None

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        for row, method in enumerate(methods):
            _draw_kinds(axes, row, found[method])
        axes.set_yticks(range(len(methods)), methods, fontsize=9)
        axes.set_ylim(len(methods) - 0.4, -0.6)
        axes.set_xlim(0, 1)
        axes.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
        axes.set_xlabel("share of accepted tokens")
        handles = [axes.barh(0, 0, color=color) for color in _KIND_COLORS.values()]
        figure.legend(
            handles, [kind.value for kind in _KIND_COLORS], loc="outside upper center", ncols=7, frameon=False
        )

    return picture(1.3 + 0.27 * len(methods), draw)


def _main_results(results: Sequence[Result], summaries: Sequence[Summary]) -> list[Result]:
    main = main_conditions(summaries)
    return [result for result in results if (result.dtype, result.batch_size) == main]


def _draw_lengths(axes: Any, methods: Mapping[str, int], lengths: Mapping[str, Mapping[int, int]], color: str) -> None:
    width = 0.84 / len(methods)
    is_plain = len(set(methods.values())) == len(methods) and not any(name.endswith(CHOSEN_NODES) for name in methods)
    for place, (method, nodes) in enumerate(methods.items()):
        counts = [0] * (LONGEST + 1)
        for length, passes in lengths[method].items():
            counts[min(length, LONGEST)] += passes
        axes.bar(
            [bar + (place - (len(methods) - 1) / 2) * width for bar in range(LONGEST + 1)],
            [count / sum(counts) for count in counts],
            width=width,
            color=color,
            alpha=0.3 + 0.7 * (place + 1) / len(methods),
            label=f"{nodes} nodes" if is_plain else method,
        )
    axes.legend(fontsize=8, frameon=False)


def _draw_kinds(axes: Any, row: int, shares: Mapping[str, float]) -> None:
    left = 0.0
    for kind, color in _KIND_COLORS.items():
        share = shares.get(kind.value, 0.0)
        axes.barh(row, share, left=left, color=color, height=0.8, edgecolor="white", linewidth=0.5)
        if share >= _SMALLEST_LABELLED:
            dark = kind in (PhraseCategory.WORDS, PhraseCategory.DIGITS)
            color_of_text = "white" if dark else "black"
            axes.text(left + share / 2, row, f"{share:.0%}", ha="center", va="center", fontsize=8, color=color_of_text)
        left += share
