from dataclasses import dataclass, field

import pytest
import torch

from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.errors import DataError
from phrasedraft.evaluation.replay import RecordedAnswer, replay
from phrasedraft.target.features import FeatureSpec
from phrasedraft.tree.draft_tree import DraftTree
from synthetic import SyntheticTarget, answer_of, make_head, recorded

WIDE = DraftBudget(num_draft_tokens=16, max_depth=8)


@dataclass
class ScriptedDrafter:
    """Proposes the answer's own next tokens, right for `reach` of them, and notes what it was told."""

    answer: tuple[int, ...]
    reach: int
    calls: list = field(default_factory=list)
    name: str = "scripted"
    features: FeatureSpec = field(default_factory=FeatureSpec)

    def begin(self, prompt, committed, hidden, embed):
        self.calls.append(("begin", tuple(prompt), committed, hidden.tolist()))
        return [committed]

    def propose(self, state, budget):
        self.calls.append(("propose", budget))
        ahead = self.answer[len(state) : len(state) + budget.max_depth]
        return DraftTree.chain((state[-1], *ahead[: self.reach], *(63 for _ in ahead[self.reach :])))

    def update(self, state, committed, hidden):
        self.calls.append(("update", tuple(committed), hidden.flatten().tolist()))
        state += committed

    def check(self, target):
        pass

    def place(self, device):
        pass


def numbered(tokens, *, max_new_tokens=None):
    """An answer whose row i is the number i, so that a shifted row shows."""
    rows = torch.arange(len(tokens), dtype=torch.float32)[:, None]
    return RecordedAnswer(prompt=(1, 3), tokens=tokens, hidden=rows, max_new_tokens=max_new_tokens or len(tokens))


def run(tokens, reach, *, max_depth=8, max_new_tokens=None):
    drafter = ScriptedDrafter(tuple(tokens), reach)
    budget = DraftBudget(num_draft_tokens=16, max_depth=max_depth)
    answers = [numbered(tokens, max_new_tokens=max_new_tokens)]
    return replay(drafter, answers, budget, SyntheticTarget().embed), drafter


@pytest.mark.parametrize(("reach", "passes", "accepted"), [(0, 9, 0), (1, 5, 4), (2, 3, 6), (3, 3, 6), (8, 1, 8)])
def test_passes_and_accepted_tokens_are_those_counted_by_hand(reach, passes, accepted):
    stats, _ = run(range(10, 20), reach)
    assert (stats.num_passes, stats.num_accepted_tokens) == (passes, accepted)
    assert stats.mean_acceptance_length == pytest.approx(9 / passes)
    assert stats.num_generated_tokens == 10


def test_a_pass_accepts_up_to_the_first_difference_at_each_depth():
    stats, _ = run(range(10, 20), 2)
    assert stats.num_accepted_tokens_per_pos == [3, 3]
    assert (stats.landing, stats.banked) == (1.0, 2.0)


def test_the_drafter_sees_the_rows_and_tokens_of_the_live_loop():
    _, drafter = run(range(10, 17), 1)
    seen = [call for call in drafter.calls if call[0] != "propose"]
    assert seen == [
        ("begin", (1, 3), 10, [[0.0]]),
        ("update", (11, 12), [1.0, 2.0]),
        ("update", (13, 14), [3.0, 4.0]),
    ]  # the pass that ends the answer teaches nobody


def test_nothing_is_drafted_beyond_the_limit_the_answer_was_generated_with():
    _, drafter = run(range(10, 17), 0, max_depth=3)
    depths = [call[1].max_depth for call in drafter.calls if call[0] == "propose"]
    assert depths == [3, 3, 3, 2, 1]  # the sixth pass has one token left, which is a bonus token anyway
    _, drafter = run(range(10, 17), 0, max_depth=3, max_new_tokens=50)
    assert [call[1].max_depth for call in drafter.calls if call[0] == "propose"] == [3] * 6


def test_a_draft_past_the_end_of_an_answer_is_not_accepted():
    answer = numbered((10, 11), max_new_tokens=50)
    drafter = ScriptedDrafter((10, 11, 12, 13, 14), reach=4)
    stats = replay(drafter, [answer], WIDE, SyntheticTarget().embed)
    assert (stats.num_passes, stats.num_accepted_tokens) == (1, 0)


def test_answers_of_one_token_cost_no_pass():
    stats, _ = run([10], 1)
    assert (stats.num_passes, stats.mean_acceptance_length) == (0, 1.0)


def test_only_the_right_branch_of_a_tree_counts():
    target = SyntheticTarget()
    head = make_head([(5,), (5, 6), (7,), (7, 6), (8,)])
    trace = target.trace(answer_of([4, 7, 6, 9, 9]))
    stats = replay(head, [recorded(trace)], WIDE, target.embed)
    assert (stats.num_passes, stats.num_accepted_tokens) == (2, 2)  # 7 6 with bonus 9, then 9 alone


def test_answers_add_up():
    target, head = SyntheticTarget(), make_head([(5,), (5, 6), (7,)])
    answers = [recorded(target.trace(answer_of(tokens))) for tokens in ([4, 5, 6, 7], [7, 7, 7], [9, 5])]
    apart = [replay(head, [answer], WIDE, target.embed) for answer in answers]
    together = replay(head, answers, WIDE, target.embed)
    assert together.num_passes == sum(stats.num_passes for stats in apart)
    assert together.num_accepted_tokens == sum(stats.num_accepted_tokens for stats in apart)


def test_a_record_without_a_row_for_each_token_is_refused():
    with pytest.raises(DataError, match="3 tokens has 2 hidden states"):
        RecordedAnswer(prompt=(1,), tokens=(4, 5, 6), hidden=torch.zeros((2, 1)), max_new_tokens=9)
