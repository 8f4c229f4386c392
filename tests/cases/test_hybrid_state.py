"""Cases where a recurrent state kept what rejected drafts had left in it."""

import warnings

import pytest

import zoo
from kit import (
    PROMPT,
    STUBS,
    RightDrafter,
    RightUntilDrafter,
    WrongDrafter,
    assert_drafts_landed,
    greedy_answer,
    target_of,
)
from phrasedraft import Decoder, Stopping, Support

HYBRID = [family for family in ("qwen3_next", "qwen3_5", "falcon_h1") if family in zoo.FAMILIES]
STOPPING = Stopping(max_new_tokens=30)


@pytest.mark.parametrize("family", HYBRID)
@pytest.mark.parametrize("stub_name", STUBS)
def test_hybrid_refuse_the_text_is_identical_and_trees_are_refused_with_the_reason(family, stub_name):
    """`hybrid-refuse`: exact by snapshot and replay, with chains."""
    target = target_of(family)
    assert target.support is Support.CHAIN
    assert any("a layer keeps a state" in note for note in target.notes)
    answer = greedy_answer(family, 30)
    stub = STUBS[stub_name](answer)
    generation = Decoder(target, stub, num_draft_tokens=5).generate(PROMPT, stopping=STOPPING)
    assert generation.tokens == answer
    assert stub.chain_only_seen == {True}
    assert_drafts_landed(stub, generation)


def test_hybrid_silent_block_a_target_that_cannot_draft_says_so_once_and_counts_no_drafts():
    """`hybrid-silent-block`: mamba reads several tokens exactly only from an empty cache."""
    target, answer = target_of("mamba"), greedy_answer("mamba", 30)
    with pytest.warns(UserWarning, match="decoding .* without drafts: no tree drafting") as warned:
        decoder = Decoder(target, RightDrafter(answer), num_draft_tokens=5)
    assert len(warned) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        generation = decoder.generate(PROMPT, stopping=STOPPING)
    assert generation.tokens == answer
    assert generation.stats.num_drafts == generation.stats.num_draft_tokens == 0
    assert generation.stats.num_passes == 29
    assert any("no chain drafting: logits differ" in note for note in target.notes)


@pytest.mark.parametrize("family", HYBRID)
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_hybrid_token0_rejections_at_every_depth_leave_the_state_clean(family, depth):
    """`hybrid-token0`: drafts right for 0, 1 or 3 tokens and wrong from there, pass after pass."""
    answer = greedy_answer(family, 30)
    stub = RightUntilDrafter(answer, depth=depth) if depth else WrongDrafter(answer)
    generation = Decoder(target_of(family), stub, num_draft_tokens=5).generate(PROMPT, stopping=STOPPING)
    assert generation.tokens == answer
    assert generation.stats.num_draft_tokens > generation.stats.num_accepted_tokens
    assert_drafts_landed(stub, generation)
