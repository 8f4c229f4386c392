"""Scores in bfloat16 are those of the layer but for rounding, and follow its weights."""

import pytest
import torch

from phrasedraft.drafters import quick_rows
from phrasedraft.drafters.quick_rows import QuickRows


@pytest.fixture
def output():
    torch.manual_seed(0)
    return torch.nn.Linear(256, 5000)


@pytest.fixture(params=[True, False])
def has_bfloat16(request, monkeypatch):
    monkeypatch.setattr(quick_rows, "multiplies_bfloat16", lambda: request.param)
    return request.param


@torch.inference_mode()
def test_scores_are_those_of_the_layer_but_for_rounding(output, has_bfloat16):
    states = torch.randn(7, 256)
    exact, found = output(states), QuickRows().scores(output, states)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, exact, rtol=0.02, atol=0.02)
    assert torch.equal(found, exact) is not has_bfloat16


@torch.no_grad()
def test_weights_that_change_are_rounded_anew(output, has_bfloat16):
    states, quick = torch.randn(2, 256), QuickRows()
    quick.scores(output, states)
    output.weight.mul_(3)
    torch.testing.assert_close(quick.scores(output, states), output(states), rtol=0.02, atol=0.05)
    output.bias.add_(1)
    torch.testing.assert_close(quick.scores(output, states), output(states), rtol=0.02, atol=0.05)
    output.weight = torch.nn.Parameter(torch.randn(5000, 256))
    torch.testing.assert_close(quick.scores(output, states), output(states), rtol=0.02, atol=0.3)


@torch.inference_mode()
def test_few_weights_and_weights_in_other_precisions_are_left_alone(monkeypatch):
    monkeypatch.setattr(quick_rows, "multiplies_bfloat16", lambda: True)
    small, half = torch.nn.Linear(16, 40), torch.nn.Linear(256, 5000).double()
    states = torch.randn(3, 16)
    assert torch.equal(QuickRows().scores(small, states), small(states))
    states = torch.randn(3, 256, dtype=torch.float64)
    assert torch.equal(QuickRows().scores(half, states), half(states).float())


@pytest.mark.parametrize(("known", "wanted"), [({"avx512_bf16": True}, True), ({"avx2": True}, False), ({}, False)])
def test_the_processor_says_whether_it_has_them(monkeypatch, known, wanted):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: known, raising=False)
    assert quick_rows.multiplies_bfloat16.__wrapped__() is wanted
