"""`walk` follows the target's choices down the tree, and asks for nothing off that path."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit import tree_of
from phrasedraft.decoding import DecodingStats, Verification, walk
from phrasedraft.tree.draft_tree import DraftTree

TREE = tree_of(5, [(7, 0), (8, 0), (9, 1), (4, 3)])


def walk_with(tree, choices, ends_after=None):
    asked, committed = [], []

    def choose(node):
        asked.append(node)
        return choices[len(asked) - 1]

    def commit(token, was_drafted):
        committed.append((token, was_drafted))
        return len(committed) != ends_after

    return walk(tree, choose, commit), asked, committed


def test_choices_in_the_tree_are_followed_and_the_first_other_is_the_bonus():
    verification, asked, committed = walk_with(TREE, [7, 9, 6])
    assert verification == Verification(path=(0, 1, 3), bonus_token=6)
    assert asked == [0, 1, 3]
    assert committed == [(7, True), (9, True), (6, False)]


def test_a_choice_that_is_elsewhere_in_the_tree_is_not_followed():
    verification, asked, _ = walk_with(TREE, [9])
    assert verification == Verification(path=(0,), bonus_token=9)
    assert asked == [0]


def test_the_token_after_a_leaf_is_a_bonus():
    assert walk_with(TREE, [7, 9, 4, 1])[0] == Verification(path=(0, 1, 3, 4), bonus_token=1)


@pytest.mark.parametrize("ends_after", [1, 2, 3])
def test_nothing_is_chosen_after_the_end_and_the_last_token_is_the_bonus(ends_after):
    verification, asked, committed = walk_with(TREE, [7, 9, 4, 1], ends_after)
    assert len(asked) == len(committed) == ends_after
    assert verification.num_accepted_tokens == ends_after - 1
    assert verification.bonus_token == committed[-1][0]


def test_a_greedy_target_takes_its_own_token_however_probable_the_draft_is():
    target = {"a": 0.3, "b": 0.5}  # the draft says `a` with 0.2 < 0.3, which a ratio test would accept
    chosen = ["a", "b"].index(max(target, key=target.get))
    verification, _, committed = walk_with(DraftTree.chain((9, 0)), [chosen])
    assert committed == [(1, False)]
    assert verification.num_accepted_tokens == 0


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 30)), max_size=12), st.lists(st.integers(0, 3), min_size=13)
)
def test_what_is_committed_never_depends_on_the_tree(nodes, choices):
    kept = []
    for token, number in nodes:
        node = (token, number % (len(kept) + 1))
        if node not in kept:
            kept.append(node)
    verification, _, committed = walk_with(tree_of(0, kept), choices)
    assert [token for token, _ in committed] == choices[: len(committed)]
    assert len(committed) == verification.num_accepted_tokens + 1
    assert [was_drafted for _, was_drafted in committed] == [True] * verification.num_accepted_tokens + [False]


def test_statistics_count_passes_drafts_landings_and_places():
    stats = DecodingStats()
    stats.count(Verification((0, 1, 3), 6), 4)
    stats.count(Verification((0,), 6), 4)
    stats.count(Verification((0, 1), 6), 2)
    stats.count(Verification((0,), 6), 0)
    assert (stats.num_passes, stats.num_drafts, stats.num_draft_tokens) == (4, 3, 10)
    assert (stats.num_accepted_tokens, stats.num_landings) == (3, 2)
    assert stats.num_accepted_tokens_per_pos == [2, 1]
    assert stats.mean_acceptance_length == 1.75
    assert stats.acceptance_rate == 0.3
    assert stats.landing == 0.5
    assert stats.banked == 1.5


def test_statistics_of_two_texts_add_up():
    first, second = DecodingStats(prefill_seconds=1.0), DecodingStats(prefill_seconds=2.0, num_generated_tokens=5)
    first.count(Verification((0, 1), 6), 4)
    second.count(Verification((0, 1, 2, 3), 6), 4)
    first.add(second)
    assert first.num_accepted_tokens_per_pos == [2, 1, 1]
    assert (first.num_passes, first.num_accepted_tokens, first.num_generated_tokens) == (2, 4, 5)
    assert first.prefill_seconds == 3.0


def test_statistics_of_nothing_divide_by_nothing():
    values = DecodingStats().as_dict()
    assert values["mean_acceptance_length"] == 1.0
    assert values["acceptance_rate"] == values["landing"] == values["banked"] == values["outside_share"] == 0.0
