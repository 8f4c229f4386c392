"""How the prompts of a corpus were rendered is found out, and said where it is not how they will be served."""

import warnings
from pathlib import Path

import pytest

from answering import QUESTIONS, ending_target, question_file, quiet, with_template, write_jsonl
from kit import target_of
from phrasedraft.corpus.answers import read_corpora
from phrasedraft.corpus.distill import DistillSettings, distill
from phrasedraft.corpus.template import TemplateSettings
from phrasedraft.drafters.head_config import TrainedTemplate
from phrasedraft.training.origin import trained_template
from synthetic import SyntheticTarget
from texts import CHAT_TEMPLATE

OTHER_TEMPLATE = CHAT_TEMPLATE.replace("assistant\n", "assistant:")
SWITCH = CHAT_TEMPLATE + "{% if enable_thinking %}<think>{% endif %}"
NOTHING_KNOWN = TrainedTemplate()


def rendered(target, folder, name="corpus", questions=QUESTIONS, **arguments):
    """A corpus without a recipe, as another program writes it."""
    prompts = [target.encode_chat([{"role": "user", "content": text}], **arguments) for text in questions]
    records = [{"id": f"{name}-{i}", "prompt": prompt, "response": [7, 8]} for i, prompt in enumerate(prompts)]
    return write_jsonl(folder / f"{name}.jsonl", records)


def distilled(target, folder, name="corpus", **template):
    """A corpus with its recipe."""
    settings = DistillSettings(max_new_tokens=4, template=TemplateSettings(**template))
    path = folder / f"{name}.jsonl"
    distill(target, question_file(folder / "prompts", name=name), settings, path, console=quiet())
    return path


def found(target, *paths: Path):
    corpora = [corpus for path in paths for corpus in read_corpora([path])]
    return trained_template(target, target.identity, corpora, paths)


@pytest.fixture
def silent():
    """Warnings are wrong here."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.mark.usefixtures("silent")
def test_prompts_in_the_targets_own_template_are_recognised_without_a_recipe(tmp_path):
    target = ending_target()
    expected = TrainedTemplate(fingerprint=target.identity.template_fingerprint("", "default"))
    assert found(target, rendered(target, tmp_path)) == expected


@pytest.mark.usefixtures("silent")
def test_later_turns_of_a_conversation_are_recognised_too(tmp_path):
    target = ending_target()
    conversation = [
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": "yes?"},
        {"role": "user", "content": "1 + 1"},
    ]
    path = write_jsonl(
        tmp_path / "turns.jsonl", [{"id": "a#2", "prompt": target.encode_chat(conversation), "response": [7]}]
    )
    assert found(target, path).fingerprint is not None


def test_prompts_rendered_by_another_template_warn_and_are_not_recorded(tmp_path):
    path = rendered(with_template(ending_target(), OTHER_TEMPLATE), tmp_path)
    with pytest.warns(UserWarning, match="100% of the prompts of `corpus` are not what the chat template of `tiny`"):
        assert found(ending_target(), path) == NOTHING_KNOWN


def test_prompts_without_what_opens_the_answer_warn(tmp_path):
    target = ending_target()
    prompts = [
        target.tokenizer.apply_chat_template([{"role": "user", "content": text}], return_dict=False)
        for text in QUESTIONS
    ]
    records = [{"id": f"q{index}", "prompt": prompt, "response": [7]} for index, prompt in enumerate(prompts)]
    with pytest.warns(UserWarning, match="100% of the prompts of `bare`"):
        assert found(target, write_jsonl(tmp_path / "bare.jsonl", records)) == NOTHING_KNOWN


def test_a_few_odd_prompts_are_passed_over_and_more_are_not(tmp_path):
    target = ending_target()
    lines = rendered(target, tmp_path, questions=[f"question {number}" for number in range(19)]).read_text()
    odd = '{"id": "odd", "prompt": [1, 2, 3], "response": [7]}\n'
    few = tmp_path / "few.jsonl"
    few.write_text(lines + odd)
    assert found(target, few).fingerprint is not None
    many = tmp_path / "many.jsonl"
    many.write_text("".join(lines.splitlines(keepends=True)[:4]) + odd)
    with pytest.warns(UserWarning, match="20% of the prompts of `many`"):
        assert found(target, many) == NOTHING_KNOWN


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("settings", [{}, {"system_prompt": "be brief"}, {"thinking": "on"}])
def test_a_recipe_beside_the_corpus_says_what_was_used(tmp_path, settings):
    target = with_template(ending_target(), SWITCH)
    template = found(target, distilled(target, tmp_path, **settings))
    expected = TemplateSettings(**settings)
    assert (template.system_prompt, template.thinking) == (expected.system_prompt, expected.thinking)
    assert template.fingerprint == target.identity.template_fingerprint(expected.system_prompt, expected.thinking)


def test_a_recipe_of_another_template_warns_and_is_recorded(tmp_path):
    made_with = with_template(ending_target(), OTHER_TEMPLATE)
    path = distilled(made_with, tmp_path)
    with pytest.warns(UserWarning, match="`corpus` was made with another chat template than `tiny` has now"):
        template = found(ending_target(), path)
    assert template.fingerprint == made_with.identity.template_fingerprint("", "default")


def test_corpora_that_differ_in_their_template_warn_and_nothing_is_recorded(tmp_path):
    target = with_template(ending_target(), SWITCH)
    paths = [distilled(target, tmp_path, "brief", system_prompt="be brief"), distilled(target, tmp_path, "plain")]
    with pytest.warns(UserWarning, match="the corpora were made with different templates"):
        assert found(target, *paths) == NOTHING_KNOWN


@pytest.mark.usefixtures("silent")
def test_corpora_of_one_template_are_of_one_origin_with_a_recipe_or_without(tmp_path):
    target = ending_target()
    paths = [distilled(target, tmp_path, "made"), rendered(target, tmp_path, "given")]
    assert found(target, *paths).fingerprint == target.identity.template_fingerprint("", "default")


@pytest.mark.usefixtures("silent")
@pytest.mark.parametrize("target", [SyntheticTarget(), with_template(ending_target(), None), target_of()])
def test_a_target_without_a_template_has_nothing_to_compare_with(tmp_path, target):
    path = write_jsonl(tmp_path / "plain.jsonl", [{"id": "a", "prompt": [1, 2], "response": [7]}])
    assert found(target, path) == NOTHING_KNOWN
