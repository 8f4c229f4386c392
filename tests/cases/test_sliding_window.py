"""Cases where a sliding window lost the rows that a rejected draft needs back, or saw the wrong ones."""

import pytest

import zoo
from kit import PROMPT, RightDrafter, RightUntilDrafter, WrongDrafter, assert_drafts_landed, greedy_answer, target_of
from phrasedraft import Decoder, Stopping, Support

LONG_PROMPT = tuple((7 * number + 3) % zoo.VOCAB_SIZE for number in range(28))
DRAFTERS = pytest.mark.parametrize("drafter_type", [RightDrafter, RightUntilDrafter, WrongDrafter])
WINDOWED = pytest.mark.parametrize("family", zoo.WINDOWED)


def assert_identical(family, drafter_type, prompt, attn_implementation=None):
    answer = greedy_answer(family, 30, prompt, attn_implementation=attn_implementation)
    stub = drafter_type(answer)
    generation = Decoder(target_of(family, attn_implementation), stub, num_draft_tokens=5).generate(
        prompt, stopping=Stopping(max_new_tokens=30)
    )
    assert generation.tokens == answer
    assert_drafts_landed(stub, generation)


@WINDOWED
@DRAFTERS
def test_swa_crop_text_beyond_the_window_is_identical(family, drafter_type):
    """`swa-crop`: a prompt of 28 tokens, far beyond a window of 8, and 30 more."""
    assert_identical(family, drafter_type, LONG_PROMPT)


@WINDOWED
@pytest.mark.parametrize("attn_implementation", ["eager", "sdpa"])
def test_swa_mask_the_mask_fits_the_rows_with_both_kinds_of_attention(family, attn_implementation):
    """`swa-mask`: eager and sdpa, across the moment where the window fills."""
    if attn_implementation == "sdpa" and family in zoo.WITHOUT_SDPA:
        pytest.skip(f"{family} has no sdpa attention")
    for prompt in (PROMPT, LONG_PROMPT):
        assert_identical(family, RightUntilDrafter, prompt, attn_implementation)


def test_compat_past_recording_a_window_layer_is_told_to_record_before_it_is_cropped():
    """`compat-past-recording`: gemma3 with window 8, 28 tokens of prompt, 30 more; works, and says it drafts chains."""
    assert target_of("gemma3").support is Support.CHAIN
    assert_identical("gemma3", RightUntilDrafter, LONG_PROMPT)
