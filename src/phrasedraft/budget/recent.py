"""What was seen lately, by which the budget corrects what was measured and what drafters say."""

import statistics
from collections import deque


class RecentMedian:
    """The median of the last few values; `start` until there is one. A pass that hung does not move it."""

    def __init__(self, length: int, start: float) -> None:
        self._values: deque[float] = deque(maxlen=length)
        self.value = start

    def add(self, value: float) -> None:
        """Take note of a value."""
        self._values.append(value)
        self.value = statistics.median(self._values)


class Slowness:
    """How many times as long as measured passes take at present.

    What slows the machine slows every pass alike, so one median serves them all; a second one holds how passes without
    draft tokens stand to the others. The two can be told apart only where both kinds happen side by side.
    """

    NEAR = 8
    """A pass without draft tokens is compared with passes that had some if one of these was among the last so many."""

    def __init__(self) -> None:
        self._machine = RecentMedian(32, 1.0)
        self._plain = RecentMedian(32, 1.0)
        self._num_since_drafted = self.NEAR

    def add(self, num_nodes: int, ratio: float) -> None:
        """A pass over so many nodes took `ratio` times as long as measured."""
        if num_nodes:
            self._num_since_drafted = 0
            self._machine.add(ratio)
            return
        if self._num_since_drafted < self.NEAR:
            self._plain.add(ratio / self._machine.value)
        self._num_since_drafted += 1
        self._machine.add(ratio / self._plain.value)

    def of(self, num_nodes: int) -> float:
        """What passes over so many nodes take, over what was measured."""
        return self._machine.value * (1.0 if num_nodes else self._plain.value)


class ValueScale:
    """How far a drafter's values are to be believed: accepted over predicted tokens of about the last 100 drafts.

    It is 1 before anything was drafted, and comes back to 1 while nothing is, so that a drafter nobody believed any
    more is heard again.
    """

    KEPT = 0.99
    PRIOR_TOKENS = 2.0
    LOWEST, HIGHEST = 0.02, 2.0

    def __init__(self) -> None:
        self._predicted = self._accepted = 0.0

    @property
    def value(self) -> float:
        """What a value is multiplied by."""
        ratio = (self._accepted + self.PRIOR_TOKENS) / (self._predicted + self.PRIOR_TOKENS)
        return min(self.HIGHEST, max(self.LOWEST, ratio))

    def add(self, predicted: float, num_accepted: int) -> None:
        """One draft: the sum of the values of its nodes, and how many tokens were accepted."""
        self._predicted = self.KEPT * self._predicted + predicted
        self._accepted = self.KEPT * self._accepted + num_accepted

    def forget(self) -> None:
        """Begin anew."""
        self._predicted = self._accepted = 0.0
