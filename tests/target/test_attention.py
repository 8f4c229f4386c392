"""Keys that query heads share are read, not repeated; what comes out is transformers' own."""

import pytest
import torch
from transformers.integrations.sdpa_attention import sdpa_attention_forward

import zoo
from phrasedraft import TransformersTarget
from phrasedraft.target.attention import NAME, shared_key_attention


class Attention(torch.nn.Module):
    is_causal = True
    num_key_value_groups = 3


@pytest.mark.parametrize("num_rows", [1, 2, 9])
@pytest.mark.parametrize("is_masked", [True, False])
def test_it_gives_what_transformers_gives(num_rows, is_masked):
    query = torch.randn(2, 6, num_rows, 16)
    key, value = torch.randn(2, 2, 2, 20, 16).unbind(0)
    mask = None
    if is_masked:
        mask = torch.zeros(2, 1, num_rows, 20).masked_fill(torch.rand(2, 1, num_rows, 20) < 0.4, -1e30)
    arguments = (Attention(), query, key, value, mask)
    ours, theirs = (each(*arguments, scaling=0.3)[0] for each in (shared_key_attention, sdpa_attention_forward))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


def test_only_our_own_modules_attend_this_way():
    model = zoo.build_model("llama", num_key_value_heads=2)
    target = TransformersTarget(model)
    assert target.network.config._attn_implementation == NAME
    assert model.config._attn_implementation == "sdpa"


def test_a_model_whose_heads_share_nothing_or_that_attends_otherwise_is_left_alone():
    for changes in ({"num_key_value_heads": 4}, {"attn_implementation": "eager"}):
        network = TransformersTarget(zoo.build_model("llama", **changes)).network
        assert network.config._attn_implementation != NAME
