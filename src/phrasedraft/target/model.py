"""The transformers host: any decoder-only model the user has loaded, as a `Target`."""

import inspect
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float, Int
from jinja2 import TemplateError
from torch import Tensor, nn
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from phrasedraft.errors import OptionError, PromptError, TargetError
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.fingerprint import (
    probe_tokens,
    state_fingerprint,
    template_fingerprint,
    tokenizer_fingerprint,
)
from phrasedraft.target.packing import packed_view, stamp
from phrasedraft.target.probe import ProbeReport, probe
from phrasedraft.target.protocol import Support, TargetIdentity
from phrasedraft.target.quantised import is_quantized
from phrasedraft.target.sequence import TransformersSequence


class TransformersTarget:
    """A transformers causal language model, used as it is: any dtype, device, quantisation or (PEFT) adapter.

    `packed` lets a float32 model on the CPU run with its linears packed once, in modules of our own (`notes` says
    where that does not apply). Unless `check` is False, a few small passes at the start find out what this model can
    verify exactly: trees, chains only, or nothing.
    """

    def __init__(
        self,
        model: nn.Module,
        tokenizer: PreTrainedTokenizerBase | None = None,
        *,
        packed: bool = True,
        check: bool = True,
        name: str | None = None,
    ) -> None:
        self.model = _decoder_of(model)
        self.tokenizer = tokenizer
        self._name = name or str(getattr(self.model.config, "_name_or_path", "")) or type(self.model).__name__
        self._wants_packed = packed
        self._view = packed_view(self.model, wanted=packed)
        self._support = Support.TREE
        self.report = ProbeReport(Support.TREE, (), 0.0)
        if check:
            self.report = probe(self, is_quantized=is_quantized(self.model))
        self._support = self.report.support

    @property
    def network(self) -> PreTrainedModel:
        """The modules that run: the user's model, or the packed view of it."""
        return self._view.model

    @property
    def identity(self) -> TargetIdentity:
        """What drafters know it by."""
        return TargetIdentity(
            name=self._name,
            hidden_size=self._text_config.hidden_size,
            vocab_size=self._text_config.vocab_size,
            tokenizer_fingerprint=self._tokenizer_fingerprint,
            template_fingerprint=lambda system_prompt, thinking: template_fingerprint(self, system_prompt, thinking),
            state_fingerprint=self._state_fingerprint,
        )

    @property
    def support(self) -> Support:
        """What one pass can check exactly."""
        return self._support

    @property
    def notes(self) -> tuple[str, ...]:
        """What does not apply to this target, and why."""
        packing = (f"linears not packed: {self._view.not_packed}",) if self._view.not_packed else ()
        return (*self.report.reasons, *packing, *((self._view.note,) if self._view.note else ()))

    @property
    def input_device(self) -> torch.device:
        """Where token ids go."""
        return self._embedding_device

    @property
    def device(self) -> torch.device:
        """Where logits and hidden states come out."""
        head = self.model.get_output_embeddings()
        parameter = next(head.parameters(), None) if head is not None else None
        return parameter.device if parameter is not None and parameter.device.type != "meta" else self.input_device

    @property
    def context_limit(self) -> int | None:
        """The most tokens a sequence may have, None where the configuration names no limit."""
        limit = getattr(self._text_config, "max_position_embeddings", None)
        return int(limit) if limit else None

    @cached_property
    def rope_switch(self) -> int | None:
        """The longest sequence that is rotated by the short factors of a `longrope` model; None for all others."""
        given = getattr(self._text_config, "rope_parameters", None) or {}
        for each in given.values() if all(isinstance(part, dict) for part in given.values()) else (given,):
            if each.get("rope_type") == "longrope":
                limit = each.get("original_max_position_embeddings")
                return int(limit or self._text_config.original_max_position_embeddings)
        return None

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Every token that ends a text: those of the generation config, the config and the tokenizer together."""
        sources = (
            getattr(self.model.generation_config, "eos_token_id", None),
            getattr(self._text_config, "eos_token_id", None),
            getattr(self.tokenizer, "eos_token_id", None),
        )
        ids: set[int] = set()
        for source in sources:
            ids.update(
                int(token) for token in (source if isinstance(source, list | tuple) else [source]) if token is not None
            )
        return frozenset(ids)

    @cached_property
    def forward_parameters(self) -> frozenset[str]:
        """The keywords of the network's `forward`."""
        return frozenset(inspect.signature(self.model.forward).parameters)

    def embed(self, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token hidden"]:
        """The target's input embedding of `tokens`."""
        embedding: Tensor = self.model.get_input_embeddings()(tokens.to(self.input_device))
        return embedding

    def start(self, features: FeatureSpec, existing: DynamicCache | None = None) -> TransformersSequence:
        """An empty sequence (or one that continues `existing`) whose passes give the features asked for."""
        self._follow_weights()
        return TransformersSequence(self, features, existing)

    def hidden_rows(
        self, input_ids: Int[Tensor, "batch seq"], attention_mask: Int[Tensor, "batch seq"], features: FeatureSpec
    ) -> Float[Tensor, "batch seq feature"]:
        """The features of right-padded sequences in one pass without a cache; rows of padding mean nothing."""
        self._follow_weights()
        with torch.inference_mode():
            output = self.network.base_model(
                input_ids=input_ids.to(self.input_device),
                attention_mask=attention_mask.to(self.input_device),
                output_hidden_states=True,
                use_cache=False,
            )
        states = output.hidden_states
        return torch.stack(
            [features.select(tuple(state[row : row + 1] for state in states)) for row in range(len(input_ids))]
        )

    def encode(self, text: str) -> list[int]:
        """The token ids of a plain prompt, special tokens as the tokenizer adds them."""
        return list(self._require_tokenizer("encode text")(text)["input_ids"])

    def encode_chat(self, messages: Sequence[Mapping[str, Any]], **template_arguments: Any) -> list[int]:
        """The token ids of a conversation in the chat template, ready for the model's answer."""
        tokenizer = self._require_tokenizer("apply a chat template")
        if not tokenizer.chat_template:
            raise PromptError(
                f"the tokenizer of `{self._name}` has no chat template",
                hint="give the prompt as plain text, or set `tokenizer.chat_template`",
            )
        try:
            encoded = tokenizer.apply_chat_template(
                list(messages), add_generation_prompt=True, return_dict=False, **template_arguments
            )
        except (TemplateError, TypeError, KeyError) as error:
            raise PromptError(
                f"the chat template of `{self._name}` does not take these messages: {error}",
                hint='a message is `{"role": "user", "content": "..."}`; some templates allow no system message',
            ) from error
        return [int(token) for token in encoded]

    def weights_stamp(self) -> object:
        """Changes with the weights, or the adapters that are active: what was computed before is then another's."""
        self._follow_weights()
        return self._view.stamp

    def _follow_weights(self) -> None:
        if stamp(self.model) != self._view.stamp:  # weights were loaded, trained or merged since they were packed
            self._view = packed_view(self.model, wanted=self._wants_packed)

    def _require_tokenizer(self, purpose: str) -> PreTrainedTokenizerBase:
        if self.tokenizer is None:
            raise OptionError(
                f"target `{self._name}` was given without a tokenizer, which is needed to {purpose}",
                hint="pass `TransformersTarget(model, tokenizer)`, or work with token ids",
            )
        return self.tokenizer

    @cached_property
    def _text_config(self) -> Any:
        return self.model.config.get_text_config(decoder=True)

    @property
    def _embedding_device(self) -> torch.device:
        parameter = next(self.model.get_input_embeddings().parameters())
        device = parameter.device
        return device if device.type != "meta" else torch.device("cpu")

    def _tokenizer_fingerprint(self, vocab_size: int) -> str | None:
        if self.tokenizer is None:
            return None
        return tokenizer_fingerprint(self.tokenizer, vocab_size)

    def _state_fingerprint(self) -> tuple[float, ...]:
        tokens = torch.tensor([probe_tokens(self._text_config.vocab_size)])
        return state_fingerprint(self.hidden_rows(tokens, torch.ones_like(tokens), FeatureSpec())[0])


def _decoder_of(model: nn.Module) -> PreTrainedModel:
    """The causal model itself, out of its adapter wrapper, or the reason why it cannot be a target."""
    unwrap = getattr(model, "get_base_model", None)
    if callable(unwrap):
        adapters: Any = model.peft_config
        if any(getattr(config, "is_prompt_learning", False) for config in adapters.values()):
            raise TargetError(
                "the adapter adds virtual tokens in front of the prompt, which phrasedraft does not support",
                hint="use an adapter that changes layers (LoRA and its kin)",
            )
        model = unwrap()
    name = type(model).__name__
    if (
        not isinstance(model, PreTrainedModel)
        or model.config.is_encoder_decoder
        or model.get_output_embeddings() is None
    ):
        raise TargetError(
            f"`{name}` is not a decoder-only language model with a language-model head",
            hint="load it with `AutoModelForCausalLM`",
        )
    if model.training:
        raise TargetError(
            f"`{name}` is in training mode, where dropout changes the text", hint="call `model.eval()` first"
        )
    return model
