"""What each source adds to each head: tokens per pass on the target's own answers to the bundled prompts, by replay.

    python benchmarks/study/sources.py --drafter smollm2-135m+suffix-automaton --work runs/sources

Every drafter replays the same answers (the first 40 prompts of each set, 256 tokens at most) at 4, 8, 16 and 46 nodes.
Rows that are in `--results` are not made again. `--report` prints the tables: tokens per pass, and what each drafter
has more than another, with 95 % bootstrap intervals over prompts, both drafters of a prompt drawn together.
"""

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console

from phrasedraft import DraftBudget, load_target
from phrasedraft.cli.replayed_answers import generate_set, record
from phrasedraft.drafters import load_drafter, load_head
from phrasedraft.evaluation.prompts import BUNDLED
from phrasedraft.evaluation.replay import replay
from phrasedraft.evaluation.statistics import bootstrap_interval

NODES = (4, 8, 16, 46)
MAX_NEW_TOKENS = 256
MAX_DEPTH = 64


def name_of(spec, steps=None):
    name = spec.replace("benchmarks/heads/", "").replace("smollm2-135m", "phrase-head")
    return name if steps is None else f"{name}, {steps} steps"


def load(spec, steps):
    """A new drafter; a chain that takes other than its own steps a draft where they are given."""
    drafter = load_drafter(spec)
    if steps is not None:
        drafter.config = replace(drafter.config, num_steps=steps)
    return drafter


def measure(options):
    """Append a row for each drafter, set and node count that is missing."""
    console = Console(stderr=True)
    done = {(row["drafter"], row["set"], row["nodes"]) for row in rows_of(options.results)}
    target = load_target("smollm2-135m", packed=False)
    head = load_head("smollm2-135m")
    sets = {}
    for name in BUNDLED:
        answers = generate_set(
            name, head, target, limit=options.limit, max_new_tokens=MAX_NEW_TOKENS, work=options.work, notes=console
        )
        sets[name] = record(answers, head, target, options.work, console)
    for spec in options.drafter:
        for nodes in NODES:
            for name, answers in sets.items():
                if (name_of(spec, options.steps), name, nodes) in done:
                    continue
                row = replay_set(spec, options.steps, nodes, name, answers, target)
                with options.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                console.print(row["drafter"], name, nodes, f"{row['tokens_per_pass']:.3f}", f"{row['seconds']:.0f} s")


def replay_set(spec, steps, nodes, name, answers, target):
    """One drafter, new, over one set."""
    drafter, passes, accepted = load(spec, steps), [], []
    budget = DraftBudget(num_draft_tokens=nodes, max_depth=MAX_DEPTH)
    started = time.perf_counter()
    for answer in answers:
        stats = replay(drafter, [answer], budget, target.embed)
        passes.append(stats.num_passes)
        accepted.append(stats.num_accepted_tokens)
    return {
        "drafter": name_of(spec, steps),
        "set": name,
        "nodes": nodes,
        "tokens_per_pass": 1 + sum(accepted) / sum(passes),
        "passes": passes,
        "accepted": accepted,
        "seconds": time.perf_counter() - started,
    }


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()] if path.is_file() else []


def columns(row):
    return np.array([row["passes"], row["accepted"]], dtype=np.float64).T


def rate(sums):
    return 1 + sums[..., 1] / sums[..., 0]


def cell(low_high, value):
    low, high = low_high
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def report(options):
    """The tables, in Markdown."""
    rows = {(row["drafter"], row["set"], row["nodes"]): row for row in rows_of(options.results)}
    if options.plot:
        plot(rows, options.plot)
    drafters = list(dict.fromkeys(drafter for drafter, _, _ in rows))
    sets = [name for name in BUNDLED if any(key[1] == name for key in rows)]
    for nodes in NODES:
        print(f"\n### {nodes} nodes\n\n| drafter | {' | '.join(sets)} |\n|---|{'---|' * len(sets)}")
        for drafter in drafters:
            cells = []
            for name in sets:
                row = rows.get((drafter, name, nodes))
                cells.append(cell(bootstrap_interval(columns(row), rate), row["tokens_per_pass"]) if row else "")
            print(f"| {drafter} | {' | '.join(cells)} |")
    for pair in options.gain:
        one, other = pair.split(":")
        print(f"\n### {one} over {other}\n\n| nodes | {' | '.join(sets)} |\n|---|{'---|' * len(sets)}")
        for nodes in NODES:
            cells = []
            for name in sets:
                first, second = rows.get((one, name, nodes)), rows.get((other, name, nodes))
                if not (first and second):
                    cells.append("")
                    continue
                both = np.hstack([columns(first), columns(second)])
                gain = lambda sums: rate(sums[..., :2]) - rate(sums[..., 2:])  # noqa: E731
                cells.append(cell(bootstrap_interval(both, gain), gain(both.sum(0))))
            print(f"| {nodes} | {' | '.join(cells)} |")


def plot(rows, path):
    """Tokens per pass by nodes, one picture a set, with intervals."""
    drafters = list(dict.fromkeys(drafter for drafter, _, _ in rows))
    figure, axes = plt.subplots(1, len(BUNDLED), figsize=(16, 4.5), sharey=True, layout="constrained")
    for axis, name in zip(axes, BUNDLED, strict=True):
        for drafter in drafters:
            found = [rows[drafter, name, nodes] for nodes in NODES if (drafter, name, nodes) in rows]
            values = np.array([row["tokens_per_pass"] for row in found])
            ends = np.array([bootstrap_interval(columns(row), rate) for row in found])
            nodes = [row["nodes"] for row in found]
            axis.errorbar(nodes, values, yerr=np.abs(ends.T - values), label=drafter, marker="o", capsize=2)
        axis.set(title=name, xlabel="draft tokens", xscale="log", xticks=NODES, xticklabels=NODES)
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("tokens per pass")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--drafter", action="append", default=[])
    parser.add_argument("--steps", type=int, help="how many steps a chain takes a draft, its own unless given")
    parser.add_argument("--work", type=Path, default=Path("runs/sources"))
    parser.add_argument("--results", type=Path, default=Path("benchmarks/study/sources.jsonl"))
    parser.add_argument("--limit", type=int, default=40)
    parser.add_argument("--gain", action="append", default=[], help="ONE:OTHER, for the report")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--plot", type=Path, help="the picture, beside the report")
    options = parser.parse_args()
    if options.report:
        report(options)
    else:
        measure(options)


if __name__ == "__main__":
    main()
