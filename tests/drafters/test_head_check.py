"""A head says at load what about a target is not what it was trained on."""

import copy
import json
import warnings
from dataclasses import replace

import pytest
import torch

from answering import ending_target, with_template
from phrasedraft import Decoder, TransformersTarget
from phrasedraft.drafters.head_check import check_head
from phrasedraft.drafters.head_config import HeadConfig, TrainedTemplate
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.errors import HeadFileError, HeadMismatchError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from texts import CHAT_TEMPLATE

OTHER_TEMPLATE = CHAT_TEMPLATE.replace("assistant\n", "assistant:")
THINKING = CHAT_TEMPLATE + (
    "{% if add_generation_prompt and (enable_thinking is not defined or enable_thinking) %}<think>{% endif %}"
)


def template_of(target, system_prompt="", thinking="default"):
    """What training under these settings writes down."""
    return TrainedTemplate(
        fingerprint=target.identity.template_fingerprint(system_prompt, thinking),
        system_prompt=system_prompt,
        thinking=thinking,
    )


def config_for(target, **changes):
    identity = target.identity
    return HeadConfig(
        **{
            "target_name": identity.name,
            "target_hidden_size": identity.hidden_size,
            "target_vocab_size": identity.vocab_size,
            "tokenizer_fingerprint": identity.tokenizer_fingerprint(identity.vocab_size),
            "state_fingerprint": identity.state_fingerprint(),
            "template": template_of(target),
            "trunk_width": 8,
            **changes,
        }
    )


def head_of(config):
    vocabulary = PhraseVocabulary.from_phrases([(5,), (5, 6)])
    size = config.target_hidden_size
    scorer = PhraseScorer(feature_size=size, hidden_size=size, num_phrases=2, trunk_width=config.trunk_width)
    return PhraseHead(scorer=scorer, vocabulary=vocabulary, config=config)


def said(config, target):
    """What the check warns of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_head("mine", config, target.identity)
    return [str(warning.message) for warning in caught]


def tuned(target):
    """The same target after some training."""
    model = copy.deepcopy(target.model)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * parameter.std() * torch.randn(parameter.shape, generator=torch.manual_seed(0)))
    return TransformersTarget(model, target.tokenizer, packed=False, check=False, name="tuned")


def test_the_target_a_head_was_trained_on_is_taken_without_a_word_saved_or_not(tmp_path):
    target = ending_target()
    head = head_of(config_for(target))
    assert said(head.config, target) == []
    head.save_pretrained(tmp_path)
    loaded = PhraseHead.from_pretrained(tmp_path)
    assert loaded.config == head.config
    assert said(loaded.config, target) == []


def test_other_weights_are_warned_of_with_how_far_they_are(tmp_path):
    target = ending_target()
    head_of(config_for(target)).save_pretrained(tmp_path)
    (message,) = said(PhraseHead.from_pretrained(tmp_path).config, tuned(target))
    assert "target `tuned` gives other hidden states" in message
    assert "a fine-tune, an adapter, another revision or precision" in message


def test_the_same_weights_in_bfloat16_are_taken_without_a_word():
    target = ending_target()
    half = TransformersTarget(copy.deepcopy(target.model).bfloat16(), target.tokenizer, check=False)
    assert said(config_for(target), half) == []


def test_a_head_that_was_trained_under_another_template_warns_when_it_is_put_to_work():
    trained = with_template(ending_target(), OTHER_TEMPLATE)
    head = head_of(config_for(trained))
    with pytest.warns(UserWarning, match="the chat template of target `tiny` is not the one the head was trained with"):
        Decoder(ending_target(), head)
    assert said(head.config, trained) == []


def test_a_template_that_changes_what_it_writes_before_the_answer_only_is_noticed():
    assert said(config_for(ending_target()), with_template(ending_target(), CHAT_TEMPLATE + " ")) != []


def test_thinking_switched_off_in_training_and_on_by_default_is_warned_of_with_the_switch():
    target = with_template(ending_target(), THINKING)
    (message,) = said(config_for(target, template=template_of(target, thinking="off")), target)
    assert "thinking switch `off`" in message
    assert "pass `enable_thinking=False` to its template" in message
    assert said(config_for(target, template=template_of(target, thinking="on")), target) == []


def test_the_system_prompt_of_the_training_is_no_other_template():
    target = ending_target()
    assert said(config_for(target, template=template_of(target, "be brief")), target) == []


@pytest.mark.parametrize(
    ("changes", "template"),
    [
        ({"template": TrainedTemplate()}, OTHER_TEMPLATE),  # what the head was trained with is not known
        ({}, None),  # the target has none: its prompts are plain text, or ids
    ],
)
def test_what_is_not_known_is_not_complained_about(changes, template):
    assert said(config_for(ending_target(), **changes), with_template(ending_target(), template)) == []


def test_a_target_without_a_tokenizer_is_taken():
    target = ending_target()
    assert said(config_for(target), TransformersTarget(target.model, check=False)) == []


def test_heads_from_before_fingerprints_are_taken(tmp_path):
    target = ending_target()
    head_of(config_for(target)).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    envelope = json.loads(path.read_text())
    for name in ("state_fingerprint", "template"):
        del envelope["speculators_config"]["verifier"][name]
    path.write_text(json.dumps(envelope))
    config = PhraseHead.from_pretrained(tmp_path).config
    assert (config.state_fingerprint, config.template) == ((), TrainedTemplate())
    assert said(config, tuned(target)) == []


def test_states_of_another_number_are_not_taken_for_the_same():
    target = ending_target()
    config = config_for(target)
    (message,) = said(replace(config, state_fingerprint=config.state_fingerprint[:-1]), target)
    assert "other hidden states" in message


def test_a_template_that_is_not_understood_is_refused(tmp_path):
    head_of(config_for(ending_target())).save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    envelope = json.loads(path.read_text())
    envelope["speculators_config"]["verifier"]["template"] = {"jinja": "{{ x }}"}
    path.write_text(json.dumps(envelope))
    with pytest.raises(HeadFileError, match=r"`template` in .* may hold fingerprint, system_prompt, thinking"):
        PhraseHead.from_pretrained(tmp_path)


def test_a_tokenizer_with_other_entries_is_refused_before_anything_is_compared():
    target = ending_target()
    with pytest.raises(HeadMismatchError, match="was trained for tokenizer `else`"):
        check_head("mine", config_for(target, tokenizer_fingerprint="else"), target.identity)
