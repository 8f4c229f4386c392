"""Quantised weights: their kernels round by the number of rows, which is no reason to draft nothing."""

import copy

import pytest
import torch
from torch import nn

from phrasedraft import Support, TransformersTarget
from phrasedraft.target.quantised import is_quantized
from zoo import build_model, tiny_model


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


class ByteLinear(nn.Module):
    """A linear whose weight is kept in bytes, as those of quantising libraries are."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self.scale = nn.Parameter(linear.weight.detach().abs().amax() / 127)
        weight = (linear.weight.detach() / self.scale).round().to(torch.int8)
        self.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ (self.weight.to(rows) * self.scale).T


@pytest.mark.parametrize("sign", ["quantizer", "flag", "config", "bytes"])
def test_one_function_tells_quantised_weights_by_whatever_sign_was_left(sign: str) -> None:
    model = build_model("llama")
    assert not is_quantized(model)
    assert not any("not packed" in note for note in TransformersTarget(model).notes)
    if sign == "quantizer":
        model.hf_quantizer = object()
    elif sign == "flag":
        model.is_quantized = True
    elif sign == "config":
        model.config.quantization_config = {"quant_method": "awq"}
    else:
        for layer in model.model.layers:
            layer.mlp.up_proj = ByteLinear(layer.mlp.up_proj)
    assert is_quantized(model)
    target = TransformersTarget(model)
    assert target.notes == ("linears not packed: the target is quantised",)
    assert target.support is Support.TREE
