import copy
import json
import os
import random
import signal
import subprocess
import sys
import time
from datetime import date

import pytest
import torch
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

import kit
from answering import QUESTIONS, ending_target, lines_of, question_file, quiet, with_template, write_jsonl
from phrasedraft import Choice, Stopping
from phrasedraft.corpus.answers import Answer, is_held_out, read_corpora
from phrasedraft.corpus.block_file import read_recipe
from phrasedraft.corpus.distill import DistillSettings, distill, seed_of
from phrasedraft.corpus.prompts import read_prompts
from phrasedraft.corpus.template import TemplateSettings
from phrasedraft.errors import DataError, OptionError, PromptError

SMALL = DistillSettings(max_new_tokens=12, batch_size=2)
SAMPLED = DistillSettings(max_new_tokens=12, batch_size=2, temperature=1.0, top_p=0.9, top_k=40, seed=3)


@pytest.fixture
def prompts(tmp_path):
    return question_file(tmp_path / "prompts")


def answered(target, prompts, settings, path):
    return distill(target, prompts, settings, path, console=quiet())


def ids_of(target, text):
    return target.encode_chat([{"role": "user", "content": text}])


def test_greedy_answers_are_what_the_target_decodes_alone(tmp_path, prompts):
    target = ending_target()
    corpus = answered(target, prompts, SMALL, tmp_path / "answers.jsonl")
    assert [answer.id for answer in corpus.answers] == [prompt.id for prompt in prompts.prompts]
    for answer, question in zip(corpus.answers, QUESTIONS, strict=True):
        alone = kit.plain(target, prompt=ids_of(target, question), stopping=Stopping(max_new_tokens=12))
        assert list(answer.prompt) == ids_of(target, question)
        assert answer.response == tuple(alone.tokens)
    assert corpus == read_corpora([tmp_path / "answers.jsonl"])[0]


def test_an_answer_says_whether_it_stopped_or_was_cut_at_the_limit(tmp_path, prompts):
    target = ending_target()
    answered(target, prompts, SMALL, tmp_path / "answers.jsonl")
    lines = lines_of(tmp_path / "answers.jsonl")
    assert {line["finish"] for line in lines} == {"stop", "length"}
    for line in lines:
        assert (line["response"][-1] in target.eos_token_ids) == (line["finish"] == "stop")
        assert line["finish"] == "stop" or len(line["response"]) == 12


def test_a_sampled_answer_has_its_own_seed_whatever_is_in_the_batch(tmp_path, prompts):
    target = ending_target()
    batches = [
        answered(target, prompts, DistillSettings(**{**vars(SAMPLED), "batch_size": size}), tmp_path / f"{size}.jsonl")
        for size in (1, 2, 6)
    ]
    assert batches[0].answers == batches[1].answers == batches[2].answers
    choice = Choice(temperature=1.0, top_p=0.9, top_k=40, seed=seed_of(3, "q2"))
    alone = kit.plain(target, choice, Stopping(max_new_tokens=12), prompt=ids_of(target, QUESTIONS[2]))
    assert batches[0].answers[2].response == tuple(alone.tokens)
    other = answered(target, prompts, DistillSettings(**{**vars(SAMPLED), "seed": 4}), tmp_path / "other.jsonl")
    assert other.answers != batches[0].answers


def test_every_turn_is_answered_in_order_and_sees_the_targets_own_answers(tmp_path):
    target = ending_target()
    records = [{"id": "a", "turns": ["one", "two", "three"]}, {"id": "b", "turns": ["solo"]}, {"id": "c", "text": "so"}]
    prompts = read_prompts(write_jsonl(tmp_path / "turns.jsonl", records))
    corpus = answered(target, prompts, SMALL, tmp_path / "answers.jsonl")
    assert [answer.id for answer in corpus.answers] == ["a", "a#2", "a#3", "b", "c"]
    messages = []
    for answer, turn in zip(corpus.answers, ("one", "two", "three"), strict=False):
        messages.append({"role": "user", "content": turn})
        assert list(answer.prompt) == target.encode_chat(messages)
        messages.append(
            {"role": "assistant", "content": target.tokenizer.decode(answer.response, skip_special_tokens=True)}
        )
    assert list(corpus.answers[4].prompt) == target.encode("so")


def test_the_answers_of_one_conversation_are_on_one_side_of_the_split():
    def side(name):
        return is_held_out(Answer(id=name, prompt=(1,), response=(2,)), 0.5, 0)

    assert {side(f"a#{turn}") for turn in range(2, 30)} == {side("a")}
    assert len({side(f"a{number}") for number in range(30)}) == 2


def test_the_settings_of_the_template_reach_the_prompt_and_lie_in_the_recipe(tmp_path, prompts):
    target = ending_target()
    settings = DistillSettings(max_new_tokens=4, template=TemplateSettings(system_prompt="be brief"))
    corpus = answered(target, prompts, settings, tmp_path / "answers.jsonl")
    assert "be brief" in target.tokenizer.decode(corpus.answers[0].prompt)
    recipe = read_recipe(tmp_path / "answers.jsonl")
    assert recipe["settings"]["template"]["system_prompt"] == "be brief"
    assert recipe["prompts"] == {"name": "questions", "sha256": prompts.sha256}
    assert recipe["target"] == "tiny"
    assert recipe["tokenizer_fingerprint"] == target.identity.tokenizer_fingerprint(target.identity.vocab_size)


@pytest.mark.parametrize("settings", [SMALL, SAMPLED], ids=["greedy", "sampled"])
def test_a_file_cut_anywhere_is_finished_to_the_same_bytes(tmp_path, prompts, settings):
    target, path = ending_target(), tmp_path / "answers.jsonl"
    whole_corpus = answered(target, prompts, settings, path)
    whole = path.read_bytes()
    for cut in [*random.Random(0).sample(range(len(whole)), 12), 0, len(whole) - 1, len(whole)]:
        path.write_bytes(whole[:cut])
        assert answered(target, prompts, settings, path) == whole_corpus
        assert path.read_bytes() == whole


def test_whole_blocks_are_kept_and_a_part_of_one_is_done_again(tmp_path, prompts):
    target, path = ending_target(), tmp_path / "answers.jsonl"
    answered(target, prompts, SMALL, path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:5]) + lines[5][:40])  # two whole blocks, one line and a part of one
    asked = []
    hook = target.network.register_forward_pre_hook(
        lambda _, __, keywords: asked.append(keywords["input_ids"].shape[0]), with_kwargs=True
    )
    console = quiet()
    distill(target, prompts, SMALL, path, console=console)
    assert path.read_bytes() == b"".join(lines)
    assert max(asked) == 2
    assert "going on after 4 of 6 answers" in console.file.getvalue()
    asked.clear()
    answered(target, prompts, SMALL, path)
    hook.remove()
    assert asked == []


def test_a_run_that_goes_on_another_day_keeps_the_first_ones_date(tmp_path, prompts):
    target = with_template(ending_target(), "{{ strftime_now('%Y') }} " + ending_target().tokenizer.chat_template)
    path = tmp_path / "answers.jsonl"
    answered(target, prompts, SMALL, path)
    recipe_path = tmp_path / "answers.jsonl.recipe.json"
    recipe = json.loads(recipe_path.read_text())
    assert recipe["date"] == date.today().isoformat()
    recipe_path.write_text(json.dumps(recipe | {"date": "1999-12-31"}))
    path.write_bytes(b"")
    corpus = answered(target, prompts, SMALL, path)
    assert target.tokenizer.decode(corpus.answers[0].prompt).startswith("1999 ")


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"temperature": 0.7}, r"`settings\.temperature` is `0\.7`, was `0\.0`"),
        ({"max_new_tokens": 8}, r"`settings\.max_new_tokens` is `8`, was `12`"),
        (
            {"template": TemplateSettings(system_prompt="x")},
            r"`settings\.template\.system_prompt` is `x`, was ``.*fingerpr",
        ),
        ({"questions": ["other"]}, r"`prompts\.sha256` is"),
        ({"tokens": True}, r"`tokenizer_fingerprint` is"),
    ],
)
def test_another_recipe_is_refused_and_nothing_is_lost(tmp_path, prompts, change, named):
    target, path = ending_target(), tmp_path / "answers.jsonl"
    answered(target, prompts, SMALL, path)
    path.write_bytes(path.read_bytes()[:-20])
    before = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()}
    if "questions" in change:
        prompts = question_file(tmp_path / "other", change.pop("questions"))
    if change.pop("tokens", False):
        target = type(target)(target.model, swapped(target.tokenizer), packed=False, check=False, name="tiny")
    with pytest.raises(DataError, match=named) as caught:
        answered(target, prompts, DistillSettings(**{**vars(SMALL), **change}), path)
    assert str(path) in str(caught.value)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.is_file()} == before


def test_a_recipe_without_answers_may_be_replaced(tmp_path, prompts):
    target, path = ending_target(), tmp_path / "answers.jsonl"
    answered(target, prompts, SMALL, path)
    path.unlink()
    other = DistillSettings(max_new_tokens=4, batch_size=2)
    answered(target, prompts, other, path)
    assert read_recipe(path)["settings"]["max_new_tokens"] == 4


def test_answers_without_a_recipe_and_damage_in_the_middle_are_refused_and_left_alone(tmp_path, prompts):
    target, path = ending_target(), tmp_path / "answers.jsonl"
    path.write_text("somebody's file\n")
    with pytest.raises(DataError, match="exists, but not the recipe"):
        answered(target, prompts, SMALL, path)
    assert path.read_text() == "somebody's file\n"
    assert [file.name for file in tmp_path.iterdir() if file.is_file()] == ["answers.jsonl"]
    path.unlink()
    answered(target, prompts, SMALL, path)
    damaged = path.read_bytes().replace(b"{", b"#", 1)
    path.write_bytes(damaged)
    with pytest.raises(DataError, match="line 1 is damaged, and whole lines follow it"):
        answered(target, prompts, SMALL, path)
    assert path.read_bytes() == damaged
    (tmp_path / "answers.jsonl.recipe.json").write_text("{")
    with pytest.raises(DataError, match=r"recipe\.json` cannot be read"):
        answered(target, prompts, SMALL, path)


def test_prompts_without_room_in_the_context_are_left_out_and_counted(tmp_path):
    target = ending_target(max_position_embeddings=128)
    prompts = question_file(tmp_path / "prompts", ["short", "long " * 100, "also short"])
    path = tmp_path / "answers.jsonl"
    with pytest.warns(UserWarning, match=r"1 of 3 answers were left out: prompt and `max_new_tokens` 12 .* 128 tokens"):
        corpus = answered(target, prompts, SMALL, path)
    assert [answer.id for answer in corpus.answers] == ["q0", "q2"]
    with pytest.warns(UserWarning, match="1 of 3 answers were left out"):
        answered(target, prompts, SMALL, path)  # the count is kept with the answers
    with pytest.raises(DataError, match="none of the 3 answers can be given"):
        answered(target, prompts, DistillSettings(max_new_tokens=128), tmp_path / "none.jsonl")


def test_a_conversation_that_outgrows_the_context_keeps_the_turns_that_fit(tmp_path):
    target = ending_target(max_position_embeddings=128)
    record = {"id": "a", "turns": ["one", "two", "long " * 100, "four"]}
    prompts = read_prompts(write_jsonl(tmp_path / "turns.jsonl", [record]))
    with pytest.warns(UserWarning, match="2 of 4 answers were left out"):
        corpus = answered(target, prompts, SMALL, tmp_path / "answers.jsonl")
    assert [answer.id for answer in corpus.answers] == ["a", "a#2"]


def test_answers_that_are_all_empty_are_an_error(tmp_path, prompts):
    target = ending_target()
    mute = type(target)(forced_to_end(target), target.tokenizer, packed=False, check=False, name="tiny")
    with pytest.raises(DataError, match=r"all 6 answers in .* are empty: the target ends its turn at once"):
        answered(mute, prompts, SMALL, tmp_path / "answers.jsonl")


def test_a_conversation_for_a_target_without_template_leaves_nothing_behind(tmp_path, prompts):
    with pytest.raises(PromptError, match="no chat template"):
        answered(ending_target(chat=False), prompts, SMALL, tmp_path / "answers.jsonl")
    assert [file.name for file in tmp_path.iterdir()] == ["prompts"]


def test_a_tokenizer_that_writes_ids_the_target_lacks_is_refused(tmp_path, prompts):
    target = ending_target()
    smaller = type(target)(kit.zoo.tiny_model("llama"), target.tokenizer, packed=False, check=False, name="other")
    with pytest.raises(PromptError, match="target `other` has ids 0 to 95"):
        answered(smaller, prompts, SMALL, tmp_path / "answers.jsonl")


def test_settings_that_cannot_be_are_refused_and_those_without_effect_warn(tmp_path, prompts):
    for wrong in (
        {"max_new_tokens": 0},
        {"temperature": -1.0},
        {"top_p": 0.0},
        {"top_k": -1},
        {"batch_size": 0},
        {"seed": -1},
    ):
        with pytest.raises(OptionError, match=f"`{next(iter(wrong))}` is"):
            DistillSettings(**wrong)
    with pytest.warns(UserWarning, match="with `temperature` 0, `top_p` and `top_k` have no effect"):
        answered(ending_target(), prompts, DistillSettings(max_new_tokens=2, top_k=3), tmp_path / "answers.jsonl")


def test_a_full_disk_is_one_clear_error(tmp_path, prompts, monkeypatch):
    def full(handle, data):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", full)
        with pytest.raises(DataError, match="cannot be written: No space left on device"):
            answered(ending_target(), prompts, SMALL, tmp_path / "answers.jsonl")
    assert len(answered(ending_target(), prompts, SMALL, tmp_path / "answers.jsonl").answers) == 6


def test_progress_shows_answers_and_a_rate(tmp_path, prompts):
    console = quiet()
    distill(ending_target(), prompts, SMALL, tmp_path / "answers.jsonl", console=console)
    assert "6/6" in console.file.getvalue()
    assert "tokens/s" in console.file.getvalue()


KILLED = """
import sys
from pathlib import Path
import torch
torch.set_num_threads(1)
from phrasedraft import load_target
from phrasedraft.corpus.distill import DistillSettings, distill
from phrasedraft.corpus.prompts import read_prompts
target, prompts, path = sys.argv[1:]
settings = DistillSettings(max_new_tokens=200, batch_size=4, temperature=1.0)
distill(load_target(target), read_prompts(Path(prompts)), settings, Path(path))
"""


@pytest.mark.slow
def test_a_run_killed_in_the_middle_of_a_block_and_started_again_gives_the_same_bytes(tmp_path):
    folder = tmp_path / "target"
    ending_target(gain=0.5).model.save_pretrained(folder)
    ending_target().tokenizer.save_pretrained(folder)
    prompts = tmp_path / "prompts.jsonl"
    write_jsonl(prompts, [{"prompt": f"question {number}"} for number in range(24)])

    def start(name):
        arguments = [sys.executable, "-c", KILLED, str(folder), str(prompts), str(tmp_path / name)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        return subprocess.Popen(arguments, env=environment, stderr=subprocess.DEVNULL)

    path = tmp_path / "killed.jsonl"
    run = start("killed.jsonl")
    while not path.exists() or path.read_bytes().count(b"\n") < 4:
        assert run.poll() is None, "the run ended before it was killed"
        time.sleep(0.01)
    run.send_signal(signal.SIGKILL)
    run.wait()
    assert 4 <= path.read_bytes().count(b"\n") < 24
    assert start("killed.jsonl").wait() == 0
    assert start("whole.jsonl").wait() == 0
    assert path.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()
    assert path.read_bytes().count(b"\n") == 24


def forced_to_end(target):
    """The target's model with a head that gives the end of the turn always."""
    model = copy.deepcopy(target.model)
    with torch.no_grad():
        head = model.get_output_embeddings()
        head.bias = torch.nn.Parameter(torch.zeros(head.out_features))
        head.bias[target.tokenizer.eos_token_id] = 1e4
    return model


def swapped(tokenizer):
    """The tokenizer with the names of two tokens exchanged."""
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    vocabulary = state["model"]["vocab"]
    vocabulary["a"], vocabulary["b"] = vocabulary["b"], vocabulary["a"]
    template = tokenizer.chat_template
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(state)), eos_token="<|im_end|>", chat_template=template
    )
