"""What a target is recognised by changes with what matters to a head, and with nothing else."""

import copy
from datetime import date

import pytest
import torch

import zoo
from answering import ending_target, with_template
from kit import target_of
from phrasedraft import TransformersTarget
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.fingerprint import (
    MAX_STATE_DIFFERENCE,
    NUM_DIRECTIONS,
    NUM_PROBE_TOKENS,
    PROBE_DATE,
    DatedTemplate,
    probe_tokens,
    state_difference,
    state_fingerprint,
    template_arguments,
    template_fingerprint,
)
from texts import CHAT_TEMPLATE

THINKING = CHAT_TEMPLATE + (
    "{% if add_generation_prompt and (enable_thinking is not defined or enable_thinking) %}<think>{% endif %}"
)
DATED = "{{ strftime_now('%d %b %Y') }}\n" + CHAT_TEMPLATE
MESSAGES = [{"role": "user", "content": "hello"}]


def fingerprint(template, system_prompt="", thinking="default"):
    return template_fingerprint(with_template(ending_target(), template), system_prompt, thinking)


def test_a_template_has_one_fingerprint_and_another_template_another():
    found = fingerprint(CHAT_TEMPLATE)
    assert found == fingerprint(CHAT_TEMPLATE)
    assert found == ending_target().identity.template_fingerprint("", "default")
    changed = [CHAT_TEMPLATE.replace("assistant\n", "assistant:"), CHAT_TEMPLATE.replace("<|im_end|>\n", "<|im_end|>")]
    assert len({found, *map(fingerprint, changed)}) == 3


def test_the_system_prompt_is_part_of_the_fingerprint():
    prompts = ("", "be brief", "be brief.")
    assert len({fingerprint(CHAT_TEMPLATE, prompt) for prompt in prompts}) == 3


def test_the_thinking_switch_counts_where_the_template_reads_it():
    with_switch = {thinking: fingerprint(THINKING, "", thinking) for thinking in ("default", "on", "off")}
    assert with_switch["default"] == with_switch["on"] != with_switch["off"]
    assert len({fingerprint(CHAT_TEMPLATE, "", thinking) for thinking in ("default", "on", "off")}) == 1
    assert [template_arguments(thinking) for thinking in ("default", "on", "off")] == [
        {},
        {"enable_thinking": True},
        {"enable_thinking": False},
    ]


def test_the_day_a_template_writes_is_no_part_of_the_fingerprint():
    literal = DATED.replace("{{ strftime_now('%d %b %Y') }}", PROBE_DATE.strftime("%d %b %Y"))
    assert fingerprint(DATED) == fingerprint(literal)
    assert fingerprint(DATED) != fingerprint(CHAT_TEMPLATE)


@pytest.mark.parametrize("quote", ["'", '"'])
def test_a_dated_template_writes_the_day_it_is_given(quote):
    target = with_template(ending_target(), DATED.replace("'%d %b %Y'", f"{quote}%d %b %Y{quote}"))
    texts = [
        target.tokenizer.decode(DatedTemplate(target, day).encode_chat(MESSAGES))
        for day in (date(2024, 2, 29), date(2031, 12, 1))
    ]
    assert [text.split("\n")[0] for text in texts] == ["29 Feb 2024", "01 Dec 2031"]
    plain = with_template(ending_target(), CHAT_TEMPLATE)
    assert DatedTemplate(plain, date(2024, 2, 29)).encode_chat(MESSAGES) == plain.encode_chat(MESSAGES)


def test_a_target_without_a_template_or_with_one_that_takes_no_system_message_has_no_fingerprint():
    assert fingerprint(None) is None
    assert target_of().identity.template_fingerprint("", "default") is None
    strict = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system') }}{% endif %}" + CHAT_TEMPLATE
    assert fingerprint(strict, "be brief") is None
    assert fingerprint(strict) == fingerprint(CHAT_TEMPLATE)


def state_of(model):
    return TransformersTarget(model, packed=False, check=False).identity.state_fingerprint()


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma3"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_same_weights_in_another_precision_have_nearly_the_same_states(family, dtype):
    model = zoo.tiny_model(family)
    found = state_of(model)
    assert len(found) == NUM_PROBE_TOKENS * NUM_DIRECTIONS
    assert found == state_of(model)
    other = state_of(copy.deepcopy(model).to(dtype))
    assert other != found
    assert state_difference(found, other) < MAX_STATE_DIFFERENCE


def test_other_weights_have_other_states():
    found = state_of(zoo.tiny_model("llama"))
    assert state_difference(found, state_of(zoo.tiny_model("qwen3"))) > 10 * MAX_STATE_DIFFERENCE
    tuned = zoo.build_model("llama")
    with torch.no_grad():  # one matrix of one layer, as an adapter changes it
        weight = tuned.model.layers[0].self_attn.v_proj.weight
        weight.add_(0.5 * weight.std() * torch.randn(weight.shape, generator=torch.manual_seed(0)))
    assert state_difference(found, state_of(tuned)) > MAX_STATE_DIFFERENCE


def test_states_of_another_number_never_count_as_equal():
    assert state_difference((1.0, 2.0), (1.0,)) == float("inf")
    assert state_difference((1.0, 2.0), (1.0, 2.0)) == 0.0
    assert state_difference((3.0, 4.0), (3.0, 4.5)) == pytest.approx(0.1)


def test_the_length_of_a_state_does_not_matter_and_its_direction_does():
    rows = torch.randn((5, 16), generator=torch.manual_seed(1))
    found = state_fingerprint(rows)
    assert state_difference(found, state_fingerprint(rows * 7)) < 1e-4
    assert state_difference(found, state_fingerprint(rows.roll(1, dims=1))) > MAX_STATE_DIFFERENCE
    assert state_fingerprint(torch.zeros((2, 16))) == (0.0,) * 2 * NUM_DIRECTIONS


@pytest.mark.parametrize("vocab_size", [96, 300, 49_152])
def test_probe_tokens_are_of_the_vocabulary_and_differ(vocab_size):
    tokens = probe_tokens(vocab_size)
    assert len(set(tokens)) == NUM_PROBE_TOKENS
    assert all(0 <= token < vocab_size for token in tokens)


def test_states_are_those_the_language_model_head_reads():
    target = target_of()
    tokens = torch.tensor([probe_tokens(zoo.VOCAB_SIZE)])
    rows = target.hidden_rows(tokens, torch.ones_like(tokens), FeatureSpec(layers=(-1,)))[0]
    assert target.identity.state_fingerprint() == state_fingerprint(rows)
