"""A head that remembers its scores drafts the very same trees, and scores each row once."""

import pytest
import torch

from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.evaluation import remembering
from phrasedraft.evaluation.remembering import for_replay
from phrasedraft.evaluation.replay import replay_answer
from phrasedraft.evaluation.replay_sets import ReplaySettings, replay_sets
from phrasedraft.phrases.pieces import TokenPieces
from synthetic import VOCAB, SyntheticTarget, answer_of, make_head, recorded
from worked_example import STORY_DRAFTER

TARGET = SyntheticTarget()
PHRASES = [*((token,) for token in range(3, 40)), *((a, b) for a in range(3, 20) for b in range(3, 9))]
BUDGETS = [DraftBudget(num_draft_tokens=nodes, max_depth=8) for nodes in (1, 4, 12)]


def some_answers():
    generator = torch.Generator().manual_seed(1)
    return [
        recorded(TARGET.trace(answer_of(torch.randint(3, 20, (40,), generator=generator).tolist()))) for _ in range(3)
    ]


@pytest.mark.parametrize("memory_bytes", [1 << 26, 1])
def test_a_head_that_remembers_drafts_the_same_trees(monkeypatch, memory_bytes):
    monkeypatch.setattr(remembering, "MEMORY_BYTES", memory_bytes)
    head, cooler = make_head(PHRASES, temperature=1.7), make_head(PHRASES, temperature=1.0)
    calibrated, uncalibrated = for_replay(head)
    for answer in some_answers():
        for budget in BUDGETS:
            assert replay_answer(calibrated, answer, budget, TARGET.embed) == replay_answer(
                head, answer, budget, TARGET.embed
            )
            assert replay_answer(uncalibrated, answer, budget, TARGET.embed) == replay_answer(
                cooler, answer, budget, TARGET.embed
            )


def test_each_row_is_scored_once_over_all_budgets_and_temperatures():
    (answer, *_) = some_answers()
    calibrated, uncalibrated = for_replay(make_head(PHRASES, temperature=1.7))
    asked = 0
    for budget in BUDGETS:
        for head in (calibrated, uncalibrated):
            asked += len(replay_answer(head, answer, budget, TARGET.embed).passes)
    assert calibrated.scorer.num_scored < len(answer.tokens) < asked


def test_a_drafter_that_is_no_phrase_head_is_replayed_as_it_is():
    assert for_replay(STORY_DRAFTER) == (STORY_DRAFTER, None)


def test_a_report_shows_the_calibration_with_and_without_temperature():
    pieces = TokenPieces.from_bytes(dict.fromkeys(range(VOCAB), b" word"), VOCAB)
    answers = {"a": some_answers()}

    def curves(temperature):
        head = make_head(PHRASES, temperature=temperature)
        (report,) = replay_sets(head, answers, ReplaySettings(node_counts=(6,)), TARGET.embed, pieces)
        return report.together.calibration, report.together.uncalibrated

    warm, plain = curves(3.0)
    assert warm != plain
    assert curves(1.0) == (plain, plain)
