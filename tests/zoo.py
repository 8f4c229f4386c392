"""Tiny models of many families, built locally with random weights; fp32, a few thousand parameters each."""

from collections.abc import Callable
from functools import lru_cache

import torch
import transformers
from transformers import AutoModelForCausalLM, PreTrainedModel

VOCAB_SIZE = 96
WINDOW = 8

SMALL = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": None,
    "tie_word_embeddings": False,
}


def _small(**changes: object) -> dict[str, object]:
    return {**SMALL, **changes}


_LINEAR = {
    "num_hidden_layers": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_conv_kernel_dim": 4,
}
_EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}

CONFIGS: dict[str, Callable[[], transformers.PretrainedConfig]] = {
    "llama": lambda: transformers.LlamaConfig(**_small()),
    "qwen2": lambda: transformers.Qwen2Config(**_small()),
    "qwen3": lambda: transformers.Qwen3Config(**_small()),
    "mistral": lambda: transformers.MistralConfig(**_small(sliding_window=None)),
    "mistral_window": lambda: transformers.MistralConfig(**_small(sliding_window=WINDOW)),
    "gemma2": lambda: transformers.Gemma2Config(**_small(sliding_window=WINDOW, query_pre_attn_scalar=8)),
    "gemma3": lambda: transformers.Gemma3TextConfig(**_small(sliding_window=WINDOW, query_pre_attn_scalar=8)),
    "phi3": lambda: transformers.Phi3Config(**_small(sliding_window=WINDOW)),
    "gpt_oss": lambda: transformers.GptOssConfig(
        **_small(sliding_window=WINDOW, num_local_experts=4, num_experts_per_tok=2)
    ),
    "mixtral": lambda: transformers.MixtralConfig(
        **_small(sliding_window=None, num_local_experts=4, num_experts_per_tok=2)
    ),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=VOCAB_SIZE, n_embd=32, n_layer=2, n_head=4, n_positions=512, bos_token_id=None, eos_token_id=None
    ),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**_small(num_key_value_heads=4)),
    "bloom": lambda: transformers.BloomConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        n_layer=2,
        n_head=4,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    ),
    "qwen3_next": lambda: transformers.Qwen3NextConfig(**_small(**_LINEAR, **_EXPERTS)),
    "qwen3_5": lambda: transformers.Qwen3_5TextConfig(**_small(**_LINEAR)),
    "mamba": lambda: transformers.MambaConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        state_size=8,
        num_hidden_layers=2,
        time_step_rank=4,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=None,
    ),
    "falcon_h1": lambda: transformers.FalconH1Config(
        **_small(
            mamba_d_ssm=64, mamba_n_heads=4, mamba_d_head=16, mamba_d_state=8, mamba_n_groups=1, mamba_chunk_size=8
        )
    ),
    "cohere": lambda: transformers.CohereConfig(**_small()),
    "olmo2": lambda: transformers.Olmo2Config(**_small()),
    "opt": lambda: transformers.OPTConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=32,
        ffn_dim=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=512,
        word_embed_proj_dim=32,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=1,
    ),
}


@lru_cache(maxsize=None)
def tiny_model(family: str, attn_implementation: str = "sdpa", seed: int = 0) -> PreTrainedModel:
    """A random model of the family whose greedy text neither ends nor settles on one token."""
    torch.manual_seed(seed)
    config = CONFIGS[family]()
    model = AutoModelForCausalLM.from_config(config, attn_implementation=attn_implementation)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(3.0)  # peaky logits: no near-ties, so fp32 identity is exact
    return model.eval()
