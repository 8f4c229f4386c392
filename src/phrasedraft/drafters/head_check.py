"""Whether a head belongs to a target: what is refused, and what is only said."""

import warnings

from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.errors import HeadMismatchError
from phrasedraft.target.fingerprint import MAX_STATE_DIFFERENCE, state_difference
from phrasedraft.target.protocol import TargetIdentity

MAX_ADDED_TOKENS = 1024
"""How many tokens a target may have gained since the head was trained, where its tokenizer does not say."""


def check_head(name: str, config: HeadConfig, target: TargetIdentity) -> None:
    """Refuse a target that head `name` cannot draft for; warn where it can, but was trained on something else.

    The text is the target's own in any case; what suffers is how much of a draft is accepted.
    """
    hint = f"train a head for this target with `phrasedraft fit`, or load `{config.target_name}`"
    if target.hidden_size != config.target_hidden_size:
        raise HeadMismatchError(
            f"head `{name}` was trained for hidden size {config.target_hidden_size}, "
            f"target `{target.name}` has {target.hidden_size}",
            hint=hint,
        )
    fingerprint = target.tokenizer_fingerprint(config.target_vocab_size)
    known = fingerprint is not None and config.tokenizer_fingerprint is not None
    added = target.vocab_size - config.target_vocab_size
    if added < 0 or (added > MAX_ADDED_TOKENS and not known):
        raise HeadMismatchError(
            f"head `{name}` was trained for a vocabulary of {config.target_vocab_size} tokens, "
            f"target `{target.name}` has {target.vocab_size}",
            hint=hint,
        )
    if known and fingerprint != config.tokenizer_fingerprint:
        raise HeadMismatchError(
            f"head `{name}` was trained for tokenizer `{config.tokenizer_fingerprint}`, "
            f"target `{target.name}` has `{fingerprint}`",
            hint=hint,
        )
    if added > 0:
        warnings.warn(
            f"target `{target.name}` has {added} tokens more than the head was trained for; it never drafts them",
            stacklevel=2,
        )
    _warn_of_other_weights(config, target)
    _warn_of_other_template(config, target)


def _warn_of_other_weights(config: HeadConfig, target: TargetIdentity) -> None:
    if not config.state_fingerprint or not (found := target.state_fingerprint()):
        return
    difference = state_difference(config.state_fingerprint, found)
    if not difference <= MAX_STATE_DIFFERENCE:
        warnings.warn(
            f"target `{target.name}` gives other hidden states than the one the head was trained on (they differ by "
            f"{difference:.0%}): a fine-tune, an adapter, another revision or precision; fewer drafts may be accepted",
            stacklevel=5,
        )


def _warn_of_other_template(config: HeadConfig, target: TargetIdentity) -> None:
    trained = config.template
    if trained.fingerprint is None:
        return
    found = target.template_fingerprint(trained.system_prompt, "default")
    if found is None or found == trained.fingerprint:
        return
    if target.template_fingerprint(trained.system_prompt, trained.thinking) == trained.fingerprint:
        warnings.warn(
            f"the head was trained with the chat template's thinking switch `{trained.thinking}`, target "
            f"`{target.name}` has another default; pass `enable_thinking={trained.thinking == 'on'}` to its template",
            stacklevel=5,
        )
        return
    warnings.warn(
        f"the chat template of target `{target.name}` is not the one the head was trained with; fewer drafts may be "
        "accepted",
        stacklevel=5,
    )
