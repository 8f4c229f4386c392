"""Greedy text with drafts is the text of transformers' own `generate()`, in fp32, token for token."""

import pytest

import kit
import zoo
from kit import PROMPT, STUBS, RightDrafter, assert_drafts_landed, greedy_answer, plain, target_of
from phrasedraft import Decoder, FinishReason, Stopping, Support, TransformersTarget

KINDS = [
    (family, kind)
    for family in zoo.FAMILIES
    for kind in (("eager",) if family in zoo.WITHOUT_SDPA else ("sdpa", "eager"))
]
BUDGETS = (1, 2, 4, 8, 16)
FOR_STOPPING = Stopping(max_new_tokens=40)


@pytest.fixture
def decode():
    """Decode with a stub and compare with the answer, which the stub knows."""

    def run(family, stub_name, budget, attn_implementation=None, max_new_tokens=28):
        answer = greedy_answer(family, max_new_tokens, attn_implementation=attn_implementation)
        stub = STUBS[stub_name](answer)
        target = target_of(family, attn_implementation)
        generation = Decoder(target, stub, num_draft_tokens=budget).generate(
            PROMPT, stopping=Stopping(max_new_tokens=max_new_tokens)
        )
        assert generation.tokens == answer
        assert generation.finish_reason is FinishReason.LENGTH
        return stub, generation

    return run


@pytest.mark.filterwarnings("ignore:decoding .* without drafts")
@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize(("family", "attn_implementation"), KINDS)
def test_every_family_says_what_it_says_alone(decode, family, attn_implementation, stub_name):
    max_new_tokens = 40 if family.endswith("wide_window") else 28
    stub, generation = decode(family, stub_name, 6, attn_implementation, max_new_tokens)
    if family == "mamba":
        assert generation.stats.num_draft_tokens == 0
    else:
        assert_drafts_landed(stub, generation)


@pytest.mark.parametrize("family", ["llama", "gemma3_wide_window", "gemma3", "qwen3_5"])
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("stub_name", STUBS)
def test_text_does_not_depend_on_the_budget(decode, family, stub_name, budget):
    stub, generation = decode(family, stub_name, budget)
    assert_drafts_landed(stub, generation)
    assert max(len(generation.stats.num_accepted_tokens_per_pos), 1) <= budget


@pytest.mark.parametrize("family", [family for family in zoo.FAMILIES if family.endswith("wide_window")])
def test_trees_give_way_to_chains_where_the_window_fills(decode, family):
    stub, generation = decode(family, "random-tree", 6, max_new_tokens=60)
    assert stub.chain_only_seen == {True, False}
    assert generation.stats.num_accepted_tokens > 10


@pytest.mark.parametrize("family", zoo.FULL_ATTENTION)
def test_full_attention_verifies_trees_and_other_layers_chains(family):
    # Bloom's position bias takes a mask of its own shape, so a tree cannot be told to it.
    assert target_of(family).support is (Support.CHAIN if family == "bloom" else Support.TREE)


@pytest.mark.parametrize("family", zoo.WINDOWED + zoo.RECURRENT)
def test_windows_and_states_fall_back_with_a_reason(family):
    target = target_of(family)
    if family.endswith("wide_window"):
        assert target.support is Support.TREE
        return
    assert target.support is (Support.NOTHING if family == "mamba" else Support.CHAIN)
    assert any("no tree drafting" in note for note in target.notes)


@pytest.mark.parametrize("num_samples", [0, 1, 2, 3])
def test_random_trees_of_other_seeds_change_the_work_and_not_the_text(num_samples):
    answer = greedy_answer("qwen3", 40)
    stub = STUBS["random-tree"](answer, seed=100 + num_samples)
    generation = Decoder(target_of("qwen3"), stub, num_draft_tokens=12).generate(PROMPT, stopping=FOR_STOPPING)
    assert generation.tokens == answer
    assert_drafts_landed(stub, generation)


def test_perfect_drafts_commit_a_full_tree_a_pass():
    answer = greedy_answer("llama", 41)
    generation = Decoder(target_of(), RightDrafter(answer), num_draft_tokens=7).generate(
        PROMPT, stopping=Stopping(max_new_tokens=41)
    )
    assert generation.tokens == answer
    assert generation.stats.mean_acceptance_length == 8
    assert generation.stats.num_passes == 5


@pytest.mark.parametrize("family", zoo.FAMILIES)
@pytest.mark.filterwarnings("ignore:decoding .* without drafts")
def test_plain_decoding_of_ours_is_that_of_transformers(family):
    assert plain(target_of(family), stopping=Stopping(max_new_tokens=28)).tokens == greedy_answer(family, 28)


@pytest.mark.parametrize("family", ["llama", "gemma3"])
@pytest.mark.parametrize("stub_name", STUBS)
def test_a_second_text_of_the_same_decoder_is_untouched_by_the_first(family, stub_name):
    answer = greedy_answer(family, 30)
    decoder = Decoder(target_of(family), STUBS[stub_name](answer), num_draft_tokens=5)
    texts = [decoder.generate(PROMPT, stopping=Stopping(max_new_tokens=30)).tokens for _ in range(2)]
    assert texts == [answer, answer]


LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [3.0] * 4,
    "factor": 8.0,
    "original_max_position_embeddings": 24,
}


@pytest.mark.parametrize("prompt", [kit.PROMPT, tuple(range(20)), tuple(range(3, 43))])
def test_positions_that_are_rotated_by_the_length_of_the_text_are_rotated_as_without_drafts(prompt):
    """The rows of a pass are rotated alike, by its last position, so none may reach over the switch."""
    model = zoo.build_model("llama", rope_parameters=LONGROPE)
    target = TransformersTarget(model)
    assert target.rope_switch == 24
    answer = kit.generated(model, prompt, 30)
    assert answer != kit.generated(zoo.tiny_model("llama"), prompt, 30)
    decoder = Decoder(target, kit.RandomTreeDrafter(answer), num_draft_tokens=6)
    generation = decoder.generate(prompt, stopping=Stopping(max_new_tokens=30))
    assert list(generation.tokens) == answer
    assert generation.stats.num_accepted_tokens > 0
