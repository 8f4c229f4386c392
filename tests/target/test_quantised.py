"""Quantised weights: their kernels round by the number of rows, which is no reason to draft nothing."""

import copy

import torch
from torch import nn

from phrasedraft import Support, TransformersTarget
from zoo import tiny_model


class WidthDependentLinear(nn.Module):
    """A linear whose products over several rows are rounded more coarsely, as those of 4-bit kernels are."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.linear = linear

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        product = self.linear(rows)
        return product.bfloat16().float() if rows.shape[-2] > 1 else product


def _rounding_model() -> nn.Module:
    model = copy.deepcopy(tiny_model("llama"))
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Linear:
                setattr(parent, name, WidthDependentLinear(child))
    return model


def test_rounding_by_width_stops_drafts_on_plain_float32_weights() -> None:
    assert TransformersTarget(_rounding_model()).support is Support.NOTHING


def test_rounding_by_width_is_expected_of_quantised_weights() -> None:
    model = _rounding_model()
    model.hf_quantizer = object()  # what transformers leaves on every model it quantises
    assert TransformersTarget(model).support is Support.TREE
