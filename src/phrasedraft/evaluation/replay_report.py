"""The account of a replay: what was accepted, where in the draft, in which kind of phrase, and as often as promised?"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.evaluation.calibration_curve import CalibrationCurve, CalibrationTally
from phrasedraft.evaluation.replay import ReplayedAnswer, ReplayedPass
from phrasedraft.phrases.inspection import PhraseCategory, categorize
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.tree.draft_tree import DraftTree


@dataclass(frozen=True, kw_only=True)
class PositionLine:
    """The draft tokens `position` steps below the root: passes that drafted there, passes that accepted there.

    `share` is of all passes, `share_after_previous` of the passes that accepted the position before.
    """

    position: int
    num_drafted: int
    num_accepted: int
    share: float
    share_after_previous: float


@dataclass(frozen=True, kw_only=True)
class CategoryLine:
    """One kind of phrase. A node counts under the kind of its path from the root, the root left out.

    `num_saved_tokens` counts the tokens of a pass under the kind of the whole accepted path, so that `. The` saves two
    mixed tokens, though its first node alone is punctuation. Over all kinds the draft tokens, the accepted tokens, the
    landings and the saved tokens add up to those of the replay.
    """

    num_draft_tokens: int
    num_accepted_tokens: int
    num_landings: int
    num_saved_tokens: int


@dataclass(frozen=True, kw_only=True)
class WholePhrases:
    """Of the passes that landed, how many had a drafted phrase accepted to its end.

    With a merged tree the drafted phrases of a pass are its paths from the root to a leaf; at most one is right.
    `num_open_landings` are the landings whose first accepted token had something drafted after it, so that more than
    one token could be accepted.
    """

    num_landings: int
    num_whole: int
    num_open_landings: int
    num_open_whole: int

    @property
    def share(self) -> float:
        """P(whole phrase accepted | landed)."""
        return self.num_whole / max(self.num_landings, 1)

    @property
    def open_share(self) -> float:
        """The same where more was drafted after the first accepted token."""
        return self.num_open_whole / max(self.num_open_landings, 1)


@dataclass(frozen=True, kw_only=True)
class ReplayReport:
    """Every figure of a replay of some answers at one node count.

    `accepted_lengths` counts passes by accepted tokens, 0 included. `uncalibrated` is the calibration of the same
    drafter with temperature 1, None where it has none.
    """

    num_answers: int
    stats: DecodingStats
    accepted_lengths: dict[int, int]
    positions: tuple[PositionLine, ...]
    categories: dict[PhraseCategory, CategoryLine]
    whole_phrases: WholePhrases
    calibration: CalibrationCurve
    uncalibrated: CalibrationCurve | None

    def as_dict(self) -> dict[str, Any]:
        """Every figure, ready for JSON."""
        stats = self.stats
        counts = ("num_generated_tokens", "num_passes", "num_drafts", "num_draft_tokens", "num_accepted_tokens")
        return {
            "num_answers": self.num_answers,
            **{name: getattr(stats, name) for name in (*counts, "num_landings")},
            "tokens_per_pass": stats.mean_acceptance_length,
            "landing": stats.landing,
            "banked": stats.banked,
            "acceptance_rate": stats.acceptance_rate,
            "accepted_lengths": {str(length): count for length, count in self.accepted_lengths.items()},
            "positions": [asdict(line) for line in self.positions],
            "categories": {kind.value: asdict(line) for kind, line in self.categories.items()},
            "whole_phrases": {
                **asdict(self.whole_phrases),
                "share": self.whole_phrases.share,
                "open_share": self.whole_phrases.open_share,
            },
            "calibration": self.calibration.as_dict(),
            "uncalibrated": self.uncalibrated.as_dict() if self.uncalibrated is not None else None,
        }


class ReplayTally:
    """Counts replayed answers as they come; `pieces` say what kind of phrase a path is."""

    def __init__(self, pieces: TokenPieces) -> None:
        self._pieces = pieces
        self._kinds: dict[tuple[int, ...], PhraseCategory] = {}
        self._num_answers = 0
        self._stats = DecodingStats()
        self._lengths: Counter[int] = Counter()
        self._depths: Counter[int] = Counter()
        self._drafted, self._accepted, self._landings, self._saved = (Counter[PhraseCategory]() for _ in range(4))
        self._whole, self._open, self._open_whole = 0, 0, 0
        self._calibration, self._uncalibrated = CalibrationTally(), CalibrationTally()
        self._has_uncalibrated = False

    def add(self, answer: ReplayedAnswer) -> None:
        """Count one answer."""
        self._num_answers += 1
        self._stats.add(answer.stats)
        for each in answer.passes:
            self._lengths[each.num_accepted_tokens] += 1
            self._depths.update(range(1, max(each.tree.depths) + 1))
            self._calibration.add(each.tree.values[1:], each.outcomes[1:])
            self._count_kinds(each)
            self._count_whole(each)

    def add_uncalibrated(self, answer: ReplayedAnswer) -> None:
        """Count one answer replayed with temperature 1, whose values are what the scores say by themselves."""
        self._has_uncalibrated = True
        for each in answer.passes:
            self._uncalibrated.add(each.tree.values[1:], each.outcomes[1:])

    def report(self) -> ReplayReport:
        """The figures of what was counted so far."""
        whole = WholePhrases(
            num_landings=self._stats.num_landings,
            num_whole=self._whole,
            num_open_landings=self._open,
            num_open_whole=self._open_whole,
        )
        stats = DecodingStats()
        stats.add(self._stats)
        return ReplayReport(
            num_answers=self._num_answers,
            stats=stats,
            accepted_lengths={length: self._lengths[length] for length in range(max(self._lengths, default=-1) + 1)},
            positions=self._positions(),
            categories={
                kind: CategoryLine(
                    num_draft_tokens=self._drafted[kind],
                    num_accepted_tokens=self._accepted[kind],
                    num_landings=self._landings[kind],
                    num_saved_tokens=self._saved[kind],
                )
                for kind in PhraseCategory
                if self._drafted[kind]
            },
            whole_phrases=whole,
            calibration=self._calibration.curve(),
            uncalibrated=self._uncalibrated.curve() if self._has_uncalibrated else None,
        )

    def _count_kinds(self, each: ReplayedPass) -> None:
        paths = _paths(each.tree)
        for path in paths[1:]:
            self._drafted[self._kind(path)] += 1
        for node in each.verification.path[1:]:
            self._accepted[self._kind(paths[node])] += 1
        if each.num_accepted_tokens:
            kind = self._kind(paths[each.verification.path[-1]])
            self._landings[kind] += 1
            self._saved[kind] += each.num_accepted_tokens

    def _count_whole(self, each: ReplayedPass) -> None:
        if not each.num_accepted_tokens:
            return
        inner = set(each.tree.parents)
        whole = any(outcome and node not in inner for node, outcome in enumerate(each.outcomes))
        is_open = each.verification.path[1] in inner
        self._whole += whole
        self._open += is_open
        self._open_whole += whole and is_open

    def _kind(self, path: tuple[int, ...]) -> PhraseCategory:
        if path not in self._kinds:  # a vocabulary has few paths, which are drafted again and again
            self._kinds[path] = categorize(path, self._pieces)
        return self._kinds[path]

    def _positions(self) -> tuple[PositionLine, ...]:
        accepted: Sequence[int] = self._stats.num_accepted_tokens_per_pos
        lines, before = [], self._stats.num_passes
        for position in range(1, max(self._depths, default=0) + 1):
            count = accepted[position - 1] if position <= len(accepted) else 0
            lines.append(
                PositionLine(
                    position=position,
                    num_drafted=self._depths[position],
                    num_accepted=count,
                    share=count / max(self._stats.num_passes, 1),
                    share_after_previous=count / max(before, 1),
                )
            )
            before = count
        return tuple(lines)


def _paths(tree: DraftTree) -> list[tuple[int, ...]]:
    """The tokens from below the root to each node."""
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree.tokens)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return paths
