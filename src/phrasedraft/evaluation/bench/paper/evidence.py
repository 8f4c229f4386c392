"""What a run measured of what the paper speaks of: its phrase heads and its word drafter, set by set."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import PurePath

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.evaluation.bench.paper.estimate import Estimate, Figure, estimate, ratio
from phrasedraft.evaluation.bench.paper.figures import Paper
from phrasedraft.evaluation.bench.result import CHOSEN_NODES, PLAIN, Provenance, Result
from phrasedraft.evaluation.bench.summary import Summary

COMPARABLE = "comparable"
NOT_MEASURED = "not measured in this run"
ARITHMETIC = "the paper's own figures"
PHRASE_HEAD = "phrase-head"
"""What a run says of the paper's kind of head (`kind`)."""
PHRASES, WORDS, OTHER = "phrases", "words", "other"
"""What a drafter drafts, as far as the paper speaks of it."""


@dataclass(frozen=True, kw_only=True)
class PaperSet:
    """A prompt set of the paper: its key in the names of figures, its name, the stem of our file, and a remark."""

    key: str
    name: str
    stem: str
    remark: str = ""


SETS = (
    PaperSet(key="gsm8k", name="GSM8K", stem="gsm8k_test"),
    PaperSet(key="math500", name="MATH-500", stem="math500"),
    PaperSet(key="mt_bench", name="MT-Bench", stem="mt_bench", remark=", not trained for this set"),
)
MATHS = SETS[:2]


@dataclass(frozen=True, kw_only=True)
class Arm:
    """One method on one prompt set under one dtype, at the paper's batch size."""

    prompt_set: str
    method: str
    drafter: str
    num_draft_tokens: int
    dtype: str
    results: tuple[Result, ...]

    @cached_property
    def counts(self) -> DecodingStats:
        """The counts of all answers together."""
        total = DecodingStats()
        for result in self.results:
            if result.counts is not None:
                total.add(result.counts)
        return total

    def of_sums(self, figure: Figure, *amounts: Callable[[Result], float]) -> Estimate | None:
        """`figure` of the sums of `amounts` over all answers, its interval over groups."""
        groups: dict[str, list[Result]] = {}
        for result in self.results:
            groups.setdefault(result.group, []).append(result)
        return estimate(figure, *([sum(map(amount, group)) for group in groups.values()] for amount in amounts))

    @cached_property
    def tokens_per_pass(self) -> Estimate | None:
        """Committed tokens over passes, from the lengths of the passes."""
        return self.of_sums(ratio, lambda result: sum(result.pass_lengths), lambda result: len(result.pass_lengths))

    @cached_property
    def landing(self) -> Estimate | None:
        """Passes that accepted something over all passes, from the loop's counters."""
        return self.of_sums(ratio, _counter("num_landings"), _counter("num_passes"))

    @cached_property
    def banked(self) -> Estimate | None:
        """Accepted tokens over passes that accepted something, from the loop's counters."""
        return self.of_sums(ratio, _counter("num_accepted_tokens"), _counter("num_landings"))

    def share_of(self, categories: Iterable[str]) -> Estimate | None:
        """The share of accepted tokens that came in phrases of these categories."""
        wanted = tuple(categories)
        return self.of_sums(
            ratio,
            lambda result: sum(result.categories.get(name, 0) for name in wanted),
            lambda result: sum(result.categories.values()),
        )

    def __str__(self) -> str:
        """What was measured, as tables say it."""
        num_prompts = len({result.group for result in self.results})
        return f"{self.method}, {self.dtype}, {num_prompts} prompt{'s' * (num_prompts != 1)}"


class Evidence:
    """The results, and whether they can be set beside a figure of the paper."""

    def __init__(
        self, paper: Paper, results: Sequence[Result], provenance: Provenance, summaries: Sequence[Summary]
    ) -> None:
        self.paper = paper
        self.provenance = provenance
        self._summaries = {(each.prompt_set, each.method, each.dtype, each.batch_size): each for each in summaries}
        by_arm: dict[tuple[str, str, str], list[Result]] = {}
        for result in results:
            if result.batch_size == paper.batch_size:
                by_arm.setdefault((result.prompt_set, result.method, result.dtype), []).append(result)
        self._arms = [
            Arm(
                prompt_set=prompt_set,
                method=method,
                drafter=rows[0].drafter,
                num_draft_tokens=rows[0].num_draft_tokens,
                dtype=dtype,
                results=tuple(rows),
            )
            for (prompt_set, method, dtype), rows in by_arm.items()
        ]

    def arms(self, paper_set: PaperSet, kind: str = PHRASES) -> list[Arm]:
        """What was measured of drafters of a kind on a set, by dtype, drafter and number of draft tokens."""
        found = [each for each in self._arms if _stem(each.prompt_set) == paper_set.stem]
        found = [each for each in found if not each.method.endswith(CHOSEN_NODES)]  # the paper's trees are fixed
        chosen = [each for each in found if self.kind(each.drafter) == kind and each.counts.num_passes]
        return sorted(chosen, key=lambda each: (each.dtype, each.drafter, each.num_draft_tokens))

    def nearest(self, paper_set: PaperSet, kind: str = PHRASES) -> list[Arm]:
        """Of each dtype and drafter the arm whose number of draft tokens is nearest to the paper's."""
        best: dict[tuple[str, str], Arm] = {}
        for each in self.arms(paper_set, kind):
            place = (each.dtype, each.drafter)
            if place not in best or self._distance(each) < self._distance(best[place]):
                best[place] = each
        return list(best.values())

    def plain(self, arm: Arm) -> Arm | None:
        """The plain loop on the same set under the same dtype."""
        place = (arm.prompt_set, PLAIN, arm.dtype)
        return next((each for each in self._arms if (each.prompt_set, each.method, each.dtype) == place), None)

    def summary(self, arm: Arm) -> Summary | None:
        """The summary of the same answers."""
        return self._summaries.get((arm.prompt_set, arm.method, arm.dtype, self.paper.batch_size))

    def kind(self, drafter: str) -> str:
        """What a drafter drafts: by what the run says of it (`kind`), else by its name and whether it has weights.

        The paper speaks of phrase heads alone: what several drafters propose together, or a chain, is something else.
        """
        facts = self.provenance.drafters.get(drafter, {})
        if "+" in drafter or facts.get("kind", PHRASE_HEAD) != PHRASE_HEAD:
            return OTHER
        if re.search(r"\bwords\b", drafter):
            return WORDS
        return PHRASES if facts.get("parameters") and "chain" not in drafter else OTHER

    def verdict(self, *, hardware: bool = False, arm: Arm | None = None, more: Sequence[str] = ()) -> str:
        """Whether ours can be set beside the paper's figure, and if not, everything that differs.

        `hardware` where the figure is a time, `arm` where it depends on the number of draft tokens.
        """
        differs = list[str]()
        if PurePath(self.provenance.target).name.lower() != self.paper.target.lower():
            differs.append("other target")
        if hardware and self.paper.hardware not in str(self.provenance.machine):
            differs.append("other hardware")
        if arm is not None and arm.num_draft_tokens != self.paper.num_positions:
            differs.append("other number of positions")
        return ", ".join([*differs, *more]) or COMPARABLE

    def _distance(self, arm: Arm) -> int:
        return abs(arm.num_draft_tokens - self.paper.num_positions)


def _stem(prompt_set: str) -> str:
    """The name of a set that may be a file."""
    return PurePath(prompt_set).name.partition(".")[0]


def _counter(name: str) -> Callable[[Result], float]:
    return lambda result: getattr(result.counts, name) if result.counts is not None else 0
