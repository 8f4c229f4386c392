"""A prompt as a benchmark asks it: turn by turn in the target's tokens, each after the answers given so far."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from phrasedraft.corpus.prompts import TrainingPrompt
from phrasedraft.corpus.template import TemplateSettings, encode_prompt, has_template
from phrasedraft.errors import PromptError
from phrasedraft.target import TransformersTarget


@dataclass(frozen=True, kw_only=True)
class Dialogue:
    """What a method is asked: `answer_ids` names its answers, one a turn.

    `tokens` gives the next turn's prompt after the tokens of the answers so far, or None where the target's context has
    no room for another answer.
    """

    answer_ids: tuple[str, ...]
    tokens: Callable[[Sequence[Sequence[int]]], list[int] | None]


def dialogue_of(target: TransformersTarget, prompt: TrainingPrompt, today: date) -> Dialogue:
    """A prompt for `target`, in its chat template where there is one; a single message is plain text otherwise.

    Raises `PromptError` for a conversation where there is none.
    """
    is_plain = bool(prompt.text) or not has_template(target)
    if is_plain and not prompt.text and (prompt.follow_ups or len(prompt.opening) > 1):
        raise PromptError(
            f"prompt `{prompt.id}` is a conversation, and the tokenizer of `{target.identity.name}` has no chat "
            "template",
            hint="take prompts of a single message, or a target with a chat template",
        )

    def tokens(answers: Sequence[Sequence[int]]) -> list[int] | None:
        if is_plain:
            return target.encode(prompt.text or prompt.opening[0].content)
        assert target.tokenizer is not None
        said = [target.tokenizer.decode(list(answer), skip_special_tokens=True) for answer in answers]
        encoded = encode_prompt(target, prompt, TemplateSettings(), today, said)
        has_room = target.context_limit is None or len(encoded) < target.context_limit
        return encoded if has_room or not answers else None  # a first turn that is too long is the user's to know

    return Dialogue(answer_ids=prompt.answer_ids, tokens=tokens)
