import io
import random
from datetime import date

import pytest
import torch
from rich.console import Console

from answering import ending_target, lines_of, quiet, with_template
from completions import Completions, served
from phrasedraft import Choice
from phrasedraft.corpus.distill import DistillSettings, distill, seed_of
from phrasedraft.corpus.endpoint import Endpoint, EndpointSettings
from phrasedraft.corpus.prompts import read_prompts
from phrasedraft.corpus.self_prompts import SelfPromptSettings, make_prompts, user_turn
from phrasedraft.corpus.template import TemplateSettings
from phrasedraft.errors import DataError, OptionError, PromptError
from phrasedraft.target.batching import answer_batch
from texts import prefix_space_tokenizer

TODAY = date(2026, 1, 2)
SMALL = SelfPromptSettings(max_new_tokens=10, batch_size=4)
INST = "{% for message in messages %}[INST] {{ message.content }} [/INST]{% endfor %}"


def made(target, count, path, settings=SMALL, **arguments):
    return make_prompts(target, count, settings, path, console=quiet(), **arguments)


def test_a_prompt_is_what_the_target_samples_where_the_users_turn_begins(tmp_path):
    target = ending_target()
    file = made(target, 6, tmp_path / "self.jsonl")
    start = user_turn(target, TemplateSettings(), TODAY).start
    assert target.tokenizer.decode(start) == "<|im_start|>user\n"
    assert file == read_prompts(tmp_path / "self.jsonl")
    for prompt, line in zip(file.prompts, lines_of(tmp_path / "self.jsonl"), strict=True):
        assert (line["id"], line["source"]) == (prompt.id, "self")
        choice = Choice(temperature=1.0, top_p=0.95, seed=seed_of(0, prompt.id))
        (tokens,) = answer_batch(target, [start], max_new_tokens=10, choices=[choice])
        end = next((index for index, token in enumerate(tokens) if token <= 2), len(tokens))  # the special ones
        assert line["turns"] == [target.tokenizer.decode(tokens[:end]).replace("\ufffd", "").strip()]


def test_no_prompt_is_empty_or_there_twice(tmp_path):
    target = ending_target(gain=2.0)
    file = made(target, 20, tmp_path / "self.jsonl", SelfPromptSettings(max_new_tokens=3, batch_size=4))
    contents = [prompt.opening[0].content for prompt in file.prompts]
    assert len(set(contents)) == 20
    assert all(content.strip() for content in contents)
    numbers = [int(prompt.id.removeprefix("self-")) for prompt in file.prompts]
    assert numbers == sorted(numbers)
    assert numbers[-1] > 19, "none was left out, so the test shows nothing"


def test_a_file_cut_anywhere_is_finished_to_the_same_bytes(tmp_path):
    target, path = ending_target(), tmp_path / "self.jsonl"
    made(target, 10, path)
    whole = path.read_bytes()
    for cut in [*random.Random(0).sample(range(len(whole)), 6), 0, len(whole)]:
        path.write_bytes(whole[:cut])
        made(target, 10, path)
        assert path.read_bytes() == whole


def test_another_seed_gives_other_prompts_and_another_recipe_is_refused(tmp_path):
    target, path = ending_target(), tmp_path / "self.jsonl"
    first = made(target, 6, path)
    other = SelfPromptSettings(max_new_tokens=10, batch_size=4, seed=1)
    assert made(target, 6, tmp_path / "other.jsonl", other).prompts != first.prompts
    before = path.read_bytes()
    with pytest.raises(DataError, match=r"`settings\.seed` is `1`, was `0`"):
        made(target, 6, path, other)
    with pytest.raises(DataError, match=r"`count` is `7`, was `6`"):
        made(target, 7, path)
    assert path.read_bytes() == before


def test_the_target_answers_its_own_prompts(tmp_path):
    target = ending_target()
    prompts = made(target, 4, tmp_path / "self.prompts.jsonl")
    corpus = distill(target, prompts, DistillSettings(max_new_tokens=6), tmp_path / "self.jsonl", console=quiet())
    assert [answer.id for answer in corpus.answers] == [prompt.id for prompt in prompts.prompts]


def test_a_target_without_a_template_makes_texts(tmp_path):
    target = ending_target(chat=False)
    file = made(target, 3, tmp_path / "self.jsonl")
    assert all(prompt.text and not prompt.opening for prompt in file.prompts)
    assert user_turn(target, TemplateSettings(), TODAY).start == (min(target.eos_token_ids),)
    with pytest.warns(UserWarning, match="`thinking` and `system_prompt` have no effect"):
        user_turn(target, TemplateSettings(thinking="on"), TODAY)
    with_beginning = type(target)(target.model, prefix_space_tokenizer(), packed=False, check=False)
    assert user_turn(with_beginning, TemplateSettings(), TODAY).start == (prefix_space_tokenizer().bos_token_id,)


def test_the_users_turn_begins_after_a_system_prompt_and_no_token_of_the_content_is_in_it():
    target = ending_target()
    start = user_turn(target, TemplateSettings(system_prompt="be brief"), TODAY).start
    assert target.tokenizer.decode(start) == "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\n"
    words = type(target)(target.model, prefix_space_tokenizer(), packed=False, check=False)
    turn = user_turn(with_template(words, "user: {{ messages[0].content }} answer:"), TemplateSettings(), TODAY)
    assert words.tokenizer.decode(turn.start).strip() == "user:"
    assert turn.after == "answer:"


def test_where_no_special_token_ends_the_users_turn_the_templates_own_text_does(tmp_path):
    target = with_template(ending_target(), INST)
    assert user_turn(target, TemplateSettings(), TODAY).after == "[/INST]"
    said = target.tokenizer.encode("sea shells [/INST] an answer")

    def answerer(questions, on_tokens):
        assert target.tokenizer.decode(questions[0].prompt) == "[INST] "
        return [said for _ in questions]

    file = made(target, 1, tmp_path / "self.jsonl", answerer=answerer)
    assert file.prompts[0].opening[0].content == "sea shells"


def test_a_template_that_hides_the_users_turn_is_refused(tmp_path):
    target = with_template(ending_target(), "{{ messages | length }} messages")
    with pytest.raises(PromptError, match="does not show where a user's turn begins"):
        made(target, 2, tmp_path / "self.jsonl")
    assert list(tmp_path.iterdir()) == []


def test_a_target_that_says_the_same_again_and_again_is_an_error(tmp_path):
    narrow = SelfPromptSettings(max_new_tokens=2, batch_size=4, top_k=1)
    with pytest.raises(DataError, match="32 sampled turns gave 1 different prompts of the 4 asked for"):
        made(ending_target(), 4, tmp_path / "self.jsonl", narrow)


def test_settings_that_cannot_be_are_refused(tmp_path):
    with pytest.raises(OptionError, match="all prompts would be the same"):
        SelfPromptSettings(temperature=0.0)
    with pytest.raises(OptionError, match=r"`top_p` is `2\.0`"):
        SelfPromptSettings(top_p=2.0)
    with pytest.raises(OptionError, match="the number of prompts is `0`"):
        made(ending_target(), 0, tmp_path / "self.jsonl")


def test_a_server_makes_the_prompts_the_target_makes_here(tmp_path):
    server = Completions(ending_target())
    with (
        served(server) as url,
        Endpoint(server.target, SMALL.as_distill, EndpointSettings(url=url, model="tiny")) as endpoint,
    ):
        far = made(server.target, 6, tmp_path / "far.jsonl", answerer=endpoint.answerer, made_by={"model": "tiny"})
    assert far.prompts == made(server.target, 6, tmp_path / "near.jsonl").prompts


def test_progress_counts_prompts_and_tokens(tmp_path):
    console = Console(file=io.StringIO())
    make_prompts(ending_target(), 5, SMALL, tmp_path / "self.jsonl", console=console)
    assert "5/5" in console.file.getvalue()
    assert "tokens/s" in console.file.getvalue()


def test_sampling_leaves_the_global_random_state_alone(tmp_path):
    before = torch.random.get_rng_state()
    made(ending_target(), 2, tmp_path / "self.jsonl")
    assert torch.equal(torch.random.get_rng_state(), before)
