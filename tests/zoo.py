"""Tiny models of many families, built locally; fp32, a few thousand parameters each, with lively greedy text.

Every parameter is drawn from a seed made of its own name, so a model does not depend on the order in which a version
of transformers creates its layers. Scales are chosen so that the greedy text keeps changing and no choice is close.
"""

import zlib
from functools import cache
from typing import Any

import torch
import transformers
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedModel

VOCAB_SIZE = 96
WINDOW = 8
WIDE_WINDOW = 32

SMALL = {
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 512,
    "tie_word_embeddings": False,
}
LINEAR = {
    "num_hidden_layers": 4,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_conv_kernel_dim": 4,
}
EXPERTS = {
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
}
FEW_EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
STATE = {
    "mamba_d_ssm": 64,
    "mamba_n_heads": 4,
    "mamba_d_head": 16,
    "mamba_d_state": 8,
    "mamba_n_groups": 1,
    "mamba_chunk_size": 8,
}
MISTRAL, GEMMA2, GEMMA3, GPT_OSS = "MistralConfig", "Gemma2Config", "Gemma3TextConfig", "GptOssConfig"

CONFIGS: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", SMALL),
    "qwen2": ("Qwen2Config", SMALL),
    "qwen3": ("Qwen3Config", SMALL),
    "mistral": (MISTRAL, {**SMALL, "sliding_window": None}),
    "mistral_window": (MISTRAL, {**SMALL, "sliding_window": WINDOW}),
    "mistral_wide_window": (MISTRAL, {**SMALL, "sliding_window": WIDE_WINDOW}),
    "gemma2": (GEMMA2, {**SMALL, "sliding_window": WINDOW, "query_pre_attn_scalar": 8}),
    "gemma3": (GEMMA3, {**SMALL, "sliding_window": WINDOW, "query_pre_attn_scalar": 8}),
    "gemma3_wide_window": (GEMMA3, {**SMALL, "sliding_window": WIDE_WINDOW, "query_pre_attn_scalar": 8}),
    "phi3": ("Phi3Config", {**SMALL, "sliding_window": WINDOW}),
    "gpt_oss": (GPT_OSS, {**SMALL, **FEW_EXPERTS, "sliding_window": WINDOW}),
    "gpt_oss_wide_window": (GPT_OSS, {**SMALL, **FEW_EXPERTS, "sliding_window": WIDE_WINDOW}),
    "mixtral": ("MixtralConfig", {**SMALL, **FEW_EXPERTS, "sliding_window": None}),
    "gpt2": ("GPT2Config", {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 512}),
    "gpt_neox": ("GPTNeoXConfig", {**SMALL, "num_key_value_heads": 4}),
    "bloom": ("BloomConfig", {"hidden_size": 32, "n_layer": 2, "n_head": 4}),
    "qwen3_next": ("Qwen3NextConfig", {**SMALL, **LINEAR, **EXPERTS}),
    "qwen3_5": ("Qwen3_5TextConfig", {**SMALL, **LINEAR}),
    "mamba": ("MambaConfig", {"hidden_size": 32, "state_size": 8, "num_hidden_layers": 2, "time_step_rank": 4}),
    "falcon_h1": ("FalconH1Config", {**SMALL, **STATE}),
    "cohere": ("CohereConfig", {**SMALL, "logit_scale": 1.0}),
    "olmo2": ("Olmo2Config", SMALL),
    "opt": ("OPTConfig", {**SMALL, "ffn_dim": 64, "word_embed_proj_dim": 32}),
}

FAMILIES = tuple(family for family, (config, _) in CONFIGS.items() if hasattr(transformers, config))
"""The families this version of transformers has."""

WINDOWED = tuple(family for family in FAMILIES if CONFIGS[family][1].get("sliding_window"))
RECURRENT = tuple(family for family in FAMILIES if family in {"qwen3_next", "qwen3_5", "mamba", "falcon_h1"})
FULL_ATTENTION = tuple(family for family in FAMILIES if family not in WINDOWED + RECURRENT)

WITHOUT_SDPA = frozenset({"bloom", "gemma2", "gpt_oss", "gpt_oss_wide_window", "mamba"})

DRAWS: dict[str, tuple[float, str]] = {
    "llama": (1.0, "a"),
    "qwen2": (1.5, ""),
    "qwen3": (1.5, "b"),
    "mistral": (1.0, "a"),
    "mistral_window": (1.0, "c"),
    "mistral_wide_window": (1.0, "b"),
    "gemma2": (1.5, ""),
    "gemma3": (1.5, "e"),
    "gemma3_wide_window": (2.0, "a"),
    "phi3": (1.0, "c"),
    "gpt_oss": (1.0, "a"),
    "gpt_oss_wide_window": (1.0, "a"),
    "mixtral": (1.5, "a"),
    "gpt2": (3.0, "a"),
    "gpt_neox": (3.0, ""),
    "bloom": (3.0, "g"),
    "qwen3_next": (1.0, "c"),
    "qwen3_5": (1.0, ""),
    "mamba": (2.0, "c"),
    "falcon_h1": (1.5, "b"),
    "cohere": (1.5, "a"),
    "olmo2": (2.0, ""),
    "opt": (3.0, "a"),
}
"""Size of the layers' weights (1 keeps the size of what flows through) and a draw that gives a lively text."""


def build_model(family: str, *, attn_implementation: str | None = None, **changes: Any) -> PreTrainedModel:
    """A new model of the family that a test may change; `changes` go into its config."""
    name, arguments = CONFIGS[family]
    tokens = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = getattr(transformers, name)(**{"vocab_size": VOCAB_SIZE, **tokens, **arguments, **changes})
    kind = attn_implementation or ("eager" if family in WITHOUT_SDPA else "sdpa")
    gain, salt = DRAWS[family]
    with torch.inference_mode(False), torch.no_grad():
        torch.manual_seed(0)
        model = AutoModelForCausalLM.from_config(config, attn_implementation=kind)
        _enliven(model, gain=gain, salt=salt)
    return model.eval()


@cache
def tiny_model(family: str, attn_implementation: str | None = None, **changes: Any) -> PreTrainedModel:
    """A model of the family, the same object for every test, so none may change it."""
    return build_model(family, attn_implementation=attn_implementation, **changes)


def _enliven(model: PreTrainedModel, *, gain: float, salt: str) -> None:
    embedding, head = model.get_input_embeddings().weight, model.get_output_embeddings().weight
    convolutions = {id(module.weight) for module in model.modules() if isinstance(module, nn.Conv1d)}
    for name, parameter in model.named_parameters():
        generator = torch.Generator().manual_seed(zlib.crc32((salt + name).encode()))
        noise = torch.randn(parameter.shape, generator=generator)
        if parameter is embedding:
            parameter.copy_(noise)
        elif parameter is head:
            parameter.copy_(noise * 6 / parameter.shape[-1] ** 0.5)
        elif parameter.dim() == 1 or id(parameter) in convolutions or name.endswith("A_log"):
            parameter.add_(0.1 * noise)
        else:
            parameter.copy_(noise * gain / parameter.shape[-1] ** 0.5)
