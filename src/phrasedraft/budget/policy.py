"""How many nodes are worth their time, pass by pass, and whether drafting is at all."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from phrasedraft.budget import MOST_NODES
from phrasedraft.budget.curve import CostCurve
from phrasedraft.budget.recent import RecentMedian, Slowness, ValueScale
from phrasedraft.budget.switch import DraftSwitch, Mode

FEWEST_ASKED = 8
"""A drafter is asked for so many nodes at least, so that larger trees can be seen to pay."""

PLAIN_EVERY = 256
"""After so many drafts in a row one pass goes without, to see what plain decoding costs now."""


MOST_LOADING = 64
"""A first draft that takes longer than so many plain passes is no loading any more."""
MOST_DRAFTING = 3
"""A draft counts at most so many times the median of the last ones."""


@dataclass(frozen=True, kw_only=True)
class PassOutcome:
    """What one pass cost and gave.

    `num_asked` nodes were asked for (0: nothing was drafted), `num_nodes` were checked, whose values add up to
    `predicted`; the pass came after `context_tokens` cached tokens. `after_seconds` are what learning from it, walking
    and keeping took.
    """

    num_asked: int
    num_nodes: int
    predicted: float
    num_accepted: int
    context_tokens: int
    draft_seconds: float
    verify_seconds: float
    after_seconds: float = 0.0


class AdaptiveBudget:
    """Buys nodes while tokens per second rise, and turns drafting off where it does not pay.

    It has no clock: everything follows from the cost curve and from what `observe` is told. What a pass takes is the
    curve's time, times how far the curve was off lately, with and without drafts each for itself.
    """

    def __init__(self, curve: CostCurve, most: int = MOST_NODES) -> None:
        self._curve = curve
        self._most = most
        self._switch = DraftSwitch()
        self._scale = ValueScale()
        self._slowness = Slowness()
        self._draft_seconds = RecentMedian(16, 0.0)
        self._after_draft, self._after_plain = RecentMedian(16, 0.0), RecentMedian(16, 0.0)
        self._has_drafted = False
        self._mean_chosen = 0.0
        self._num_since_plain = 0

    @property
    def mode(self) -> Mode:
        """Whether it drafts, pauses, or tries again."""
        return self._switch.mode

    @property
    def scale(self) -> float:
        """What the drafter's values are multiplied by: accepted over predicted tokens, lately."""
        return self._scale.value

    def ask(self) -> int:
        """How many nodes to ask the drafter for in this pass; 0: nothing is to be drafted.

        It grows with the number chosen lately, so that more are seen where more would pay, and no faster, because a
        drafter's own time grows with the number asked for.
        """
        if self._switch.mode is Mode.PAUSE or self._num_since_plain >= PLAIN_EVERY:
            return 0
        return min(self._most, FEWEST_ASKED + round(self._mean_chosen))

    def choose(self, values: Sequence[float], context_tokens: int) -> int:
        """How many of the proposed nodes to check: the first n, with the most expected tokens per second.

        `values` are those of the tree's nodes, the root's first; the draft has been made, so its time counts whatever
        is chosen. The fewest of equals.
        """
        most = min(len(values) - 1, self._most)
        drafting, gained = self._draft_seconds.value, accumulate(values[1 : most + 1], initial=0.0)
        plain, *drafted = self._seconds_up_to(most, context_tokens)
        after = self._after_more
        seconds = [plain, *(after + each for each in drafted)]
        scale = self.scale
        rates = [(1 + scale * sum_) / (drafting + each) for sum_, each in zip(gained, seconds, strict=True)]
        return max(range(most + 1), key=rates.__getitem__)

    def observe(self, outcome: PassOutcome) -> None:
        """Learn from a pass, also one without a draft."""
        expected = self._curve.seconds(outcome.num_nodes, outcome.context_tokens)
        self._slowness.add(outcome.num_nodes, outcome.verify_seconds / expected)
        (self._after_draft if outcome.num_nodes else self._after_plain).add(outcome.after_seconds)
        self._num_since_plain = self._num_since_plain + 1 if outcome.num_nodes else 0
        if not outcome.num_asked:
            was_paused = self._switch.mode is Mode.PAUSE
            self._switch.count_plain()
            if was_paused and self._switch.mode is Mode.PROBE:
                self._scale.forget()
            return
        self._draft_seconds.add(outcome.draft_seconds)
        self._scale.add(outcome.predicted, outcome.num_accepted)
        self._mean_chosen += (outcome.num_nodes - self._mean_chosen) / 8
        self._switch.count_draft(self._loss(outcome))
        self._has_drafted = True

    def pass_seconds(self, num_nodes: int, context_tokens: int) -> float:
        """What a pass takes at present; with nodes never less than without, whatever the clock said."""
        return self._seconds_up_to(num_nodes, context_tokens)[-1]

    def _seconds_up_to(self, most: int, context_tokens: int) -> list[float]:
        measured = self._curve.seconds_up_to(most, context_tokens)
        plain, drafted = self._slowness.of(0) * measured[0], self._slowness.of(1)
        return [plain, *(max(plain, drafted * seconds) for seconds in measured[1:])]

    def _loss(self, outcome: PassOutcome) -> float:
        """What a draft cost beyond plain decoding of the same tokens, in plain passes.

        Draft and pass count with what such drafts and passes take, not with what these took: one that hung is nobody's
        fault. Nor is the first draft of all, which loads what later ones find loaded.
        """
        plain = self.pass_seconds(0, outcome.context_tokens)
        drafting = min(outcome.draft_seconds, MOST_DRAFTING * self._draft_seconds.value)
        if not self._has_drafted and drafting < MOST_LOADING * plain:
            drafting = 0.0
        after = self._after_more if outcome.num_nodes else 0.0
        seconds = drafting + after + self.pass_seconds(outcome.num_nodes, outcome.context_tokens)
        return seconds / plain - (1 + outcome.num_accepted)

    @property
    def _after_more(self) -> float:
        """What comes after a pass with draft tokens takes longer than after one without."""
        plain = self._after_plain.value or self._after_draft.value  # alike, until a plain pass was seen
        return max(self._after_draft.value - plain, 0.0)
