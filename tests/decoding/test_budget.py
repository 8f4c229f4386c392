"""Decoding with a number of nodes that is chosen pass by pass: the same text, other passes."""

import time

import pytest

from kit import PROMPT, STUBS, RandomTreeDrafter, WrongDrafter, assert_drafts_landed, greedy_answer, plain, target_of
from phrasedraft import Choice, Decoder, DecodingStats, Stopping, Support
from phrasedraft.budget import AUTO, MOST_NODES
from phrasedraft.budget.policy import AdaptiveBudget
from phrasedraft.decoding.walk import Verification
from phrasedraft.errors import OptionError
from simulation import keep_flat_cost

STOPPING = Stopping(max_new_tokens=80)
NOTHING_ACCEPTED = Verification(path=(0,), bonus_token=5)


@pytest.fixture(autouse=True)
def costs(monkeypatch, tmp_path):
    """Where the costs of passes are kept: a folder of the test's own."""
    monkeypatch.setenv("PHRASEDRAFT_CACHE", str(tmp_path))
    return tmp_path / "costs"


def chooser(drafter, family="llama"):
    """A decoder that chooses its nodes, and has been told that they cost nothing."""
    keep_flat_cost(target_of(family))
    return Decoder(target_of(family), drafter, num_draft_tokens=AUTO)


class Watched(RandomTreeDrafter):
    """Remembers what it proposed and what of it the target checked."""

    def __init__(self, answer):
        super().__init__(answer)
        self.proposed, self.checked, self.asked = [], [], []

    def draft(self, state, budget):
        self.asked.append(budget.num_draft_tokens)
        self.proposed.append(super().draft(state, budget).cut(budget.max_depth))
        return self.proposed[-1]

    def observe(self, state, tree, logits):
        if tree.num_draft_tokens:
            self.checked.append(tree)


class Dear(WrongDrafter):
    """A draft takes longer than many passes, and is wrong."""

    def draft(self, state, budget):
        time.sleep(0.05)
        return super().draft(state, budget)


@pytest.mark.parametrize("family", ["llama", "qwen2", "mistral_window", "mistral_wide_window", "qwen3_5"])
@pytest.mark.parametrize("stub_name", STUBS)
def test_the_greedy_text_is_the_targets_own(family, stub_name):
    answer = greedy_answer(family, 80)
    stub = STUBS[stub_name](answer)
    generation = chooser(stub, family).generate(PROMPT, stopping=STOPPING)
    assert generation.tokens == answer
    assert_drafts_landed(stub, generation)


def test_drawn_text_is_that_of_plain_decoding_with_the_same_seed():
    choice = Choice(temperature=0.9, seed=7)
    expected = plain(target_of(), choice, STOPPING)
    stub = RandomTreeDrafter(expected.tokens)
    drafted = chooser(stub).generate(PROMPT, choice, STOPPING)
    assert drafted.tokens == expected.tokens
    assert_drafts_landed(stub, drafted)


def test_the_first_nodes_of_what_was_proposed_are_checked():
    drafter = Watched(greedy_answer("llama", 80))
    stats = chooser(drafter).generate(PROMPT, stopping=STOPPING).stats
    proposals = iter(drafter.proposed)
    assert drafter.checked
    for tree in drafter.checked:
        assert any(proposal.first(tree.num_draft_tokens) == tree for proposal in proposals)
    assert min(drafter.asked) >= 8
    assert max(drafter.asked) <= MOST_NODES
    assert stats.num_draft_tokens == sum(tree.num_draft_tokens for tree in drafter.checked)


def test_a_chain_is_cut_to_what_is_worth_it():
    assert target_of("qwen3_5").support is Support.CHAIN
    drafter = Watched(greedy_answer("qwen3_5", 80))
    chooser(drafter, "qwen3_5").generate(PROMPT, stopping=STOPPING)
    assert drafter.checked
    assert all(tree.is_chain for tree in drafter.checked)


def test_a_drafter_that_only_costs_time_is_left_alone_and_the_decoder_remembers():
    drafter = Dear(greedy_answer("llama", 80))
    decoder = Decoder(target_of(), drafter, num_draft_tokens=AUTO)
    first = decoder.generate(PROMPT, stopping=STOPPING)
    asked = drafter.num_proposals
    second = decoder.generate(PROMPT, stopping=STOPPING)
    assert first.tokens == second.tokens == greedy_answer("llama", 80)
    assert 1 <= asked <= 12
    assert drafter.num_proposals == asked
    assert second.stats.num_passes_per_size == [79]


def test_a_fixed_number_measures_nothing_and_has_no_policy(costs):
    for count in (0, 1, 8):
        decoder = Decoder(target_of(), WrongDrafter(()), num_draft_tokens=count)
        assert decoder.policy is None
        assert decoder.num_draft_tokens == count
    assert not costs.exists()


def test_auto_measures_once_for_every_decoder(costs):
    decoders = [Decoder(target_of(), WrongDrafter(()), num_draft_tokens=AUTO) for _ in range(2)]
    assert len(list(costs.iterdir())) == 1
    assert all(isinstance(decoder.policy, AdaptiveBudget) for decoder in decoders)
    assert decoders[0].policy is not decoders[1].policy
    assert decoders[0].num_draft_tokens == MOST_NODES


def test_nothing_is_measured_or_drafted_where_nothing_can_be_checked(costs):
    assert target_of("mamba").support is Support.NOTHING
    stub = RandomTreeDrafter(greedy_answer("mamba", 20))
    with pytest.warns(UserWarning, match="without drafts"):
        decoder = Decoder(target_of("mamba"), stub, num_draft_tokens=AUTO)
    generation = decoder.generate(PROMPT, stopping=Stopping(max_new_tokens=20))
    assert generation.tokens == greedy_answer("mamba", 20)
    assert stub.num_proposals == generation.stats.num_draft_tokens == 0
    assert not costs.exists()


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize("value", ["many", "AUTO", "8", -1, 2.5, None])
def test_other_values_are_refused(value):
    with pytest.raises(OptionError, match=r"`num_draft_tokens` is .* or `auto`"):
        Decoder(target_of(), WrongDrafter(()), num_draft_tokens=value)


def test_passes_are_counted_by_their_size():
    stats = (
        Decoder(target_of(), RandomTreeDrafter(greedy_answer("llama", 80)), num_draft_tokens=AUTO)
        .generate(PROMPT, stopping=STOPPING)
        .stats
    )
    sizes = stats.num_passes_per_size
    assert sum(sizes) == stats.num_passes
    assert sum(size * count for size, count in enumerate(sizes)) == stats.num_draft_tokens
    assert stats.num_passes - sizes[0] == stats.num_drafts
    assert stats.mean_draft_tokens == stats.num_draft_tokens / stats.num_passes > 0


def test_sizes_are_added_and_come_back_from_json():
    stats = DecodingStats()
    for size in (8, 0, 8, 3):
        stats.count(NOTHING_ACCEPTED, size)
    assert stats.num_passes_per_size == [1, 0, 0, 1, 0, 0, 0, 0, 2]
    other = DecodingStats()
    other.count(NOTHING_ACCEPTED, 1)
    other.add(stats)
    assert other.num_passes_per_size == [1, 1, 0, 1, 0, 0, 0, 0, 2]
    assert stats.num_passes_per_size == [1, 0, 0, 1, 0, 0, 0, 0, 2]
    assert DecodingStats.from_dict(other.as_dict()) == other


def test_statistics_of_before_sizes_were_counted_are_read():
    stats = DecodingStats()
    stats.count(NOTHING_ACCEPTED, 5)
    line = stats.as_dict()
    del line["num_passes_per_size"]
    assert DecodingStats.from_dict(line).num_passes == 1
    assert DecodingStats.from_dict(line).num_passes_per_size == []
