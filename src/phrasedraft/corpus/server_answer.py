"""From a server's answer to the tokens the target wrote, or the finding that they are not known."""

from collections.abc import Sequence
from typing import Any

from phrasedraft.target import TransformersTarget

WHOLE = ("stop", "length")
"""How an answer may have ended; others were broken off (`abort`, `content_filter`)."""


def answer_tokens(
    target: TransformersTarget, prompt: Sequence[int], choice: dict[str, Any], end_of_turn: int | None
) -> list[int] | None:
    """The token ids of a server's `choice`, with `end_of_turn` where the target stopped; None where they are not sure.

    Ids that the server gives are taken if they spell its text in the target's tokenizer. A text alone is encoded after
    the prompt, and by itself, and taken if prompt and answer then decode to prompt and text.
    """
    text, finish, given = choice.get("text"), choice.get("finish_reason"), choice.get("token_ids")
    if not isinstance(text, str) or finish not in WHOLE:
        return None
    tokens: list[int] | None
    if isinstance(given, list) and given:
        tokens = list(given) if _spells(target, given, text) else None
    else:
        tokens = _encode(target, prompt, _without_end(target, text))
    if tokens is None:
        return None
    if finish == "stop" and end_of_turn is not None and (not tokens or tokens[-1] not in target.eos_token_ids):
        tokens = [*tokens, end_of_turn]
    return tokens or None


def _spells(target: TransformersTarget, tokens: Sequence[Any], text: str) -> bool:
    """Whether ids of the target's vocabulary decode to the text, up to white space and characters cut in half."""
    size = target.identity.vocab_size
    if not all(type(token) is int and 0 <= token < size for token in tokens):
        return False
    assert target.tokenizer is not None
    body = tokens[:-1] if tokens[-1] in target.eos_token_ids else tokens
    written = _plain(_without_end(target, text))
    return any(_plain(target.tokenizer.decode(body, skip_special_tokens=skip)) == written for skip in (False, True))


def _plain(text: str) -> str:
    return "".join(character for character in text if not character.isspace() and character != "\ufffd")


def _without_end(target: TransformersTarget, text: str) -> str:
    """The text without the end-of-text token, which some servers spell out."""
    assert target.tokenizer is not None
    for token in target.eos_token_ids:
        spelled = target.tokenizer.decode([token])
        if spelled and text.endswith(spelled):
            return text.removesuffix(spelled)
    return text


def _encode(target: TransformersTarget, prompt: Sequence[int], text: str) -> list[int] | None:
    """The tokens of a text that follows a prompt, None where the way back gives another text."""
    tokenizer = target.tokenizer
    assert tokenizer is not None
    if not text:
        return []
    before = str(tokenizer.decode(list(prompt)))
    joint = list(tokenizer.encode(before + text, add_special_tokens=False))
    candidates = [joint[len(prompt) :]] if joint[: len(prompt)] == list(prompt) else []
    candidates.append(list(tokenizer.encode(text, add_special_tokens=False)))
    for tokens in candidates:
        if "\ufffd" not in text and tokenizer.decode([*prompt, *tokens]) == before + text:
            return tokens
    return None
