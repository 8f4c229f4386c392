"""Choose the prompts that stand for each bundled set in `phrasedraft bench --quick`, from the committed full benchmark.

`python benchmarks/quick_prompts.py` writes `quick.json` beside the sets: of each set those two prompts whose figures,
set by set and over all sets, are closest to the middles of the full benchmark's intervals.
"""

import itertools
import json
import sys
from pathlib import Path

import numpy as np

from phrasedraft.evaluation.bench.result import GENERATE, Result
from phrasedraft.evaluation.bench.summary import POOLED, Summary, summarize
from phrasedraft.evaluation.bench.table import read_results
from phrasedraft.evaluation.prompts import BUNDLED, QUICK

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "full" / "results.parquet"
CHOSEN = ROOT / "src" / "phrasedraft" / "evaluation" / "data" / QUICK
NUM_PROMPTS, NUM_CANDIDATES = 2, 24
MOST_SECONDS = 220.0
"""What the answers of all methods to all chosen prompts may take together."""
METHODS = (GENERATE, "generate() with prompt lookup", "plain loop", "phrase-head, 8 nodes")
"""What a quick run measures."""


class Figures:
    """Sums for each prompt of a set; figures of any choice of prompts, as deviations from the middle of an interval."""

    def __init__(self, results: list[Result], summaries: list[Summary], prompt_set: str) -> None:
        mine = [each for each in results if each.prompt_set == prompt_set or prompt_set == POOLED]
        self.names = list(dict.fromkeys(each.group for each in mine))
        place = {name: index for index, name in enumerate(self.names)}
        self.sums = np.zeros((len(self.names), 2 * len(METHODS) + 2))
        for each in mine:
            column, row = 2 * METHODS.index(each.method), self.sums[place[each.group]]
            row[column : column + 2] += (each.seconds, len(each.tokens))
            if each.method == METHODS[-1]:
                row[-2:] += (len(each.pass_lengths), sum(each.pass_lengths))
        known = {each.method: each for each in summaries if each.prompt_set == prompt_set}
        ratios = [known[method].over_generate for method in METHODS[1:]]
        intervals = [(each.low, each.high) for each in ratios] + [known[METHODS[-1]].tokens_per_pass_interval]
        self.low, self.high = np.array(intervals, dtype=float).T

    def deviations(self, sums: np.ndarray) -> np.ndarray:
        """How far each figure is from the middle, 1 being an end of the interval."""
        pace = sums[..., : 2 * len(METHODS) : 2] / sums[..., 1 : 2 * len(METHODS) : 2]
        passes = np.maximum(sums[..., -2], 1)
        figures = np.concatenate([pace[..., :1] / pace[..., 1:], ((sums[..., -1] / passes)[..., None])], axis=-1)
        return (figures - (self.low + self.high) / 2) / ((self.high - self.low) / 2)


def _off(deviations: np.ndarray) -> np.ndarray:
    """How far a choice is off in all its figures: the worst one counts as much as all others."""
    return np.abs(deviations).max(axis=-1) ** 4 + (deviations**2).mean(axis=-1)


def choose(results: list[Result]) -> tuple[dict[str, list[str]], float]:
    """The prompts of each set, and how far off they are in all, 0 being the middle of every interval."""
    results = [each for each in results if each.method in METHODS]
    summaries = summarize(results)
    sets = {name: Figures(results, summaries, name) for name in BUNDLED}
    pooled = Figures(results, summaries, POOLED)
    candidates = {}
    for name, figures in sets.items():
        pairs = np.array(list(itertools.combinations(range(len(figures.names)), NUM_PROMPTS)))
        off = _off(figures.deviations(figures.sums[pairs].sum(axis=1)))
        best = off.argsort(kind="stable")[:NUM_CANDIDATES]
        candidates[name] = (pairs[best], off[best], figures.sums[pairs[best]].sum(axis=1))
    places = np.array(list(itertools.product(*(range(len(pairs)) for pairs, *_ in candidates.values()))))
    sums = sum(candidates[name][2][places[:, column]] for column, name in enumerate(sets))
    worst = _off(pooled.deviations(sums))
    for column, name in enumerate(sets):
        worst = worst + candidates[name][1][places[:, column]]
    worst[sums[:, : 2 * len(METHODS) : 2].sum(axis=1) > MOST_SECONDS] = np.inf
    best = int(worst.argmin())
    chosen = {
        name: [sets[name].names[place] for place in candidates[name][0][places[best, column]]]
        for column, name in enumerate(sets)
    }
    return chosen, float(worst[best])


def main() -> None:
    results, _ = read_results(Path(sys.argv[1]) if len(sys.argv) > 1 else RESULTS)
    chosen, worst = choose(list(results))
    CHOSEN.write_text(json.dumps(chosen, indent=2) + "\n", encoding="utf-8")
    print(f"{chosen}: {worst:.3f} off")


if __name__ == "__main__":
    main()
