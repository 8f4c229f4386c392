"""Cases of other projects where drafted greedy text was not the target's own."""

import random

import pytest
import torch

import zoo
from kit import (
    PROMPT,
    STUBS,
    RandomTreeDrafter,
    RightDrafter,
    RightUntilDrafter,
    WrongDrafter,
    assert_drafts_landed,
    generated,
    greedy_answer,
    plain,
    target_of,
    tree_of,
)
from phrasedraft import Choice, Decoder, FeatureSpec, Stopping, TransformersTarget
from phrasedraft.decoding import first_divergence, walk
from phrasedraft.evaluation.bench.run import first_difference
from phrasedraft.tree.draft_tree import DraftTree


@pytest.mark.parametrize("family", zoo.FAMILIES)
@torch.inference_mode()
def test_greedy_eagle_qwen_one_verify_pass_gives_the_logits_of_the_models_own_forward(family):
    """`greedy-eagle-qwen`: no re-implemented target, so a pass over drafts is a pass of the model."""
    answer = greedy_answer(family, 6)
    sequence = target_of(family).start(FeatureSpec(layers=()))
    sequence.prefill(PROMPT)
    rows = sequence.verify(DraftTree.chain(answer if family != "mamba" else answer[:1])).logits
    expected = zoo.tiny_model(family)(torch.tensor([[*PROMPT, *answer]])).logits[0, len(PROMPT) :][: len(rows)]
    assert torch.allclose(rows, expected, atol=1e-4)


@pytest.mark.parametrize("budget", [1, 2, 5, 8])
def test_greedy_long_chat_a_prompt_of_150_tokens_keeps_its_positions(budget):
    """`greedy-long-chat`: identical for every draft length after a long prompt."""
    prompt = tuple((11 * number + number // 7) % zoo.VOCAB_SIZE for number in range(150))
    answer = greedy_answer("llama", 24, prompt)
    stub = RightDrafter(answer)
    generation = Decoder(target_of(), stub, num_draft_tokens=budget).generate(
        prompt, stopping=Stopping(max_new_tokens=24)
    )
    assert generation.tokens == answer
    assert_drafts_landed(stub, generation)


def test_greedy_dflash_bs5_the_first_difference_and_a_hash_of_the_tokens_can_be_recorded():
    """`greedy-dflash-bs5`: a difference is a number in the report, not a surprise in the text."""
    answer = greedy_answer("llama", 24)
    stub = RightUntilDrafter(answer, depth=3)
    drafted = Decoder(target_of(), stub, num_draft_tokens=5).generate(PROMPT, stopping=Stopping(max_new_tokens=24))
    assert_drafts_landed(stub, drafted)
    assert first_difference(drafted.tokens, answer) is None
    assert first_difference(drafted.tokens, (*answer[:20], -1, *answer[21:])) == 20


def test_greedy_eagle3_mtbench_the_number_of_identical_prompts_can_be_counted():
    """`greedy-eagle3-mtbench`: n of N, over prompts, in fp32 always N."""
    prompts = [PROMPT, (1,), (8, 21), (33, 2, 60, 7), (90, 90), (4, 5, 6), (7, 7, 7, 7), (12, 80, 3)]
    same = []
    for prompt in prompts:
        answer = greedy_answer("llama", 16, prompt)
        decoder = Decoder(target_of(), RandomTreeDrafter(answer), num_draft_tokens=16)
        tokens = decoder.generate(prompt, stopping=Stopping(max_new_tokens=16)).tokens
        same.append(first_divergence(target_of(), prompt, answer, tokens) is None)
    assert (sum(same), len(same)) == (8, 8)


@pytest.mark.parametrize("stub_name", STUBS)
def test_greedy_mlx_dense_150_tokens_with_four_drafts_a_pass_are_identical(stub_name):
    """`greedy-mlx-dense`: a long text of a dense model with `num_draft_tokens=4`."""
    answer = greedy_answer("qwen2", 150)
    stub = STUBS[stub_name](answer)
    generation = Decoder(target_of("qwen2"), stub, num_draft_tokens=4).generate(
        PROMPT, stopping=Stopping(max_new_tokens=150)
    )
    assert generation.tokens == answer
    assert_drafts_landed(stub, generation)


def prompts_of_all_lengths():
    numbers = random.Random(1)
    return [(10,), *(tuple(numbers.randrange(zoo.VOCAB_SIZE) for _ in range(1 + turn % 12)) for turn in range(20))]


@pytest.mark.parametrize("prompt", prompts_of_all_lengths(), ids=lambda prompt: f"{len(prompt)}-{prompt[0]}")
def test_greedy_cachepos_prompts_of_one_to_twelve_tokens_are_answered_identically(prompt):
    """`greedy-cachepos`: a one-token prompt, and twenty random ones."""
    answer = greedy_answer("llama", 32, prompt)
    stub = RandomTreeDrafter(answer, seed=3)
    generation = Decoder(target_of(), stub, num_draft_tokens=6).generate(prompt, stopping=Stopping(max_new_tokens=32))
    assert generation.tokens == answer
    assert_drafts_landed(stub, generation)


@pytest.mark.parametrize("shape", ["chain", "tree", "star"])
@pytest.mark.parametrize("budget", [1, 2, 4, 8, 16, 32])
def test_greedy_medusa_choices_the_shape_of_the_tree_never_changes_the_text(budget, shape):
    """`greedy-medusa-choices`: another tree, the same text."""
    answer = greedy_answer("olmo2", 28)

    class Star(RightDrafter):
        def draft(self, state, budget):
            right = self.ahead(state, 1)
            others = [token for token in range(zoo.VOCAB_SIZE) if token not in right][: budget.num_draft_tokens - 1]
            return tree_of(state.text[-1], [(token, 0) for token in [*others, *right]])

    stub = {"chain": RightUntilDrafter, "tree": RandomTreeDrafter, "star": Star}[shape](answer)
    generation = Decoder(target_of("olmo2"), stub, num_draft_tokens=budget).generate(
        PROMPT, stopping=Stopping(max_new_tokens=28)
    )
    assert generation.tokens == answer
    assert_drafts_landed(stub, generation)


@pytest.mark.parametrize("penalty", [1.05, 1.3, 1.5])
def test_greedy_drift_reppen_a_repetition_penalty_sees_the_right_prefix(penalty):
    """`greedy-drift-reppen`: identical under a penalty, on twenty prompts, with drafts made under it."""
    for prompt in prompts_of_all_lengths()[1:]:
        answer = generated(zoo.tiny_model("llama"), prompt, 12, repetition_penalty=penalty)
        stub = RightUntilDrafter(answer, depth=3)
        generation = Decoder(target_of(), stub, num_draft_tokens=5).generate(
            prompt, Choice(repetition_penalty=penalty), Stopping(max_new_tokens=12)
        )
        assert list(generation.tokens) == answer
        assert_drafts_landed(stub, generation)


def test_greedy_mlx_divergence_where_low_precision_texts_part_is_reported_with_the_margin():
    """`greedy-mlx-divergence`: fp32 is identical; a lower precision's first difference is a near-tie, and says so."""
    target = TransformersTarget(zoo.build_model("qwen3").to(torch.bfloat16))
    stopping = Stopping(max_new_tokens=60)
    alone = plain(target, stopping=stopping)
    drafted = Decoder(target, RightUntilDrafter(alone.tokens, depth=3), num_draft_tokens=7).generate(
        PROMPT, stopping=stopping
    )
    divergence = first_divergence(target, PROMPT, alone.tokens, drafted.tokens)
    assert divergence is None or divergence.top_two_gap <= 0.5
    other = first_divergence(target, PROMPT, alone.tokens, greedy_answer("mistral", 60))
    assert other is not None
    assert other.top_two_gap >= 0


def test_greedy_sampled_accept_the_most_probable_token_is_taken_and_not_a_likely_draft():
    """`greedy-sampled-accept`: draft p(a)=.2, target p(a)=.3 and p(b)=.5; greedy must say b."""
    logits = torch.log(torch.tensor([0.3, 0.5, 0.2]))
    tree = DraftTree.chain((2, 0), (1.0, 0.2))
    committed = []
    walk(
        tree,
        lambda node: Choice().token(torch.tensor([[2]]), logits),
        lambda token, drafted: committed.append(token) or drafted,
    )
    assert committed == [1]
    generation = Decoder(target_of(), WrongDrafter(greedy_answer()), num_draft_tokens=4).generate(
        PROMPT, stopping=Stopping(max_new_tokens=40)
    )
    assert generation.stats.num_accepted_tokens == 0
