"""Attention over a draft tree without a copy of the keys for every group of query heads.

Where several query heads share keys and values, transformers repeats those for each of them whenever there is a mask,
as there is for a tree: at 2,000 tokens of context that costs more than the attention. torch can share them.
"""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "phrasedraft_shared_keys"
SETTING = "_attn_implementation"
"""Where a config says how its model attends; where there is none, nothing is changed."""


def shared_key_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    is_causal: bool | None = None,
    **more: Any,  # what some models add, which transformers' own function knows
) -> tuple[Tensor, None]:
    """What transformers' `sdpa` gives, for (batch, head, row, width) states; keys are shared where there is a mask."""
    is_plain = all(more.get(name) is None for name in ("position_bias", "softcap", "s_aux"))
    if attention_mask is None or not is_plain or query.shape[1] == key.shape[1] or query.shape[2] == 1:
        output, weights = sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, is_causal, **more
        )
        return output, weights
    output = F.scaled_dot_product_attention(
        query, key, value, attn_mask=attention_mask[..., : key.shape[2]], scale=scaling, enable_gqa=True
    )
    return output.transpose(1, 2).contiguous(), None


def share_keys(view: PreTrainedModel) -> None:
    """Let the modules of a view of ours attend this way, where the model attends with torch's `sdpa`."""
    config = view.config.get_text_config(decoder=True)
    heads, groups = (getattr(config, name, None) for name in ("num_attention_heads", "num_key_value_heads"))
    kinds = {getattr(each, SETTING, None) for each in (view.config, config)}
    if kinds == {"sdpa"} and groups and heads != groups:
        AttentionInterface.register(NAME, shared_key_attention)
        AttentionMaskInterface.register(NAME, sdpa_mask)
        for each in (view.config, config):  # `set_attn_implementation` would leave a note on the model's class
            setattr(each, SETTING, NAME)
