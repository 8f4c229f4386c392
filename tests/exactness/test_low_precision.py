"""In bfloat16 and float16 drafted text is plain text up to near-ties, and the first of those is reported."""

import pytest
import torch

import zoo
from kit import PROMPT, RandomTreeDrafter, RightUntilDrafter, plain
from phrasedraft import Choice, Decoder, Stopping, TransformersTarget
from phrasedraft.decoding import first_divergence

STOPPING = Stopping(max_new_tokens=40)
NEAR_TIE = {torch.bfloat16: 0.5, torch.float16: 0.06}
"""A few units in the last place of logits around 16."""


@pytest.fixture(params=[torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
def dtype(request):
    return request.param


@pytest.mark.parametrize("drafter_type", [RightUntilDrafter, RandomTreeDrafter])
@pytest.mark.parametrize("family", ["llama", "qwen3", "gpt2", "gemma3_wide_window", "olmo2"])
def test_texts_part_at_near_ties_only(family, dtype, drafter_type):
    target = TransformersTarget(zoo.build_model(family).to(dtype))
    answer = plain(target, stopping=STOPPING)
    generation = Decoder(target, drafter_type(answer.tokens), num_draft_tokens=6).generate(PROMPT, stopping=STOPPING)
    assert generation.stats.num_accepted_tokens > 5
    divergence = first_divergence(target, PROMPT, answer.tokens, generation.tokens)
    if divergence is None:
        assert generation.tokens == answer.tokens
    else:
        assert divergence.top_two_gap <= NEAR_TIE[dtype]


def test_features_come_in_the_targets_dtype(dtype):
    target = TransformersTarget(zoo.build_model("llama").to(dtype))
    seen = []

    class Looking(RightUntilDrafter):
        def update(self, state, committed, hidden):
            seen.append(hidden.dtype)
            super().update(state, committed, hidden)

    answer = plain(target, stopping=STOPPING)
    Decoder(target, Looking(answer.tokens), num_draft_tokens=3).generate(PROMPT, stopping=STOPPING)
    assert set(seen) == {dtype}


def test_low_precision_logprobs_are_finite_and_negative(dtype):
    target = TransformersTarget(zoo.build_model("llama").to(dtype))
    generation = plain(target, Choice(temperature=1.0, seed=0), STOPPING, logprobs=True)
    assert all(-50 < logprob <= 0 for logprob in generation.logprobs)
