"""The decoder's promises: budgets, errors, statistics, and a model that is left as it was."""

import copy

import pytest
import torch

import zoo
from kit import (
    PROMPT,
    STUBS,
    RandomTreeDrafter,
    RightDrafter,
    RightUntilDrafter,
    StubDrafter,
    assert_drafts_landed,
    generated,
    greedy_answer,
    plain,
    target_of,
    tree_of,
)
from phrasedraft import Choice, Decoder, FinishReason, PhraseDraftError, Stopping, TransformersTarget
from phrasedraft.errors import NonFiniteLogitsError, OptionError, PromptError, TargetError
from phrasedraft.tree.draft_tree import DraftTree
from texts import byte_level_tokenizer, text_target

STOPPING = Stopping(max_new_tokens=20)
ANSWER = greedy_answer("llama", 20)


@pytest.mark.parametrize("stub_name", STUBS)
@pytest.mark.parametrize("budget", [1, 5])
def test_every_generated_token_is_the_first_an_accepted_or_a_bonus_token(stub_name, budget):
    stub = STUBS[stub_name](ANSWER)
    stats = Decoder(target_of(), stub, num_draft_tokens=budget).generate(PROMPT, stopping=STOPPING).stats
    assert stats.num_generated_tokens == 1 + stats.num_accepted_tokens + stats.num_passes
    assert sum(stats.num_accepted_tokens_per_pos) == stats.num_accepted_tokens
    assert stats.num_accepted_tokens_per_pos == sorted(stats.num_accepted_tokens_per_pos, reverse=True)
    assert stats.num_landings == (stats.num_accepted_tokens_per_pos or [0])[0]
    assert stats.num_drafts <= stats.num_passes
    assert stats.num_accepted_tokens <= stats.num_draft_tokens <= budget * stats.num_drafts
    assert stats.prefill_seconds > 0
    assert stats.verify_seconds > 0
    assert 0 <= stats.outside_share < 1


def test_the_drafter_is_told_of_every_token_until_the_text_ends():
    stub = RightDrafter(ANSWER)
    Decoder(target_of(), stub, num_draft_tokens=5).generate(PROMPT, stopping=STOPPING)
    assert stub.num_rows_seen == 18  # three passes of six after the first token; the last token ends the text


class TooMany(StubDrafter):
    def draft(self, state, budget):
        return tree_of(state.text[-1], [(token, 0) for token in range(budget.num_draft_tokens + 1)])


class WrongRoot(StubDrafter):
    def draft(self, state, budget):
        return DraftTree.root_only((state.text[-1] + 1) % zoo.VOCAB_SIZE)


class ForeignToken(StubDrafter):
    def draft(self, state, budget):
        return tree_of(state.text[-1], [(zoo.VOCAB_SIZE, 0)])


@pytest.mark.parametrize("drafter_type", [TooMany, WrongRoot, ForeignToken])
def test_a_drafter_that_breaks_its_budget_is_refused_by_name(drafter_type):
    with pytest.raises(PhraseDraftError, match="drafter `stub` proposed"):
        Decoder(target_of(), drafter_type(()), num_draft_tokens=3).generate(PROMPT, stopping=STOPPING)


def test_drafts_deeper_than_the_text_may_get_are_cut():
    stub = RightDrafter(greedy_answer("llama", 40))
    generation = Decoder(target_of(), stub, num_draft_tokens=16).generate(PROMPT, stopping=Stopping(max_new_tokens=8))
    assert generation.tokens == ANSWER[:8]
    assert generation.stats.num_draft_tokens <= 6


@pytest.mark.usefixtures("without_type_checks")
@pytest.mark.parametrize(("drafter", "num_draft_tokens"), [(None, 3), (StubDrafter(()), 1.5)])
def test_what_is_no_drafter_and_no_length_is_refused(drafter, num_draft_tokens):
    with pytest.raises(OptionError, match="it may be"):
        Decoder(target_of(), drafter, num_draft_tokens=num_draft_tokens)


@pytest.mark.usefixtures("without_type_checks")
def test_a_prompt_of_fractions_is_refused():
    with pytest.raises(PromptError, match=r"the prompt holds `1\.5`"):
        plain(target_of(), prompt=[1, 1.5])


def test_negative_draft_length_is_refused():
    with pytest.raises(OptionError, match="`num_draft_tokens` is `-1`, it may be 0 or more"):
        Decoder(target_of(), StubDrafter(()), num_draft_tokens=-1)


def test_no_draft_tokens_is_plain_decoding_and_never_asks_the_drafter():
    stub = RightDrafter(ANSWER)
    generation = Decoder(target_of(), stub, num_draft_tokens=0).generate(PROMPT, stopping=STOPPING)
    assert generation.tokens == ANSWER
    assert stub.num_proposals == 0
    assert generation.stats.num_passes == 19


@pytest.mark.parametrize("form", [list, tuple, lambda ids: torch.tensor(ids), lambda ids: torch.tensor([ids])])
def test_prompts_may_be_lists_tuples_and_tensors(form):
    assert plain(target_of(), stopping=STOPPING, prompt=form(list(PROMPT))).tokens == ANSWER


@pytest.mark.parametrize(
    ("prompt", "message"),
    [
        ([], "the prompt is empty"),
        (torch.zeros((1, 0), dtype=torch.long), "the prompt is empty"),
        (torch.ones((2, 3), dtype=torch.long), "a batch of 2 sequences"),
        ([1, 96], "holds token id 96, target .* has ids 0 to 95"),
        ([1, -1], "holds token id -1"),
        ([1] * 512, "has 512 tokens, .* fewer than its context limit of 512"),
        ([1] * 600, "has 600 tokens"),
    ],
)
def test_a_prompt_that_cannot_be_answered_is_refused_with_a_hint(prompt, message):
    with pytest.raises(PromptError, match=message) as error:
        plain(target_of(), prompt=prompt)
    assert error.value.hint


def test_an_empty_text_is_an_empty_prompt():
    with pytest.raises(PromptError, match="the prompt is empty"):
        plain(text_target(), prompt="")


def test_chat_messages_go_through_the_template_and_need_one():
    messages = [{"role": "user", "content": "she sells"}]
    expected = byte_level_tokenizer().apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
    generation = plain(text_target(), stopping=STOPPING, prompt=messages)
    assert generation.num_prompt_tokens == len(expected)
    assert generation.tokens == plain(text_target(), stopping=STOPPING, prompt=expected).tokens
    with pytest.raises(PromptError, match="has no chat template") as error:
        plain(text_target(chat=False), prompt=messages)
    assert "chat_template" in error.value.hint


def test_text_and_stop_strings_need_a_tokenizer():
    with pytest.raises(OptionError, match="without a tokenizer"):
        plain(target_of(), prompt="she sells")
    with pytest.raises(OptionError, match="`stop_strings` need a tokenizer"):
        plain(target_of(), stopping=Stopping(stop_strings=("END",)))
    assert plain(target_of(), stopping=STOPPING).text == ""


def broken_model(where):
    model = zoo.build_model("llama")
    with torch.no_grad():
        if where == "from the start":
            model.get_output_embeddings().weight[3] = torch.nan
        else:  # once this token is read
            model.get_input_embeddings().weight[ANSWER[6]] = torch.nan
    return model


@pytest.mark.parametrize("settings", [{}, {"temperature": 1.0, "top_k": 1, "seed": 0}], ids=["greedy", "sampled"])
@pytest.mark.parametrize("where", ["from the start", "later"])
def test_nan_logits_are_an_error_and_not_a_text(where, settings):
    target = TransformersTarget(broken_model(where), check=False, packed=False)
    with pytest.raises(NonFiniteLogitsError, match="NaN") as error:
        Decoder(target, RightDrafter(ANSWER), num_draft_tokens=4).generate(PROMPT, Choice(**settings), STOPPING)
    assert isinstance(error.value, TargetError)


def test_nan_that_only_a_draft_brings_in_is_an_error_and_never_another_text():
    # A masked row still takes part in the product: 0 x NaN is NaN.
    model = zoo.build_model("llama")
    poisoned = next(token for token in range(zoo.VOCAB_SIZE) if token not in ANSWER + PROMPT)
    with torch.no_grad():
        model.get_input_embeddings().weight[poisoned] = torch.nan

    class Poisoned(StubDrafter):
        def draft(self, state, budget):
            right = self.ahead(state, 1) or [0]
            return tree_of(state.text[-1], [(poisoned, 0), *((token, 0) for token in right)])

    target = TransformersTarget(model, check=False, packed=False)
    assert plain(target, stopping=STOPPING).tokens == ANSWER
    with pytest.raises(NonFiniteLogitsError, match="NaN"):
        Decoder(target, Poisoned(ANSWER), num_draft_tokens=4).generate(PROMPT, stopping=STOPPING)


@pytest.mark.parametrize("family", ["llama", "gemma3", "gpt2", "qwen3_5"])
def test_the_model_is_left_as_it_was(family):
    model = zoo.build_model(family)

    def picture():
        hooks = [
            (len(module._forward_hooks), len(module._forward_pre_hooks), sorted(vars(module)))
            for module in model.modules()
        ]
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        return copy.deepcopy((model.generation_config.to_dict(), model.config.to_dict(), hooks, dir(model))), weights

    before, weights = picture()
    target = TransformersTarget(model, byte_level_tokenizer())
    stopping = Stopping(max_new_tokens=12)
    Decoder(target, RandomTreeDrafter(greedy_answer(family, 12)), num_draft_tokens=4).generate(
        PROMPT, stopping=stopping
    )
    after, weights_after = picture()
    assert after == before
    assert all(torch.equal(weights[name], weights_after[name]) for name in weights)
    assert generated(model, PROMPT, 12) == list(greedy_answer(family, 12))


def test_a_stream_gives_every_token_once_and_then_its_result():
    decoder = Decoder(target_of(), RightUntilDrafter(ANSWER), num_draft_tokens=4)
    stream = decoder.stream(PROMPT, stopping=STOPPING, logprobs=True)
    with pytest.raises(PhraseDraftError, match="the answer is not finished"):
        _ = stream.result
    pieces = list(stream)
    assert tuple(piece.token for piece in pieces) == ANSWER == stream.result.tokens
    assert tuple(piece.logprob for piece in pieces) == stream.result.logprobs
    assert sum(piece.was_drafted for piece in pieces) >= stream.result.stats.num_accepted_tokens > 0
    assert stream.result.finish_reason is FinishReason.LENGTH
    assert list(stream) == []


def test_streaming_leaves_gradients_on_between_pieces():
    stream = Decoder(target_of(), RightDrafter(ANSWER), num_draft_tokens=4).stream(PROMPT, stopping=STOPPING)
    for _ in stream:
        assert not torch.is_inference_mode_enabled()
        assert torch.is_grad_enabled()
    with torch.enable_grad():
        weight = torch.ones(2, requires_grad=True)
        weight.sum().backward()
    assert weight.grad is not None


@pytest.mark.parametrize("family", ["llama", "qwen3"])
def test_the_text_ends_at_the_context_limit(family):
    target = target_of(family, max_position_embeddings=24)
    answer = greedy_answer(family, 19, max_position_embeddings=24)
    stub = RightUntilDrafter(answer)
    generation = Decoder(target, stub, num_draft_tokens=6).generate(PROMPT, stopping=Stopping(max_new_tokens=100))
    assert generation.tokens == answer
    assert len(generation.tokens) + len(PROMPT) == 24
    assert generation.finish_reason is FinishReason.CONTEXT
    assert_drafts_landed(stub, generation)


def test_logprobs_are_given_only_where_asked_for():
    assert plain(target_of(), stopping=STOPPING).logprobs is None
    generation = plain(target_of(), Choice(temperature=1.5, top_k=3, seed=1), STOPPING, logprobs=True)
    assert len(generation.logprobs) == len(generation.tokens)
    assert generation.seed == 1
