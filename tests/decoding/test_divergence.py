"""`first_divergence` finds where two texts part, and how close the target's choice was there."""

import pytest
import torch

import zoo
from kit import PROMPT, greedy_answer, target_of
from phrasedraft import TransformersTarget
from phrasedraft.decoding import first_divergence

ANSWER = greedy_answer("llama", 12)


def test_the_same_text_has_no_divergence():
    assert first_divergence(target_of(), PROMPT, ANSWER, list(ANSWER)) is None
    assert first_divergence(target_of(), PROMPT, (), ()) is None


@pytest.mark.parametrize("family", ["llama", "gemma3", "qwen3_5", "mamba"])
@pytest.mark.parametrize("position", [0, 1, 7, 11])
def test_position_tokens_and_gap_are_those_of_teacher_forcing(family, position):
    answer = greedy_answer(family, 12)
    other = [*answer[:position], (answer[position] + 1) % zoo.VOCAB_SIZE, *answer[position + 1 :]]
    divergence = first_divergence(target_of(family), PROMPT, answer, other)
    assert divergence is not None
    assert (divergence.position, divergence.token_a, divergence.token_b) == (
        position,
        answer[position],
        other[position],
    )
    with torch.inference_mode():
        logits = target_of(family).model(torch.tensor([[*PROMPT, *answer]])).logits[0, len(PROMPT) - 1 + position]
    best = logits.topk(2)
    assert best.indices[0] == answer[position]
    assert divergence.top_two_gap == pytest.approx(float(best.values[0] - best.values[1]), abs=1e-3)


def test_a_text_that_ended_earlier_has_no_token_there():
    divergence = first_divergence(target_of(), PROMPT, ANSWER[:5], ANSWER)
    assert divergence is not None
    assert (divergence.position, divergence.token_a, divergence.token_b) == (5, None, ANSWER[5])


def test_the_gap_is_measured_in_the_targets_own_dtype():
    target = TransformersTarget(zoo.build_model("llama").to(torch.bfloat16))
    divergence = first_divergence(target, PROMPT, ANSWER, (0, *ANSWER[1:]))
    assert divergence is not None
    assert divergence.top_two_gap == float(torch.tensor(divergence.top_two_gap, dtype=torch.bfloat16))
