"""Cases where sampled text had another distribution than the target's, or a seed was not honoured."""

import pytest
import torch

import zoo
from kit import (
    PROMPT,
    RandomTreeDrafter,
    RightDrafter,
    RightUntilDrafter,
    StubDrafter,
    assert_drafts_landed,
    plain,
    target_of,
    tree_of,
)
from phrasedraft import Choice, Decoder, Stopping, TransformersTarget

STOPPING = Stopping(max_new_tokens=16)


def decoder_of(drafter_type=RightDrafter, answer=(), num_draft_tokens=5):
    return Decoder(target_of(), drafter_type(answer), num_draft_tokens=num_draft_tokens)


def test_samp_typical_lossy_a_tree_of_two_branches_and_two_levels_samples_the_targets_own_text():
    """`samp-typical-lossy`: the chi-square over eight tokens is in exactness/; here each text is the plain one."""

    class Wide(StubDrafter):
        def draft(self, state, budget):
            return tree_of(state.text[-1], [(0, 0), (5, 0), (0, 1), (3, 1), (5, 2), (2, 2)])

    target = target_of("llama", vocab_size=8)
    decoder = Decoder(target, Wide(()), num_draft_tokens=6)
    accepted = 0
    for seed in range(10):
        choice = Choice(temperature=3.0, seed=seed)
        generation = decoder.generate((1, 2, 3), choice, STOPPING)
        assert generation.tokens == plain(target, choice, STOPPING, prompt=(1, 2, 3)).tokens
        accepted += generation.stats.num_accepted_tokens
    assert accepted > 15


def test_samp_seed_noeffect_another_seed_gives_another_text():
    """`samp-seed-noeffect`: ten seeds, more than five texts."""
    decoder = decoder_of(RandomTreeDrafter)
    texts = {decoder.generate(PROMPT, Choice(temperature=1.5, seed=seed), STOPPING).tokens for seed in range(10)}
    assert len(texts) > 5


def test_samp_shared_rng_unseeded_texts_differ_from_each_other():
    """`samp-shared-rng`: no seed given, so every text has one of its own, whatever torch's generators hold."""
    decoder, texts = decoder_of(RandomTreeDrafter), set()
    for _ in range(10):
        torch.manual_seed(0)
        texts.add(decoder.generate(PROMPT, Choice(temperature=1.5), STOPPING).tokens)
    assert len(texts) > 5


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_samp_dtype_what_a_drafter_computes_in_changes_nothing_about_the_distribution(dtype):
    """`samp-dtype`: no draft probability takes part, so drafts of low precision are as good; the draw is in float64."""

    class Rounded(RightUntilDrafter):
        def draft(self, state, budget):
            tree = super().draft(state, budget)
            values = tuple(float(torch.tensor(0.1, dtype=dtype)) for _ in tree.values)
            return type(tree)(tree.tokens, tree.parents, (1.0, *values[1:]))

    choice = Choice(temperature=1.3, seed=4)
    answer = plain(target_of(), choice, STOPPING)
    stub = Rounded(answer.tokens)
    generation = Decoder(target_of(), stub, num_draft_tokens=5).generate(PROMPT, choice, STOPPING)
    assert generation.tokens == answer.tokens
    assert_drafts_landed(stub, generation)
    low = TransformersTarget(zoo.build_model("llama").to(dtype))
    assert plain(low, choice, STOPPING).tokens == plain(low, choice, STOPPING).tokens


def test_samp_seed_the_same_seed_gives_the_same_text_with_other_texts_in_between():
    """`samp-seed`: 42 twice, 43 in between; a seed of a request is not a state of the process."""
    decoder = decoder_of(RightUntilDrafter)

    def text(seed):
        return decoder.generate(PROMPT, Choice(temperature=1.5, seed=seed), STOPPING).tokens

    first = text(42)
    other = text(43)
    torch.manual_seed(7)
    assert text(42) == first != other
    assert text(43) == other


def test_samp_seed_batch_texts_that_are_decoded_in_turns_do_not_mix():
    """`samp-seed-batch`: four streams of one decoder, token by token in turns, greedy and seeded ones together."""
    choices = [Choice(), Choice(temperature=1.5, seed=1), Choice(), Choice(temperature=1.5, seed=2)]
    serial = [plain(target_of(), choice, STOPPING).tokens for choice in choices]
    decoder = decoder_of(RandomTreeDrafter, serial[0])
    streams = [decoder.stream(PROMPT, choice, STOPPING) for choice in choices]
    texts = [[] for _ in choices]
    for _ in range(16):
        for stream, text in zip(streams, texts, strict=True):
            text.append(next(stream).token)
    assert [tuple(text) for text in texts] == serial


@pytest.mark.parametrize("temperature", [0.5, 1.0, 1.5])
def test_samp_dflash_temp_deterministic_drafts_leave_the_distribution_alone_at_every_temperature(temperature):
    """`samp-dflash-temp`: a drafter that always proposes its best guess, and does not know the temperature."""
    for seed in range(6):
        choice = Choice(temperature=temperature, seed=seed)
        answer = plain(target_of(), choice, STOPPING)
        stub = RightUntilDrafter(answer.tokens)
        generation = Decoder(target_of(), stub, num_draft_tokens=5).generate(PROMPT, choice, STOPPING)
        assert generation.tokens == answer.tokens
        assert_drafts_landed(stub, generation)
