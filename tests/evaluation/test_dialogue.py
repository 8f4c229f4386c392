from datetime import date

import pytest

from phrasedraft import TransformersTarget
from phrasedraft.corpus.prompts import Message, TrainingPrompt
from phrasedraft.errors import PromptError
from phrasedraft.evaluation.dialogue import dialogue_of
from texts import END_OF_TURN, text_target

TODAY = date(2026, 1, 1)
ASKED = (Message(role="user", content="the sea"),)


def test_a_single_message_is_asked_in_the_chat_template():
    target = text_target()
    dialogue = dialogue_of(target, TrainingPrompt(id="a", opening=ASKED), TODAY)
    assert dialogue.answer_ids == ("a",)
    assert dialogue.tokens([]) == target.encode_chat([{"role": "user", "content": "the sea"}])


def test_a_later_turn_holds_the_texts_of_the_earlier_answers():
    target = text_target()
    dialogue = dialogue_of(target, TrainingPrompt(id="a", opening=ASKED, follow_ups=("the end",)), TODAY)
    answer = [*target.encode("is near."), target.tokenizer.convert_tokens_to_ids(END_OF_TURN)]
    assert dialogue.answer_ids == ("a", "a#2")
    assert dialogue.tokens([answer]) == target.encode_chat(
        [
            {"role": "user", "content": "the sea"},
            {"role": "assistant", "content": "is near."},
            {"role": "user", "content": "the end"},
        ]
    )


def test_without_a_template_a_single_message_is_plain_text_and_a_conversation_is_refused():
    target = text_target(chat=False)
    assert dialogue_of(target, TrainingPrompt(id="a", opening=ASKED), TODAY).tokens([]) == target.encode("the sea")
    for prompt in (
        TrainingPrompt(id="a", opening=ASKED, follow_ups=("the end",)),
        TrainingPrompt(id="a", opening=(Message(role="system", content="be brief"), *ASKED)),
    ):
        with pytest.raises(PromptError, match=r"prompt `a` is a conversation, .* has no chat template") as caught:
            dialogue_of(target, prompt, TODAY)
        assert caught.value.hint


def test_a_text_to_go_on_with_is_asked_without_the_template():
    target = text_target()
    assert dialogue_of(target, TrainingPrompt(id="a", text="the sea"), TODAY).tokens([]) == target.encode("the sea")


def test_a_later_turn_that_fills_the_context_is_none_but_a_first_one_is_the_users_to_know():
    target: TransformersTarget = text_target()
    limit = target.context_limit
    long = TrainingPrompt(id="a", opening=ASKED, follow_ups=("the end",))
    assert limit is not None
    filling = target.encode("x" * limit)
    assert dialogue_of(target, long, TODAY).tokens([filling]) is None
    first = TrainingPrompt(id="a", opening=(Message(role="user", content="x" * limit),))
    assert len(dialogue_of(target, first, TODAY).tokens([])) > limit
