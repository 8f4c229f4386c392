import pytest
import torch

from kit import PROMPT, RightDrafter, greedy_answer, plain, target_of
from phrasedraft import Decoder, Stopping
from phrasedraft.drafters import DraftBudget, Observer
from phrasedraft.drafters.token_recycling import TokenRecycling
from phrasedraft.errors import HeadMismatchError, OptionError
from phrasedraft.evaluation.replay import RecordedAnswer, replay, replay_answer
from phrasedraft.tree.draft_tree import DraftTree

STOPPING = Stopping(max_new_tokens=60)
NO_ROWS = torch.zeros((1, 0))


def checked(**settings):
    drafter = TokenRecycling(**settings)
    drafter.check(target_of().identity)
    return drafter


def logits_of(*rows):
    """A row of logits for each dict of probabilities by token; other tokens have next to none."""
    logits = torch.full((len(rows), target_of().identity.vocab_size), -30.0)
    for row, probabilities in zip(logits, rows, strict=True):
        for token, probability in probabilities.items():
            row[token] = torch.tensor(probability).log()
    return logits


def observed(drafter, tree, logits):
    state = drafter.begin([], tree.tokens[0], NO_ROWS, target_of().embed)
    drafter.observe(state, tree, logits)
    return state


def test_successors_of_every_verified_node_are_drafted_where_their_product_is_largest():
    drafter = checked(num_successors=2)
    tree = DraftTree((5, 6, 7), (-1, 0, 0), (1.0, 0.5, 0.5))
    rows = ({6: 0.6, 7: 0.3, 8: 0.1}, {5: 0.9, 9: 0.1}, {9: 1.0})
    state = observed(drafter, tree, logits_of(*rows))
    drafted = drafter.propose(state, DraftBudget(num_draft_tokens=4, max_depth=2))
    assert drafted.tokens == (5, 6, 5, 7, 9)
    assert drafted.parents == (-1, 0, 1, 0, 3)
    assert drafted.values == pytest.approx((1.0, 0.6, 0.54, 0.3, 0.3), rel=1e-3)


def test_the_first_node_of_a_token_is_remembered_and_a_later_tree_overwrites_it():
    drafter = checked()
    one = DraftBudget(num_draft_tokens=1, max_depth=1)
    state = observed(drafter, DraftTree.chain((5, 6, 5)), logits_of({6: 1.0}, {5: 1.0}, {9: 1.0}))
    assert drafter.propose(state, one).tokens == (5, 6)
    drafter.observe(state, DraftTree.root_only(5), logits_of({8: 1.0}))
    assert drafter.propose(state, one).tokens == (5, 8)


def test_what_one_text_taught_is_drafted_in_another():
    drafter = checked()
    observed(drafter, DraftTree.root_only(5), logits_of({6: 1.0}))
    other = drafter.begin([1, 2], 5, NO_ROWS, target_of().embed)
    assert drafter.propose(other, DraftBudget(num_draft_tokens=3, max_depth=3)).tokens[:2] == (5, 6)


def test_logits_that_are_not_numbers_teach_nothing():
    drafter = checked()
    state = observed(drafter, DraftTree.root_only(5), logits_of({6: 1.0}) * float("nan"))
    assert drafter.propose(state, DraftBudget(num_draft_tokens=3, max_depth=3)) == DraftTree.root_only(5)


def test_drafts_are_accepted_the_second_time_and_the_text_stays():
    decoder = Decoder(target_of(), TokenRecycling(), num_draft_tokens=16)
    first, second = (decoder.generate(PROMPT, stopping=STOPPING) for _ in range(2))
    assert first.tokens == second.tokens == greedy_answer("llama", 60)
    assert second.stats.num_accepted_tokens > first.stats.num_accepted_tokens > 0


def test_memory_is_that_of_the_vocabulary_and_does_not_grow():
    drafter = checked()
    before = drafter.num_bytes
    assert before == target_of().identity.vocab_size * 8 * 8
    Decoder(target_of(), drafter, num_draft_tokens=8).generate(PROMPT, stopping=STOPPING)
    assert drafter.num_bytes == before


def test_more_successors_than_tokens_are_all_tokens():
    drafter = checked(num_successors=500)
    assert drafter.num_bytes == target_of().identity.vocab_size ** 2 * 8
    decoder = Decoder(target_of(), drafter, num_draft_tokens=8)
    assert decoder.generate(PROMPT, stopping=STOPPING).tokens == greedy_answer("llama", 60)


def test_a_target_of_another_vocabulary_is_refused():
    drafter = checked()
    with pytest.raises(HeadMismatchError, match=r"has learned from target .* of 96 tokens, target .* has 80"):
        drafter.check(target_of("llama", vocab_size=80).identity)
    drafter.check(target_of().identity)


def test_a_number_of_successors_that_cannot_be_is_refused():
    with pytest.raises(OptionError, match="`num_successors` is `0`, it may be 1 or more"):
        TokenRecycling(num_successors=0)


def test_a_replay_refuses_a_drafter_that_learns_from_logits():
    answer = RecordedAnswer(prompt=PROMPT, tokens=(5, 6), hidden=torch.zeros((2, 0)), max_new_tokens=2)
    budget = DraftBudget(num_draft_tokens=4, max_depth=4)
    for call in (lambda *arguments: replay(arguments[0], [answer], *arguments[1:]), replay_one(answer)):
        with pytest.raises(OptionError, match="`token-recycling` learns from the target's logits, which a replay"):
            call(checked(), budget, target_of().embed)


def replay_one(answer):
    return lambda drafter, budget, embed: replay_answer(drafter, answer, budget, embed)


class Watching(RightDrafter):
    """The right drafter, which also notes the trees and logits it is shown."""

    def __init__(self, answer):
        super().__init__(answer)
        self.seen: list[tuple[DraftTree, torch.Tensor]] = []

    def observe(self, state, tree, logits):
        self.seen.append((tree, logits.clone()))


def test_the_loop_shows_every_verified_tree_with_a_row_of_raw_logits_for_each_node():
    answer = greedy_answer("llama", 20)
    drafter = Watching(answer)
    assert isinstance(drafter, Observer)
    assert not isinstance(RightDrafter(answer), Observer)
    generation = Decoder(target_of(), drafter, num_draft_tokens=3).generate(
        PROMPT, stopping=Stopping(max_new_tokens=20)
    )
    assert generation.tokens == answer
    assert len(drafter.seen) == generation.stats.num_passes
    position = 0
    for tree, logits in drafter.seen:
        assert tree.tokens == answer[position : position + len(tree.tokens)]
        assert logits.argmax(dim=-1).tolist() == list(answer[position + 1 : position + 1 + len(tree.tokens)])
        position += len(tree.tokens)


def test_plain_decoding_shows_a_drafter_nothing():
    drafter = Watching(())
    generation = Decoder(target_of(), drafter, num_draft_tokens=0).generate(PROMPT, stopping=STOPPING)
    assert generation.tokens == plain(target_of(), stopping=STOPPING).tokens
    assert drafter.seen == []
