"""`model.generate(..., custom_generate=phrase_generate(drafter))` gives what `model.generate(...)` gives."""

import copy
import itertools

import pytest
import torch
from transformers import DynamicCache, StaticCache, StoppingCriteria, TextStreamer
from transformers.generation.streamers import BaseStreamer

import zoo
from kit import PROMPT, STUBS, RandomTreeDrafter, RightDrafter, RightUntilDrafter, generated, greedy_answer
from phrasedraft.errors import OptionError
from phrasedraft.integrations.transformers import phrase_generate
from phrasedraft.target.cache import cache_keyword
from texts import VOCAB_SIZE, Forcing, byte_level_tokenizer

LENGTH = 20
ANSWER = greedy_answer("llama", LENGTH)
FAMILIES = ["llama", "gpt2", "mistral_window", "gemma3", "gemma3_wide_window", "gpt_oss", "mixtral", "qwen3_5", "bloom"]


def drafted(model, drafter, prompt=PROMPT, max_new_tokens=LENGTH, /, **arguments):
    generate = phrase_generate(drafter, num_draft_tokens=5)
    tokens = generated(model, prompt, max_new_tokens, custom_generate=generate, **arguments)
    return tokens, generate.stats


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("family", FAMILIES)
def test_greedy_text_is_that_of_generate(family, stub_name):
    answer = greedy_answer(family, LENGTH)
    tokens, stats = drafted(zoo.tiny_model(family), STUBS[stub_name](answer))
    assert tuple(tokens) == answer
    assert stats.num_draft_tokens > 0
    assert (stats.num_accepted_tokens > 0) == (stub_name != "wrong")


ARGUMENTS = {
    "repetition_penalty": {"repetition_penalty": 1.3},
    "no_repeat_ngram": {"no_repeat_ngram_size": 2},
    "bad_words": {"bad_words_ids": [[ANSWER[1]], [ANSWER[2], ANSWER[3]]]},
    "suppress": {"suppress_tokens": list(ANSWER[:3])},
    "min_new_tokens": {"min_new_tokens": 9, "eos_token_id": ANSWER[3]},
    "forced_eos": {"forced_eos_token_id": 3, "eos_token_id": 3},
    "exponential_decay": {"exponential_decay_length_penalty": (4, 1.6), "eos_token_id": 50},
    "eos_list": {"eos_token_id": [ANSWER[9], ANSWER[5]]},
    "max_length": {"max_length": len(PROMPT) + 7, "max_new_tokens": None},
    "prefix_allowed": {"prefix_allowed_tokens_fn": lambda batch, ids: [t for t in range(96) if t % 3 == len(ids) % 3]},
}


@pytest.mark.parametrize("stub_name", ["right", "random-tree"])
@pytest.mark.parametrize("name", ARGUMENTS)
def test_generates_own_arguments_work(name, stub_name):
    model = zoo.tiny_model("llama")
    answer = generated(model, PROMPT, LENGTH, **ARGUMENTS[name])
    assert tuple(answer) != ANSWER
    tokens, stats = drafted(model, STUBS[stub_name](answer), **ARGUMENTS[name])
    assert tokens == answer
    assert stats.num_accepted_tokens > 0


@pytest.mark.parametrize("index", range(8))
def test_end_of_text_ends_it_at_any_place_in_a_block(index):
    eos = ANSWER[index]
    tokens, _ = drafted(zoo.tiny_model("llama"), RightDrafter(ANSWER), eos_token_id=eos)
    assert tuple(tokens) == ANSWER[: ANSWER.index(eos) + 1]


def test_a_criterion_of_the_user_is_asked_once_a_token():
    class Seventh(StoppingCriteria):
        asked = 0

        def __call__(self, input_ids, scores, **kwargs):
            self.asked += 1
            return torch.tensor([input_ids.shape[1] >= len(PROMPT) + 7])

    criterion = Seventh()
    tokens, _ = drafted(zoo.tiny_model("llama"), RightDrafter(ANSWER), stopping_criteria=[criterion])
    assert tuple(tokens) == ANSWER[:7]
    assert criterion.asked == 7


@pytest.mark.parametrize("family", ["llama", "gpt2", "gemma3", "qwen3_5"])
def test_rows_of_a_padded_batch_are_those_of_each_prompt_alone(family):
    model = zoo.tiny_model(family)
    prompts = [(5, 17, 3, 44, 9), (8, 21), (33, 2, 60, 7)]
    eos = greedy_answer(family, 12, prompts[1])[6]
    ids, mask = torch.zeros((3, 5), dtype=torch.long), torch.zeros((3, 5), dtype=torch.long)
    for row, prompt in enumerate(prompts):
        ids[row, 5 - len(prompt) :] = torch.tensor(prompt)
        mask[row, 5 - len(prompt) :] = 1
    generate = phrase_generate(RandomTreeDrafter(ANSWER), num_draft_tokens=4)
    output = model.generate(
        ids,
        attention_mask=mask,
        custom_generate=generate,
        max_new_tokens=12,
        do_sample=False,
        pad_token_id=0,
        eos_token_id=eos,
    )
    for row, prompt in enumerate(prompts):
        alone = generated(model, prompt, 12, eos_token_id=eos)
        assert output[row, 5:].tolist() == alone + [0] * (output.shape[1] - 5 - len(alone))


def test_scores_logits_and_sequences_come_as_generate_gives_them():
    model = zoo.tiny_model("llama")
    arguments = {
        "max_new_tokens": LENGTH,
        "do_sample": False,
        "pad_token_id": 0,
        "return_dict_in_generate": True,
        "output_scores": True,
        "output_logits": True,
        "repetition_penalty": 1.2,
    }
    expected = model.generate(torch.tensor([PROMPT]), **arguments)
    drafter = RightUntilDrafter(expected.sequences[0, len(PROMPT) :].tolist())
    output = model.generate(torch.tensor([PROMPT]), custom_generate=phrase_generate(drafter), **arguments)
    assert torch.equal(output.sequences, expected.sequences)
    for name in ("scores", "logits"):
        assert torch.allclose(torch.cat(output[name]), torch.cat(expected[name]), atol=1e-4)


def test_sampling_follows_torchs_seed_and_does_not_depend_on_the_drafts():
    model = zoo.tiny_model("llama")

    def sampled(drafter, seed):
        torch.manual_seed(seed)
        return drafted(model, drafter, do_sample=True, temperature=1.5, top_k=20)[0]

    first = sampled(RightDrafter(ANSWER), 0)
    assert sampled(RandomTreeDrafter(first), 0) == first
    assert sampled(RightDrafter(first), 0) == first
    assert sampled(RightDrafter(ANSWER), 1) != first


def test_several_sequences_are_sampled_independently():
    torch.manual_seed(0)
    output = zoo.tiny_model("llama").generate(
        torch.tensor([PROMPT]),
        custom_generate=phrase_generate(RightDrafter(ANSWER)),
        max_new_tokens=8,
        do_sample=True,
        temperature=1.5,
        num_return_sequences=3,
        pad_token_id=0,
    )
    assert len({tuple(row.tolist()) for row in output}) == 3


class Collecting(BaseStreamer):
    def __init__(self):
        self.chunks, self.ended = [], 0

    def put(self, value):
        self.chunks.append(value.flatten().tolist())

    def end(self):
        self.ended += 1


@pytest.mark.parametrize("way", ["phrase_generate", "generate"])
def test_a_streamer_gets_the_prompt_and_then_every_token_once(way):
    model, streamer = zoo.tiny_model("llama"), Collecting()
    if way == "phrase_generate":
        generate = phrase_generate(RightDrafter(ANSWER), streamer=streamer)
        generated(model, PROMPT, LENGTH, custom_generate=generate)
    else:
        tokens = torch.tensor([PROMPT])
        phrase_generate(RightDrafter(ANSWER)).generate(
            model, tokens, streamer=streamer, max_new_tokens=LENGTH, do_sample=False, pad_token_id=0
        )
    assert streamer.chunks[0] == list(PROMPT)
    assert tuple(itertools.chain(*streamer.chunks[1:])) == ANSWER
    assert streamer.ended == 1


def test_the_streamer_of_transformers_prints_the_text(capsys):
    tokenizer, text = byte_level_tokenizer(), "the answer is 日本語 🎉 END!"
    prompt, tokens = tokenizer("she sells")["input_ids"], tokenizer(text)["input_ids"]
    generate = phrase_generate(RightDrafter(tokens, VOCAB_SIZE), streamer=TextStreamer(tokenizer, skip_prompt=True))
    generated(
        zoo.tiny_model("llama", vocab_size=VOCAB_SIZE),
        prompt,
        len(tokens),
        custom_generate=generate,
        logits_processor=[Forcing(len(prompt), tokens)],
    )
    assert capsys.readouterr().out.strip() == text


def test_stop_strings_work_where_generate_takes_a_tokenizer():
    tokenizer, text = byte_level_tokenizer(), "the answer is 42 and the END! of the story"
    prompt, tokens = tokenizer("she sells")["input_ids"], tokenizer(text)["input_ids"]
    output = phrase_generate(RightDrafter(tokens, VOCAB_SIZE), num_draft_tokens=8).generate(
        zoo.tiny_model("llama", vocab_size=VOCAB_SIZE),
        torch.tensor([prompt]),
        tokenizer=tokenizer,
        stop_strings="END",
        max_new_tokens=len(tokens),
        do_sample=False,
        pad_token_id=0,
        logits_processor=[Forcing(len(prompt), tokens)],
    )
    assert tokenizer.decode(output[0, len(prompt) :]).rstrip("!") == text[: text.index("!")]


def test_a_cache_of_the_user_is_continued_from_turn_to_turn():
    model, cache = zoo.tiny_model("llama"), DynamicCache(config=zoo.tiny_model("llama").config)
    text = list(PROMPT)
    for _ in range(3):
        answer = generated(model, text, 8)
        tokens, stats = drafted(model, RightUntilDrafter(answer), text, 8, **{cache_keyword(model): cache})
        assert tokens == answer
        assert stats.num_accepted_tokens > 0
        assert cache.get_seq_length() == len(text) + 7
        text += [*answer, 8, 21]


def test_a_static_cache_is_answered_with_a_cache_of_our_own_and_a_warning():
    model = zoo.tiny_model("llama")
    cache = StaticCache(config=model.config, max_cache_len=64)
    with pytest.warns(UserWarning, match="`StaticCache` has no effect"):
        tokens, _ = drafted(model, RightDrafter(ANSWER), **{cache_keyword(model): cache})
    assert tuple(tokens) == ANSWER


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_beams": 2}, "`num_beams` is `2`"),
        ({"output_hidden_states": True, "return_dict_in_generate": True}, "`output_hidden_states` is `True`"),
        ({"position_ids": torch.tensor([[3, 4, 5, 6, 7]])}, "`position_ids` do not count"),
        ({"attention_mask": torch.tensor([[1, 1, 0, 1, 1]])}, "`attention_mask` hides tokens inside"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(arguments, message):
    with pytest.raises(OptionError, match=message):
        drafted(zoo.tiny_model("llama"), RightDrafter(ANSWER), **arguments)


def test_embeddings_in_place_of_tokens_are_refused():
    model = zoo.tiny_model("llama")
    embeddings = model.get_input_embeddings()(torch.tensor([PROMPT])).detach()
    with pytest.raises(OptionError, match="inputs_embeds"):
        model.generate(
            inputs_embeds=embeddings,
            custom_generate=phrase_generate(RightDrafter(ANSWER)),
            max_new_tokens=LENGTH,
            pad_token_id=0,
        )


def test_generating_leaves_the_model_as_it_was():
    model = zoo.build_model("llama")
    before = copy.deepcopy((model.generation_config.to_dict(), model.config.to_dict(), dir(model)))
    drafted(model, RightDrafter(ANSWER), repetition_penalty=1.2, eos_token_id=3)
    assert (model.generation_config.to_dict(), model.config.to_dict(), dir(model)) == before


def test_one_generate_serves_several_models():
    generate = phrase_generate(RightDrafter(ANSWER), num_draft_tokens=4)
    for family in ("llama", "qwen3", "llama"):
        tokens = generated(zoo.tiny_model(family), PROMPT, LENGTH, custom_generate=generate)
        assert tuple(tokens) == greedy_answer(family, LENGTH)


def test_a_streamer_given_to_generate_itself_gets_every_token():
    model, streamer = zoo.tiny_model("llama"), Collecting()
    generated(model, PROMPT, LENGTH, custom_generate=phrase_generate(RightDrafter(ANSWER)), streamer=streamer)
    assert streamer.chunks[0] == list(PROMPT)
    assert tuple(itertools.chain(*streamer.chunks[1:])) == ANSWER
    assert streamer.ended == 1


def test_a_streamer_given_twice_gets_everything_once():
    model, streamer = zoo.tiny_model("llama"), Collecting()
    generate = phrase_generate(RightDrafter(ANSWER), streamer=streamer)
    generated(model, PROMPT, LENGTH, custom_generate=generate, streamer=streamer)
    assert tuple(itertools.chain(*streamer.chunks)) == PROMPT + ANSWER


def test_an_assistant_model_beside_the_head_warns():
    model = zoo.tiny_model("llama")
    with pytest.warns(UserWarning, match="`assistant_model` has no effect"):
        tokens, _ = drafted(model, RightDrafter(ANSWER), assistant_model=model)
    assert tuple(tokens) == ANSWER


def test_another_way_of_drafting_is_refused_by_name():
    with pytest.raises(OptionError, match="`prompt_lookup_num_tokens` is `3`, with phrase drafting it may be `None`"):
        drafted(zoo.tiny_model("llama"), RightDrafter(ANSWER), prompt_lookup_num_tokens=3)


@pytest.mark.parametrize("family", ["gemma3", "mistral_window", "gpt_oss"])
def test_an_empty_cache_that_does_not_know_of_windows_does_not_lift_them(family):
    model, answer = zoo.tiny_model(family), greedy_answer(family, LENGTH)
    tokens, stats = drafted(model, RandomTreeDrafter(answer), **{cache_keyword(model): DynamicCache()})
    assert tuple(tokens) == answer
    assert stats.num_accepted_tokens > 0


def test_each_row_of_a_batch_is_named_to_what_allows_its_tokens():
    model, prompts = zoo.tiny_model("llama"), torch.tensor([PROMPT, PROMPT])
    arguments = {
        "attention_mask": torch.ones_like(prompts),
        "prefix_allowed_tokens_fn": lambda row, _: range(48) if row == 0 else range(48, 96),
        "max_new_tokens": 8,
        "do_sample": False,
        "pad_token_id": 0,
    }
    wanted = model.generate(prompts, **arguments)
    found = model.generate(prompts, custom_generate=phrase_generate(RightDrafter(wanted[0, 5:].tolist())), **arguments)
    assert torch.equal(found, wanted)
    assert not torch.equal(wanted[0], wanted[1])


def test_a_processor_with_a_state_is_refused_for_several_rows_and_right_for_one():
    model = zoo.tiny_model("llama")
    answer = generated(model, PROMPT, LENGTH, guidance_scale=1.6)
    tokens, stats = drafted(model, RandomTreeDrafter(answer), guidance_scale=1.6)
    assert tokens == answer
    assert stats.num_accepted_tokens > 0
    prompts = torch.tensor([PROMPT, PROMPT])
    with pytest.raises(OptionError, match="`UnbatchedClassifierFreeGuidanceLogitsProcessor` keeps a state"):
        model.generate(
            prompts, custom_generate=phrase_generate(RightDrafter(answer)), guidance_scale=1.6, max_new_tokens=4
        )


def test_a_filled_cache_beside_padding_is_refused():
    model, cache = zoo.tiny_model("llama"), DynamicCache(config=zoo.tiny_model("llama").config)
    drafted(model, RightDrafter(ANSWER), **{cache_keyword(model): cache})
    text = torch.tensor([[0, *PROMPT, *ANSWER, 8]])
    mask = torch.ones_like(text)
    mask[0, 0] = 0
    with pytest.raises(OptionError, match="beside 1 tokens of padding"):
        model.generate(
            text,
            attention_mask=mask,
            custom_generate=phrase_generate(RightDrafter(())),
            max_new_tokens=4,
            pad_token_id=0,
            **{cache_keyword(model): cache},
        )


def test_a_text_that_reaches_the_last_position_says_so():
    model = zoo.build_model("llama", max_position_embeddings=16)
    with pytest.warns(UserWarning, match="the text ends at the 16 positions"):
        tokens, _ = drafted(model, RightDrafter(ANSWER))
    assert tuple(tokens) == ANSWER[: 16 - len(PROMPT)]
