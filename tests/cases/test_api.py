"""Cases of what a generation returns beside its tokens."""

import pytest
import torch

from kit import PROMPT, STUBS, greedy_answer, plain, target_of
from phrasedraft import Choice, Decoder, Stopping


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.3, "top_k": 10, "seed": 5}], ids=["greedy", "sampled"])
@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("family", ["llama", "gemma3_wide_window"])
def test_logprobs_spec_each_tokens_logprob_is_that_of_teacher_forcing(family, stub_name, settings):
    """`logprobs-spec`: under the target's own distribution, for accepted, bonus and first tokens alike."""
    choice, stopping = Choice(**settings), Stopping(max_new_tokens=24)
    answer = plain(target_of(family), choice, stopping)
    assert settings or answer.tokens == greedy_answer(family, 24)
    generation = Decoder(target_of(family), STUBS[stub_name](answer.tokens), num_draft_tokens=5).generate(
        PROMPT, choice, stopping, logprobs=True
    )
    with torch.inference_mode():
        logits = target_of(family).model(torch.tensor([[*PROMPT, *answer.tokens]])).logits[0, len(PROMPT) - 1 : -1]
    rows = torch.log_softmax(logits, dim=-1)
    expected = [float(rows[number, token]) for number, token in enumerate(answer.tokens)]
    assert generation.logprobs == pytest.approx(expected, abs=1e-4)
