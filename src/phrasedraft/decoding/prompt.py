"""Prompts in the forms people have them, as token ids that can be answered."""

import operator
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from phrasedraft.errors import PromptError
from phrasedraft.target.model import TransformersTarget


def prompt_tokens(
    target: TransformersTarget, prompt: str | Sequence[int] | Sequence[Mapping[str, Any]] | Tensor
) -> list[int]:
    """The token ids of a text, of chat messages in the chat template, or of ids given as a list or tensor."""
    if isinstance(prompt, str):
        return target.encode(prompt)
    if isinstance(prompt, Tensor):
        if prompt.dim() == 2 and prompt.shape[0] != 1:
            raise PromptError(
                f"the prompt is a batch of {prompt.shape[0]} sequences, it may be one",
                hint="decode them one after another, or use `model.generate(..., custom_generate=...)`",
            )
        return [int(token) for token in prompt.flatten().tolist()]
    if prompt and isinstance(prompt[0], Mapping):
        return target.encode_chat(prompt)  # type: ignore[arg-type]
    return [_token_id(token) for token in prompt]


def _token_id(token: Any) -> int:
    try:
        return operator.index(token)
    except TypeError:
        raise PromptError(
            f"the prompt holds `{token!r}`, it may be a text, token ids or chat messages",
            hint="encode a text with `target.encode`, messages with `target.encode_chat`",
        ) from None


def check_prompt(target: TransformersTarget, prompt: Sequence[int]) -> None:
    """Raise `PromptError` for a prompt that is empty, too long, or holds ids the target does not have."""
    name = target.identity.name
    if not prompt:
        raise PromptError(
            "the prompt is empty, it may be one token or more",
            hint="give at least a beginning-of-text token, for example `[tokenizer.bos_token_id]`",
        )
    limit = target.context_limit
    if limit is not None and len(prompt) >= limit:
        raise PromptError(
            f"the prompt has {len(prompt)} tokens, target `{name}` takes fewer than its context limit of {limit}",
            hint="shorten the prompt; at least one position is needed for the answer",
        )
    highest, lowest = max(prompt), min(prompt)
    if lowest < 0 or highest >= target.identity.vocab_size:
        wrong = lowest if lowest < 0 else highest
        raise PromptError(
            f"the prompt holds token id {wrong}, target `{name}` has ids 0 to {target.identity.vocab_size - 1}",
            hint="encode the prompt with this target's own tokenizer",
        )
