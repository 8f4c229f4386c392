"""What transformers' `generate` may hand to phrase drafting, and a clear refusal of what would change the text."""

import inspect
import warnings
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor
from transformers import (
    DynamicCache,
    GenerationConfig,
    GenerationMixin,
    LogitsProcessorList,
    PrefixConstrainedLogitsProcessor,
    QuantizedCache,
)

from phrasedraft.errors import OptionError
from phrasedraft.target.cache import adoptable

HANDLED = {
    "attention_mask",
    "position_ids",
    "cache",
    "past_key_values",
    "use_cache",
    "logits_to_keep",
    "cache_position",
}
"""Model arguments phrase drafting understands, or sets itself."""


ALLOWED = {
    "num_beams": 1,
    "output_attentions": False,
    "output_hidden_states": False,
    "penalty_alpha": None,
    "prompt_lookup_num_tokens": None,
}
"""Settings of the generation config that phrase drafting honours at one value only."""


STATEFUL = frozenset({"UnbatchedClassifierFreeGuidanceLogitsProcessor", "SynthIDTextWatermarkLogitsProcessor"})
"""Processors of transformers that remember what they were shown."""


def dropped_arguments() -> tuple[Any, Any]:
    """The `streamer` and `assistant_model` given to the `generate` call we are in, None where there is none.

    transformers (to 5.24 at least) hands a streamer the prompt, then drops it for a callable `custom_generate`, which
    leaves whoever reads from it waiting for ever. The caller's frame is the only place where it can still be found.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name == "generate" and frame.f_globals.get("__name__") == GenerationMixin.__module__:
            return frame.f_locals.get("streamer"), frame.f_locals.get("assistant_model")
        frame = frame.f_back
    return None, None


def check_arguments(
    input_ids: Int[Tensor, "batch seq"],
    config: GenerationConfig,
    model_kwargs: dict[str, Any],
    *,
    has_streamer: bool,
) -> None:
    """Raise `OptionError` for an argument that phrase drafting cannot honour."""
    if input_ids.shape[1] == 0:
        raise OptionError(
            "the prompt is empty or was given as `inputs_embeds`, it may be `input_ids` of one token or more"
        )
    for name, allowed in ALLOWED.items():
        value = getattr(config, name, None)
        if value is not None and value != allowed:
            raise OptionError(f"`{name}` is `{value}`, with phrase drafting it may be `{allowed}`")
    for name, value in model_kwargs.items():
        if name in HANDLED or value is None or (name == "token_type_ids" and not bool(value.any())):
            continue
        known = ", ".join(f"`{known}`" for known in sorted(HANDLED))
        raise OptionError(
            f"`{name}` was passed to the model, phrase drafting takes {known}",
            hint="generate without `custom_generate` for inputs other than text",
        )
    if has_streamer and input_ids.shape[0] > 1:
        raise OptionError(f"a streamer takes one sequence, the batch has {input_ids.shape[0]}")


def unpadded(
    row: Int[Tensor, " seq"], model_kwargs: dict[str, Any], index: int
) -> tuple[list[int], Int[Tensor, "1 pad"]]:
    """The prompt without the padding on its left, and the padding."""
    mask = model_kwargs.get("attention_mask")
    num_padding = 0
    if mask is not None:
        seen = mask[index, : len(row)].bool()
        num_padding = int((~seen).sum())
        if bool(seen[:num_padding].any()):
            raise OptionError(
                "`attention_mask` hides tokens inside or after the prompt, it may hide padding on the left",
                hint="set `padding_side='left'` on the tokenizer",
            )
    positions = model_kwargs.get("position_ids")
    if positions is not None and positions.dim() == 2:
        given = positions[min(index, len(positions) - 1)][-(len(row) - num_padding) :]
        if not bool((given.diff() == 1).all()) or int(given[-1]) != len(row) - num_padding - 1:
            raise OptionError("`position_ids` do not count the prompt's tokens from 0, they may only do that")
    return [int(token) for token in row[num_padding:].tolist()], row[None, :num_padding]


def of_row(processors: LogitsProcessorList, row: int, *, num_rows: int) -> LogitsProcessorList:
    """The processors for one row of a batch, which are shown that row alone: they count it as the first.

    `OptionError` for those that go on from the row before, in a batch of several.
    """
    for processor in processors:
        if num_rows > 1 and type(processor).__name__ in STATEFUL:
            raise OptionError(
                f"`{type(processor).__name__}` keeps a state, and rows are decoded one after another",
                hint="generate one row at a time, and one sequence a row",
            )
    return LogitsProcessorList([_for_row(processor, row) for processor in processors])


def _for_row(processor: Any, row: int) -> Any:
    if not isinstance(processor, PrefixConstrainedLogitsProcessor):
        return processor

    def last_of_as_many(input_ids: Int[Tensor, "1 seq"], scores: Float[Tensor, "1 vocab"]) -> Float[Tensor, "1 vocab"]:
        allowed: Tensor = processor(input_ids.expand(row + 1, -1), scores.expand(row + 1, -1))
        return allowed[row:]

    return last_of_as_many


def reusable_cache(model_kwargs: dict[str, Any], *, num_rows: int, num_padding: int = 0) -> DynamicCache | None:
    """The cache to go on with, or None to start one of our own."""
    cache = model_kwargs.get("cache")
    cache = cache if cache is not None else model_kwargs.get("past_key_values")
    if cache is None:
        return None
    if isinstance(cache, QuantizedCache):
        raise OptionError(
            "a `QuantizedCache` was passed or asked for, and rows cannot be taken back from one exactly",
            hint="leave out `cache_implementation='quantized'`; phrase drafting keeps a dynamic cache of its own",
        )
    length = int(cache.get_seq_length())
    if length > 0 and num_padding:
        raise OptionError(
            f"a cache of {length} tokens was passed beside {num_padding} tokens of padding, which it may hold too",
            hint="leave the padding or the cache out",
        )
    if num_rows == 1 and adoptable(cache):
        return cache
    if length > 0:
        raise OptionError(
            f"a `{type(cache).__name__}` with {length} cached tokens was passed, with phrase drafting it may be empty, "
            "or a `DynamicCache` of one sequence that still has every row",
            hint="leave the cache out; phrase drafting keeps its own",
        )
    if not isinstance(cache, DynamicCache):
        warnings.warn(
            f"phrase drafting keeps a dynamic cache of its own; the `{type(cache).__name__}` has no effect",
            UserWarning,
            stacklevel=2,
        )
    return None
