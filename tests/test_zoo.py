"""The tiny models are fit for tests of exactness: their texts keep changing and no choice in them is close."""

import pytest
import torch

import zoo
from kit import PROMPT


@pytest.mark.parametrize("family", zoo.FAMILIES)
def test_greedy_text_is_lively_and_free_of_near_ties(family):
    model = zoo.tiny_model(family)
    output = model.generate(
        torch.tensor([PROMPT]),
        max_new_tokens=60,
        do_sample=False,
        output_logits=True,
        return_dict_in_generate=True,
        pad_token_id=0,
    )
    text = output.sequences[0, len(PROMPT) :].tolist()
    best = torch.cat(output.logits).topk(2, dim=-1).values
    assert len(set(text)) >= 12
    assert (best[:, 0] - best[:, 1]).min() > 1e-2


def test_zoo_has_fifteen_families_with_windows_and_recurrent_ones_among_them():
    assert len(zoo.FAMILIES) >= 15
    assert len(zoo.WINDOWED) >= 5
    assert len(zoo.RECURRENT) >= 2
