"""A text ends at the same token with and without drafts, whatever ends it and wherever in a block that is."""

import pytest
import torch
from transformers import MaxLengthCriteria, StoppingCriteria

import zoo
from kit import PROMPT, STUBS, RightDrafter, assert_drafts_landed, generated, greedy_answer, plain, target_of
from phrasedraft import Choice, Decoder, FinishReason, Stopping, TransformersTarget
from texts import VOCAB_SIZE, Forcing, byte_level_tokenizer, text_target

ANSWER = greedy_answer("llama", 20)
FIRST_TWELVE = range(12)


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("index", FIRST_TWELVE)
def test_end_of_text_ends_it_at_any_place_in_a_block(index, stub_name):
    eos = ANSWER[index]
    expected = ANSWER[: ANSWER.index(eos) + 1]
    target = target_of("llama", eos_token_id=eos)
    assert generated(target.model, PROMPT, 20, eos_token_id=eos) == list(expected)
    stub = STUBS[stub_name](ANSWER)
    generation = Decoder(target, stub, num_draft_tokens=5).generate(PROMPT, stopping=Stopping(max_new_tokens=20))
    assert generation.tokens == expected
    assert generation.finish_reason is FinishReason.EOS
    assert generation.stats.num_generated_tokens == len(expected)
    if len(expected) > 4:
        assert_drafts_landed(stub, generation)


@pytest.mark.parametrize("stub_name", ["right", "random-tree"])
@pytest.mark.parametrize("index", [2, 5, 9])
def test_sampled_end_of_text_ends_it_too(index, stub_name):
    choice = Choice(temperature=1.4, seed=8)
    whole = plain(target_of(), choice, Stopping(max_new_tokens=20)).tokens
    expected = whole[: whole.index(whole[index]) + 1]
    target = target_of("llama", eos_token_id=whole[index])
    generation = Decoder(target, STUBS[stub_name](whole), num_draft_tokens=6).generate(
        PROMPT, choice, Stopping(max_new_tokens=20)
    )
    assert generation.tokens == expected
    assert generation.finish_reason is FinishReason.EOS


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("max_new_tokens", range(1, 9))
@pytest.mark.parametrize("budget", [1, 3, 6])
def test_length_is_exact_for_every_length_and_budget(max_new_tokens, budget, stub_name):
    generation = Decoder(target_of(), STUBS[stub_name](ANSWER), num_draft_tokens=budget).generate(
        PROMPT, stopping=Stopping(max_new_tokens=max_new_tokens)
    )
    assert generation.tokens == ANSWER[:max_new_tokens]
    assert generation.finish_reason is FinishReason.LENGTH


class SeenTwice(StoppingCriteria):
    """Ends a text when its last token is one that was there before; remembers what it was asked."""

    def __init__(self):
        self.asked = []

    def __call__(self, input_ids, scores, **kwargs):
        self.asked.append(tuple(input_ids[0].tolist()))
        repeated = int(input_ids[0, -1]) in input_ids[0, len(PROMPT) : -1].tolist()
        return torch.tensor([repeated])


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("family", ["llama", "gemma3", "olmo2"])
def test_criteria_are_asked_once_a_token_and_end_the_text_there(family, stub_name):
    answer = greedy_answer(family, 40)
    expected_criterion, criterion = SeenTwice(), SeenTwice()
    expected = plain(target_of(family), stopping=Stopping(max_new_tokens=40, criteria=(expected_criterion,)))
    reference = generated(target_of(family).model, PROMPT, 40, stopping_criteria=[SeenTwice()])
    assert list(expected.tokens) == reference
    assert expected.finish_reason is FinishReason.CRITERION
    stub = STUBS[stub_name](answer)
    generation = Decoder(target_of(family), stub, num_draft_tokens=6).generate(
        PROMPT, stopping=Stopping(max_new_tokens=40, criteria=(criterion,))
    )
    assert generation.tokens == expected.tokens
    assert generation.finish_reason is FinishReason.CRITERION
    assert criterion.asked == expected_criterion.asked
    assert_drafts_landed(stub, generation)


@pytest.mark.parametrize("stub_name", STUBS)
def test_length_criterion_of_transformers_works_as_a_criterion(stub_name):
    stopping = Stopping(max_new_tokens=30, criteria=(MaxLengthCriteria(len(PROMPT) + 7),))
    generation = Decoder(target_of(), STUBS[stub_name](ANSWER), num_draft_tokens=5).generate(PROMPT, stopping=stopping)
    assert generation.tokens == ANSWER[:7]
    assert generation.finish_reason is FinishReason.CRITERION


TEXT = "the answer is 42 and the END! of the story"


def forced(stub_name, budget, stopping, *, text=TEXT):
    """The generation of a target that is made to write `text`, drafted by a stub that knows it."""
    tokenizer, target = byte_level_tokenizer(), text_target()
    tokens = tokenizer(text)["input_ids"]
    prompt = tokenizer("she sells")["input_ids"]
    choice = Choice(processors=(Forcing(len(prompt), tokens),))
    stub = STUBS[stub_name](tokens, len(tokenizer))
    return tokens, stub, Decoder(target, stub, num_draft_tokens=budget).generate(prompt, choice, stopping)


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("stop", ["answer", "42", "wer is 4", "END!", "END", "ND", "y"])
def test_stop_string_ends_the_text_in_front_of_it(stop, stub_name):
    _, _, alone = forced("wrong", 0, Stopping(max_new_tokens=40, stop_strings=(stop,)))
    tokens, stub, generation = forced(stub_name, 6, Stopping(max_new_tokens=40, stop_strings=(stop,)))
    assert generation.text == TEXT[: TEXT.index(stop)] == alone.text
    assert generation.tokens == alone.tokens == tuple(tokens[: len(alone.tokens)])
    assert generation.finish_reason is FinishReason.STOP_STRING
    assert generation.stop_string == stop
    decoded = byte_level_tokenizer().decode(list(generation.tokens))
    assert stop in decoded
    assert stop not in byte_level_tokenizer().decode(list(generation.tokens[:-1]))
    if len(generation.tokens) > 4:
        assert_drafts_landed(stub, generation)


@pytest.mark.parametrize("order", [("END", "the"), ("the", "END")])
def test_the_first_of_several_stop_strings_counts(order):
    text = "answer is END! of the story"
    _, _, generation = forced("right", 8, Stopping(max_new_tokens=40, stop_strings=order), text=text)
    assert generation.text == "answer is "
    assert generation.stop_string == "END"


@pytest.mark.parametrize("stub_name", STUBS)
def test_end_of_text_comes_before_stop_string_criterion_and_length(stub_name):
    tokenizer = byte_level_tokenizer()
    text = "the answer is END" + tokenizer.eos_token
    tokens = tokenizer(text)["input_ids"]
    reasons = []
    for stop_strings, criteria, length in (
        ((), (), len(tokens)),
        ((), (MaxLengthCriteria(len(tokens) + len(tokenizer("she sells")["input_ids"])),), len(tokens)),
        (("END",), (MaxLengthCriteria(1000),), 40),
    ):
        stopping = Stopping(max_new_tokens=length, stop_strings=stop_strings, criteria=criteria)
        reasons.append(forced(stub_name, 5, stopping, text=text)[2].finish_reason)
    assert reasons == [FinishReason.EOS, FinishReason.EOS, FinishReason.STOP_STRING]


@pytest.mark.parametrize("stub_name", STUBS)
def test_stop_string_comes_before_criterion_and_criterion_before_length(stub_name):
    prompt_length = len(byte_level_tokenizer()("she sells")["input_ids"])
    tokens = byte_level_tokenizer()("the answer is")["input_ids"]
    criterion = MaxLengthCriteria(prompt_length + len(tokens))
    stopping = Stopping(max_new_tokens=len(tokens), stop_strings=("is",), criteria=(criterion,))
    assert forced(stub_name, 5, stopping)[2].finish_reason is FinishReason.STOP_STRING
    stopping = Stopping(max_new_tokens=len(tokens), criteria=(criterion,))
    assert forced(stub_name, 5, stopping)[2].finish_reason is FinishReason.CRITERION


@pytest.mark.parametrize("stub_name", STUBS)
def test_minimum_length_keeps_the_end_and_stop_strings_away(stub_name):
    eos = ANSWER[3]
    target = target_of("llama", eos_token_id=eos)
    expected = generated(target.model, PROMPT, 20, eos_token_id=eos, min_new_tokens=9)
    generation = Decoder(target, STUBS[stub_name](expected), num_draft_tokens=5).generate(
        PROMPT, stopping=Stopping(max_new_tokens=20, min_new_tokens=9)
    )
    assert list(generation.tokens) == expected
    assert len(expected) >= 9
    stopping = Stopping(max_new_tokens=40, min_new_tokens=5, stop_strings=("answer", "the"))
    text = forced(stub_name, 5, stopping)[2].text
    assert text == "the answer is 42 and "


@pytest.mark.parametrize(("min_new_tokens", "text"), [(1, "the "), (2, TEXT)])
def test_a_stop_string_counts_from_the_first_token_after_the_minimum(min_new_tokens, text):
    stopping = Stopping(max_new_tokens=17, min_new_tokens=min_new_tokens, stop_strings=("answer",))
    tokens, _, generation = forced("right", 5, stopping)  # `answer` is the second token
    assert generation.text.startswith(text)
    assert (generation.finish_reason is FinishReason.STOP_STRING) == (min_new_tokens == 1)
    assert len(tokens) <= 17


def test_ignored_end_of_text_is_an_ordinary_token():
    target = target_of("llama", eos_token_id=ANSWER[3])
    generation = Decoder(target, RightDrafter(ANSWER), num_draft_tokens=5).generate(
        PROMPT, stopping=Stopping(max_new_tokens=20, ignore_eos=True)
    )
    assert generation.tokens == ANSWER


@pytest.mark.parametrize("num_draft_tokens", [0, 6])
def test_an_end_of_text_that_is_no_special_token_comes_before_a_stop_string_in_it(num_draft_tokens):
    tokenizer = byte_level_tokenizer()
    tokens = tokenizer("the END!")["input_ids"]
    target = TransformersTarget(zoo.tiny_model("llama", vocab_size=VOCAB_SIZE, eos_token_id=tokens[-1]), tokenizer)
    choice = Choice(processors=(Forcing(len(PROMPT), tokens),))
    decoder = Decoder(target, RightDrafter(tokens, VOCAB_SIZE), num_draft_tokens=num_draft_tokens)
    generation = decoder.generate(PROMPT, choice, Stopping(max_new_tokens=20, stop_strings=("!",)))
    assert generation.finish_reason is FinishReason.EOS
    assert generation.stop_string is None
    assert generation.text == "the END!"
