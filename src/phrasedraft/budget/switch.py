"""Whether to draft at all: drafting that has cost more than it brought pauses until that is paid back."""

from enum import Enum

LARGEST_DEBT = 6.0
"""What drafting may lose before it stops, in plain passes."""

PROBE_DEBT = 0.5
"""What a try after a pause may lose, in plain passes."""

FEWEST_DRAFTS = 12
"""Drafts before drafting stops, unless they have lost `LARGEST_DEBT` already."""

FEWEST_PROBES = 4
"""Drafts of a try, unless they have lost `LARGEST_DEBT` already."""

PAID_SHARE = 0.02
"""A pause is so long that what was lost is at most this share of its time."""

SHORTEST_PAUSE, LONGEST_PAUSE = 16, 512


class Mode(Enum):
    """What the switch does at present."""

    ON = "on"
    PAUSE = "pause"
    PROBE = "probe"


class DraftSwitch:
    """Turns drafting off where it does not pay and tries it again now and then.

    It keeps a debt: the time drafts took beyond what plain decoding would have taken for the same tokens, in plain
    passes, and never below 0, so that old gains do not pay for new losses. A debt that is too large ends drafting for
    as many passes as it takes for the debt to be `PAID_SHARE` of them. A pause after a failed try is at least twice as
    long as the one before, up to `LONGEST_PAUSE` (longer only where a single draft costs more than that pays for).
    """

    def __init__(self) -> None:
        self.mode = Mode.ON
        self._debt = 0.0
        self._num_drafts = 0
        self._num_left = 0
        self._last_pause = SHORTEST_PAUSE // 2

    def count_plain(self) -> None:
        """A pass went by without a draft."""
        if self.mode is not Mode.PAUSE:
            return
        self._num_left -= 1
        if self._num_left <= 0:
            self._begin(Mode.PROBE)

    def count_draft(self, loss: float) -> None:
        """A draft cost `loss` plain passes more than its tokens would have cost without it; negative where it paid."""
        self._num_drafts += 1
        self._debt += loss
        if self.mode is Mode.PROBE:
            self._judge_probe()
            return
        self._debt = max(0.0, self._debt)
        if not self._debt:
            self._num_drafts = 0
        if self._debt > LARGEST_DEBT and (self._num_drafts >= FEWEST_DRAFTS or self._debt > 2 * LARGEST_DEBT):
            self._last_pause = SHORTEST_PAUSE // 2
            self._pause()

    def _judge_probe(self) -> None:
        """A try that pays ends the pauses; one that has lost its stake begins the next."""
        enough = self._num_drafts >= FEWEST_PROBES
        if enough and self._debt < 0:
            self._begin(Mode.ON)
        elif self._debt > LARGEST_DEBT or (enough and self._debt > PROBE_DEBT):
            self._pause()

    def _pause(self) -> None:
        longer = min(2 * self._last_pause, LONGEST_PAUSE)
        self._num_left = self._last_pause = max(longer, round(self._debt / PAID_SHARE + 0.5))
        self._begin(Mode.PAUSE)

    def _begin(self, mode: Mode) -> None:
        self.mode, self._debt, self._num_drafts = mode, 0.0, 0
