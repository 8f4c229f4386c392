"""From a training prompt to the tokens the target reads: the chat template, and the settings that change it."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from phrasedraft.corpus.prompts import Message, TrainingPrompt
from phrasedraft.errors import OptionError, PromptError
from phrasedraft.target import TransformersTarget, fingerprint
from phrasedraft.target.fingerprint import PROBE_DATE, DatedTemplate


@dataclass(frozen=True, kw_only=True)
class TemplateSettings:
    """What goes into the chat template beside the messages.

    `system_prompt` is put before conversations that have no system message of their own. `thinking` is `on` or `off`
    for templates with such a switch (`enable_thinking`), `default` leaves it to the template.
    """

    system_prompt: str = ""
    thinking: str = "default"

    def __post_init__(self) -> None:
        if self.thinking not in fingerprint.THINKING:
            known = ", ".join(f"`{value}`" for value in fingerprint.THINKING)
            raise OptionError(f"`thinking` is `{self.thinking}`, it may be {known}")


def has_template(target: TransformersTarget) -> bool:
    """Whether the target's tokenizer can write a conversation."""
    return bool(getattr(target.tokenizer, "chat_template", None))


def template_fingerprint(target: TransformersTarget, settings: TemplateSettings) -> str | None:
    """A hash that changes with the template, the thinking switch and the system prompt, not with the date.

    None where the target has no template, or one that takes no system message.
    """
    return target.identity.template_fingerprint(settings.system_prompt, settings.thinking)


def encode_messages(template: DatedTemplate, messages: Sequence[Message], settings: TemplateSettings) -> list[int]:
    """The tokens of a conversation; a system message of its own wins over the settings'."""
    said = list(messages)
    if settings.system_prompt and said[0].role not in ("system", "developer"):
        said.insert(0, Message(role="system", content=settings.system_prompt))
    return template.encode_chat(
        [{"role": part.role, "content": part.content} for part in said],
        **fingerprint.template_arguments(settings.thinking),
    )


def encode_prompt(
    target: TransformersTarget,
    prompt: TrainingPrompt,
    settings: TemplateSettings,
    today: date,
    answers: Sequence[str] = (),
) -> list[int]:
    """The tokens of a prompt's next turn, after the target's `answers` to the earlier ones."""
    if prompt.text:
        return target.encode(prompt.text)
    return encode_messages(DatedTemplate(target, today), prompt.messages(answers), settings)


def check_template(target: TransformersTarget, prompts: Sequence[TrainingPrompt], settings: TemplateSettings) -> None:
    """Refuse conversations the target has no template for, and warn about settings that change nothing."""
    chats = [prompt for prompt in prompts if not prompt.text]
    name = target.identity.name
    if chats and not has_template(target):
        raise PromptError(
            f"prompt `{chats[0].id}` is a conversation, and the tokenizer of `{name}` has no chat template",
            hint='give prompts as `{"text": "..."}`, which the target goes on with, or a target with a chat template',
        )
    if settings == TemplateSettings():
        return
    if not chats:
        warnings.warn("all prompts are plain `text`: `thinking` and `system_prompt` have no effect", stacklevel=1)
        return
    if settings.thinking != "default" and _equal(target, {"thinking": "on"}, {"thinking": "off"}):
        warnings.warn(
            f"the chat template of `{name}` reads no `enable_thinking`: `thinking` has no effect", stacklevel=1
        )
    if settings.system_prompt and _equal(target, {"system_prompt": settings.system_prompt}, {}):
        warnings.warn(
            f"the chat template of `{name}` writes no system message: `system_prompt` has no effect", stacklevel=1
        )


def _equal(target: TransformersTarget, one: dict[str, str], other: dict[str, str]) -> bool:
    """Whether two settings render a conversation alike."""
    template, messages = DatedTemplate(target, PROBE_DATE), [Message(**part) for part in fingerprint.PROBE]
    first, second = (encode_messages(template, messages, TemplateSettings(**settings)) for settings in (one, other))
    return first == second


def end_of_turn(target: TransformersTarget) -> int | None:
    """The token that ends the target's turn in its template; None where no end-of-text token is known."""
    known = target.eos_token_ids
    marker = "Marked turn."
    if has_template(target) and target.tokenizer is not None:
        question = Message(role="user", content="Mark your turn.")
        conversation = [question, Message(role="assistant", content=marker), question]
        tokens = encode_messages(DatedTemplate(target, PROBE_DATE), conversation, TemplateSettings())
        for index, token in enumerate(tokens):
            if token in known and marker in target.tokenizer.decode(tokens[:index]):
                return token
    own = getattr(target.tokenizer, "eos_token_id", None)
    return own if own in known else min(known, default=None)
