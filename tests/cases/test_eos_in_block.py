"""Cases where an end-of-text token inside a block of accepted tokens was missed or believed too early."""

import pytest

import zoo
from kit import PROMPT, RightDrafter, StubDrafter, assert_drafts_landed, generated, greedy_answer, plain, target_of
from phrasedraft import Choice, Decoder, FinishReason, Stopping, TransformersTarget
from phrasedraft.tree.draft_tree import DraftTree
from texts import END_OF_TEXT, END_OF_TURN, VOCAB_SIZE, Forcing, byte_level_tokenizer

ANSWER = greedy_answer("llama", 20)


def test_eos_draft_finish_a_drafted_end_that_the_target_rejects_ends_nothing():
    """`eos-draft-finish`: a drafter that proposes nothing but the end."""
    eos = next(token for token in range(zoo.VOCAB_SIZE) if token not in ANSWER)

    class Ending(StubDrafter):
        def draft(self, state, budget):
            return DraftTree.chain((state.text[-1], *[eos] * budget.num_draft_tokens))

    stub = Ending(())
    generation = Decoder(target_of("llama", eos_token_id=eos), stub, num_draft_tokens=5).generate(
        PROMPT, stopping=Stopping(max_new_tokens=20)
    )
    assert generation.tokens == ANSWER
    assert generation.finish_reason is FinishReason.LENGTH
    assert stub.num_proposals > 10


def test_eos_phi2_a_model_without_end_and_padding_tokens_works():
    """`eos-phi2`: no `eos_token_id`, no `pad_token_id`."""
    model = zoo.tiny_model("gpt2")
    assert model.config.eos_token_id is None
    assert model.config.pad_token_id is None
    stub = RightDrafter(greedy_answer("gpt2", 20))
    generation = Decoder(TransformersTarget(model), stub, num_draft_tokens=5).generate(
        PROMPT, stopping=Stopping(max_new_tokens=20)
    )
    assert generation.tokens == greedy_answer("gpt2", 20)
    assert_drafts_landed(stub, generation)


@pytest.mark.parametrize("index", [3, 6, 8])
def test_eos_list_every_id_of_the_generation_config_ends_the_text(index):
    """`eos-list`: generation_config lists two ids, the config names one; the other must end the text as well."""
    unused = next(token for token in range(zoo.VOCAB_SIZE) if token not in ANSWER)
    model = zoo.build_model("llama", eos_token_id=unused)
    model.generation_config.eos_token_id = [unused, ANSWER[index]]
    expected = generated(model, PROMPT, 20)
    generation = Decoder(TransformersTarget(model), RightDrafter(ANSWER), num_draft_tokens=5).generate(
        PROMPT, stopping=Stopping(max_new_tokens=20)
    )
    assert list(generation.tokens) == expected == list(ANSWER[: ANSWER.index(ANSWER[index]) + 1])
    assert generation.finish_reason is FinishReason.EOS


@pytest.mark.parametrize("end", [END_OF_TEXT, END_OF_TURN])
def test_eos_union_the_tokenizers_end_and_the_configs_end_both_count(end):
    """`eos-union`: the tokenizer says <|im_end|>, generation_config says <|endoftext|>; a chat must end at either."""
    tokenizer = byte_level_tokenizer()
    model = zoo.build_model("llama", vocab_size=VOCAB_SIZE)
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(END_OF_TEXT)
    target = TransformersTarget(model, tokenizer)
    messages = [{"role": "user", "content": "she sells"}]
    prompt = target.encode_chat(messages)
    tokens = tokenizer("the answer is 42." + end + " and more")["input_ids"]
    generation = Decoder(target, RightDrafter(tokens, VOCAB_SIZE), num_draft_tokens=6).generate(
        messages, Choice(processors=(Forcing(len(prompt), tokens),)), Stopping(max_new_tokens=40)
    )
    assert generation.text == "the answer is 42."
    assert generation.finish_reason is FinishReason.EOS
    assert generation.tokens[-1] == tokenizer.convert_tokens_to_ids(end)
    assert generation.stats.num_accepted_tokens > 0


@pytest.mark.parametrize("index", range(12))
def test_eos_midblock_hf_the_text_ends_at_the_first_end_at_any_place_in_a_block(index):
    """`eos-midblock-hf`: each of the first twelve tokens is declared the end in turn, drafted five at a time."""
    eos = ANSWER[index]
    target = target_of("llama", eos_token_id=eos)
    generation = Decoder(target, RightDrafter(ANSWER), num_draft_tokens=5).generate(
        PROMPT, stopping=Stopping(max_new_tokens=20)
    )
    assert generation.tokens == ANSWER[: ANSWER.index(eos) + 1]
    assert generation.tokens == plain(target, stopping=Stopping(max_new_tokens=20)).tokens
    assert generation.finish_reason is FinishReason.EOS
