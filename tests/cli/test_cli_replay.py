import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from phrasedraft import Decoder, Stopping, load_target
from phrasedraft.cli.known_answer import KnownAnswerDrafter
from phrasedraft.corpus.answers import is_held_out, read_corpora
from phrasedraft.drafters import load_head
from phrasedraft.drafters.phrase_head import PhraseHead

NODES = (2, 6)
NUM_ANSWERS = 6
LENGTH = 20


@pytest.fixture(scope="module")
def corpus(llama, tmp_path_factory):
    """Answers of the tiny llama itself, one of them to the question the head was made from."""
    target = load_target(llama)
    plain = Decoder(target, KnownAnswerDrafter(), num_draft_tokens=0)
    lines = []
    for number, question in enumerate(["hello", *(f"question {number}" for number in range(NUM_ANSWERS - 1))]):
        prompt = target.encode_chat([{"role": "user", "content": question}])
        answer = plain.generate(prompt, stopping=Stopping(max_new_tokens=LENGTH)).tokens
        lines.append(json.dumps({"id": f"q-{number}", "prompt": list(prompt), "response": list(answer)}))
    path = tmp_path_factory.mktemp("corpus") / "answers.jsonl"
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def replayed(answer_of, head, corpus):
    """What `--json` gives for the corpus, with work in the test's own folder."""

    def call(*arguments):
        return answer_of("replay", head, "--corpus", str(corpus), "--nodes", "2,6", "--work", "work", *arguments)

    return call


def test_the_figures_are_those_of_live_decoding(replayed, llama, head, corpus):
    found = replayed()
    target, drafter = load_target(llama), load_head(head)
    for nodes in NODES:
        decoder = Decoder(target, drafter, num_draft_tokens=nodes)
        passes = accepted = 0
        for answer in read_corpora([corpus])[0].answers:
            live = decoder.generate(answer.prompt, stopping=Stopping(max_new_tokens=LENGTH))
            assert live.tokens == answer.response
            passes += live.stats.num_passes
            accepted += live.stats.num_accepted_tokens
        together = found["nodes"][str(nodes)]["together"]
        assert (together["num_passes"], together["num_accepted_tokens"]) == (passes, accepted)
        assert accepted > 0
        assert together["tokens_per_pass"] == pytest.approx(1 + accepted / passes)


def test_json_holds_every_figure_for_each_source_and_together(replayed, corpus, head, llama):
    other = Path("other.jsonl")
    other.write_text("\n".join(line.replace('"q-', '"r-') for line in corpus.read_text().splitlines()[:2]))
    found = replayed("--corpus", str(other))
    assert (found["head"], found["target"], found["temperature"]) == (head, llama, 1.0)
    assert {name: each["answers"] for name, each in found["sets"].items()} == {"answers": NUM_ANSWERS, "other": 2}
    for nodes in NODES:
        line = found["nodes"][str(nodes)]
        for name in ("num_passes", "num_accepted_tokens", "num_landings", "num_draft_tokens"):
            assert line["together"][name] == sum(each[name] for each in line["sets"].values())
        assert set(line["together"]) >= {
            "landing", "banked", "accepted_lengths", "positions", "categories", "whole_phrases", "calibration",
            "uncalibrated",
        }  # fmt: skip
        assert sum(line["together"]["accepted_lengths"].values()) == line["together"]["num_passes"]


def test_tables_fit_a_hundred_columns_and_show_what_was_accepted(run, head, corpus):
    result = run("replay", head, "--corpus", str(corpus), "--nodes", "2,6", "--work", "work")
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 100
    for word in ("tokens/pass", "landing", "banked", "ECE", "position", "kinds of phrases", "calibration"):
        assert word in result.stdout
    assert re.search(r"answers +2 +\d\.\d{3}", result.stdout)
    assert "traces" not in result.stdout


def test_a_second_run_uses_the_traces_again_and_says_the_same(run, head, corpus):
    arguments = ("replay", head, "--corpus", str(corpus), "--nodes", "4", "--work", "work")
    first, second = run(*arguments), run(*arguments)
    assert "are used again" not in first.stderr
    assert "are used again" in second.stderr
    assert first.stdout == second.stdout


def test_traces_are_kept_in_the_cache_folder_unless_said_otherwise(run, head, corpus, monkeypatch, tmp_path):
    monkeypatch.setenv("PHRASEDRAFT_CACHE", str(tmp_path / "cache"))
    assert run("replay", head, "--corpus", str(corpus), "--nodes", "4").exit_code == 0
    (folder,) = (tmp_path / "cache" / "replay").iterdir()
    assert folder.name.startswith("answers-")
    assert list(folder.glob("*.safetensors"))


def test_a_limit_takes_the_first_answers_with_traces_of_their_own(replayed):
    assert replayed("--limit", "2")["sets"]["answers"]["answers"] == 2
    assert replayed("--limit", "3")["sets"]["answers"]["answers"] == 3
    assert len(list(Path("work").iterdir())) == 2


def test_the_answers_a_head_was_trained_on_are_left_out_unless_asked_for(run, answer_of, head, corpus):
    (answers,) = read_corpora([corpus])
    share = 0.5
    held_out = [answer for answer in answers.answers if is_held_out(answer, share, 1)]
    assert 0 < len(held_out) < NUM_ANSWERS
    trained = PhraseHead.from_pretrained(head)
    provenance = {
        "data": [{"name": "answers", "sha256": answers.sha256}],
        "settings": {"held_out_share": share, "training": {"seed": 1}},
    }
    trained.config.provenance.update(provenance)
    trained.save_pretrained("trained")
    arguments = ("replay", "trained", "--corpus", str(corpus), "--nodes", "4", "--work", "work")
    result = run(*arguments)
    assert result.exit_code == 0, result.output
    assert f"its {len(held_out)} held-out answers of {NUM_ANSWERS} are replayed" in result.stderr
    assert answer_of(*arguments)["sets"]["answers"]["answers"] == len(held_out)
    assert answer_of(*arguments, "--trained-on")["sets"]["answers"]["answers"] == NUM_ANSWERS


def test_prompts_are_answered_by_the_target_first(answer_of, llama, head):
    Path("mine.jsonl").write_text('{"id": "a", "turns": ["hello"]}\n{"id": "b", "turns": ["you"]}\n')
    arguments = ("replay", head, "--prompts", "mine.jsonl", "--nodes", "6", "--max-new-tokens", "12", "--work", "work")
    found = answer_of(*arguments)
    assert (found["sets"]["mine"]["answers"], found["sets"]["mine"]["max_new_tokens"]) == (2, 12)
    target = load_target(llama)
    decoder = Decoder(target, load_head(head), num_draft_tokens=6)
    prompts = [target.encode_chat([{"role": "user", "content": text}]) for text in ("hello", "you")]
    live = [decoder.generate(prompt, stopping=Stopping(max_new_tokens=12)).stats for prompt in prompts]
    assert found["nodes"]["6"]["together"]["num_passes"] == sum(stats.num_passes for stats in live)
    assert found["nodes"]["6"]["together"]["num_accepted_tokens"] == sum(stats.num_accepted_tokens for stats in live)


def test_a_bundled_prompt_set_is_known_by_its_name(answer_of, head):
    arguments = ("--limit", "2", "--nodes", "4", "--max-new-tokens", "6", "--work", "work")
    found = answer_of("replay", head, "--prompts", "gsm8k_test", *arguments)
    assert found["sets"]["gsm8k_test"]["answers"] == 2


def test_pictures_are_drawn_where_they_are_asked_for(replayed):
    pytest.importorskip("matplotlib")
    found = replayed("--plots", "pictures")
    assert [Path(path).name for path in found["plots"]] == [
        "tokens-per-pass.png", "accepted-lengths.png", "reliability.png"
    ]  # fmt: skip
    assert all(Path(path).is_file() for path in found["plots"])


@pytest.mark.parametrize("nodes", ["0", "4,x", "4,4", ""])
def test_node_counts_that_cannot_be_are_refused(run, head, corpus, nodes):
    result = run("replay", head, "--corpus", str(corpus), "--nodes", nodes)
    assert result.exit_code == 2
    assert f"`--nodes` is `{nodes}`" in result.stderr


def test_no_prompts_and_no_answers_is_one_error(run, head):
    result = run("replay", head)
    assert result.exit_code == 2
    assert "there is nothing to replay" in result.stderr


def test_a_head_of_another_target_is_refused_before_anything_is_traced(run, head, corpus, wider):
    result = run("replay", head, "--corpus", str(corpus), "--target", wider, "--work", "work")
    assert result.exit_code == 2
    assert "was trained for hidden size" in result.stderr
    assert not Path("work").exists()


def test_a_target_that_is_gone_is_asked_for(run, head, corpus):
    moved = PhraseHead.from_pretrained(head)
    moved.config = replace(moved.config, target_name="nowhere")
    moved.save_pretrained("moved")
    result = run("replay", "moved", "--corpus", str(corpus), "--work", "work")
    assert result.exit_code == 2
    assert "give the target with `--target`" in result.stderr


def test_answers_with_tokens_the_target_does_not_have_are_refused(run, head):
    Path("foreign.jsonl").write_text('{"id": "a", "prompt": [1, 2], "response": [3, 99999]}')
    result = run("replay", head, "--corpus", "foreign.jsonl", "--work", "work")
    assert result.exit_code == 2
    assert "answer `a` of `foreign` holds token ids" in result.stderr
    assert not Path("work").exists()


@pytest.mark.filterwarnings("default")
def test_a_limit_of_tokens_without_prompts_warns(run, head, corpus):
    result = run("replay", head, "--corpus", str(corpus), "--nodes", "4", "--max-new-tokens", "9", "--work", "work")
    assert result.exit_code == 0
    assert "`--max-new-tokens` has no effect" in result.stderr


def test_help_shows_an_example(run):
    assert "phrasedraft replay smollm2-135m --corpus" in " ".join(run("replay", "--help").stdout.split())
