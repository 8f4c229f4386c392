"""The study's table and plot, from `results.jsonl` alone.

    python benchmarks/study/report.py benchmarks/study/results.jsonl

Intervals are 95 %, by bootstrap over the held-out answers (the same resamples for every point).
"""

import json
import sys
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

RESAMPLES = 2_000


def tokens_per_pass(answers):
    """The figure and its interval."""
    table = np.asarray(answers, dtype=float)
    draws = np.random.default_rng(0).integers(0, len(table), (RESAMPLES, len(table)))
    sums = table[draws].sum(axis=1)
    figures = 1 + sums[:, 0] / sums[:, 1]
    total = table.sum(axis=0)
    return 1 + total[0] / total[1], *np.percentile(figures, [2.5, 97.5])


def kept(answers, of):
    """The share of the tokens per pass of `of` that `answers` keep, with its interval (paired by answer)."""
    small, large = np.asarray(answers, dtype=float), np.asarray(of, dtype=float)
    draws = np.random.default_rng(0).integers(0, len(small), (RESAMPLES, len(small)))
    one, other = (1 + t[draws].sum(axis=1)[:, 0] / t[draws].sum(axis=1)[:, 1] for t in (small, large))
    whole = [1 + t.sum(axis=0)[0] / t.sum(axis=0)[1] for t in (small, large)]
    return whole[0] / whole[1], *np.percentile(one / other, [2.5, 97.5])


def main():
    path = Path(sys.argv[1])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    lines.sort(key=lambda line: (line["num_phrases"], line["trunk_width"], line["share"], line["seed"]))
    out = [
        "| phrases | trunk | training tokens | parameters | seed | tokens per pass, 95 % |",
        "|---|---|---|---|---|---|",
    ]
    for line in lines:
        figure, low, high = tokens_per_pass(line["answers"])
        out.append(
            f"| {line['num_phrases']:,} | {line['trunk_width']} | {line['train_tokens']:,} | {line['parameters']:,} | "
            f"{line['seed']} | {figure:.3f} ({low:.3f} to {high:.3f}) |"
        )
    at = {(line["num_phrases"], line["trunk_width"], line["share"], line["seed"]): line["answers"] for line in lines}
    for small, large in ((8_000, 32_000), (1_000, 8_000)):
        if (small, 256, 1.0, 0) in at and (large, 256, 1.0, 0) in at:
            share, low, high = kept(at[small, 256, 1.0, 0], at[large, 256, 1.0, 0])
            out.append(f"\n{small:,} phrases keep {share:.1%} ({low:.1%} to {high:.1%}) of what {large:,} give.")
    path.with_name("table.md").write_text("\n".join(out) + "\n")
    print("\n".join(out))
    _plot(lines, path.with_name("study.png"))


def _plot(lines, path):
    figure, axes = plt.subplots(figsize=(7, 4.5))
    markers = {128: "o", 256: "s"}
    shares = sorted({line["share"] for line in lines})
    for share in shares:
        for width in markers:
            chosen = [line for line in lines if (line["share"], line["trunk_width"], line["seed"]) == (share, width, 0)]
            if not chosen:
                continue
            figures = np.array([tokens_per_pass(line["answers"]) for line in chosen])
            axes.errorbar(
                [line["parameters"] / 1e6 for line in chosen],
                figures[:, 0],
                yerr=[figures[:, 0] - figures[:, 1], figures[:, 2] - figures[:, 0]],
                marker=markers[width],
                color=f"C{shares.index(share)}",
                linestyle="-" if width == 256 else "--",
                capsize=3,
                label=f"{chosen[0]['train_tokens']:,} tokens, trunk {width}",
            )
    axes.set(xscale="log", xlabel="parameters of the head (millions)", ylabel="tokens per pass, 8 draft tokens")
    axes.legend(fontsize=7)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    main()
