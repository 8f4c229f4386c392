"""Replays of a drafter on several sets of answers, at several node counts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from phrasedraft.drafters.protocol import DraftBudget, Drafter, Embed
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.remembering import for_replay
from phrasedraft.evaluation.replay import RecordedAnswer, replay_answer
from phrasedraft.evaluation.replay_report import ReplayReport, ReplayTally
from phrasedraft.phrases.pieces import TokenPieces


@dataclass(frozen=True, kw_only=True)
class ReplaySettings:
    """At which node counts a drafter is replayed, and whether the target checks one path only."""

    node_counts: tuple[int, ...] = (4, 8, 16, 46)
    chain_only: bool = False

    def __post_init__(self) -> None:
        counts = self.node_counts
        if not counts or min(counts) < 1 or len(set(counts)) < len(counts):
            raise OptionError(
                f"`node_counts` is `{counts}`, it may be different whole numbers of 1 or more",
                hint="such as `4, 8, 16`",
            )


@dataclass(frozen=True, kw_only=True)
class NodeCountReport:
    """What a replay at most `num_nodes` draft tokens a pass gave, on each set and on all answers together."""

    num_nodes: int
    together: ReplayReport
    by_set: dict[str, ReplayReport]

    def as_dict(self) -> dict[str, Any]:
        """Every figure, ready for JSON."""
        return {
            "num_nodes": self.num_nodes,
            "together": self.together.as_dict(),
            "sets": {name: report.as_dict() for name, report in self.by_set.items()},
        }


def replay_sets(
    drafter: Drafter,
    sets: Mapping[str, Sequence[RecordedAnswer]],
    settings: ReplaySettings,
    embed: Embed,
    pieces: TokenPieces,
    *,
    on_answer: Callable[[int], None] | None = None,
) -> list[NodeCountReport]:
    """A report for each node count; `on_answer` is told the passes of each answer, over all node counts.

    A phrase head is replayed a second time with temperature 1, for its calibration without one.
    """
    if not any(sets.values()):
        raise DataError("there are no answers to replay", hint="give answers of the target, or prompts it can answer")
    calibrated, uncalibrated = for_replay(drafter)
    tallies = {(nodes, name): ReplayTally(pieces) for nodes in settings.node_counts for name in (None, *sets)}
    for name, answers in sets.items():
        for answer in answers:
            num_passes = 0
            exact = replace(answer, hidden=answer.hidden.float())  # traces are kept in fp16
            for nodes in settings.node_counts:
                budget = DraftBudget(
                    num_draft_tokens=nodes, max_depth=answer.max_new_tokens, chain_only=settings.chain_only
                )
                replayed = replay_answer(calibrated, exact, budget, embed)
                plain = replay_answer(uncalibrated, exact, budget, embed) if uncalibrated is not None else None
                for tally in (tallies[nodes, None], tallies[nodes, name]):
                    tally.add(replayed)
                    if plain is not None:
                        tally.add_uncalibrated(plain)
                num_passes += len(replayed.passes)
            if on_answer is not None:
                on_answer(num_passes)
    return [
        NodeCountReport(
            num_nodes=nodes,
            together=tallies[nodes, None].report(),
            by_set={name: tallies[nodes, name].report() for name in sets},
        )
        for nodes in settings.node_counts
    ]
