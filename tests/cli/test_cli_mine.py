import json
import os
from pathlib import Path

import pytest

from phrasedraft import load_target
from phrasedraft.corpus.answers import is_held_out, read_corpora
from phrasedraft.phrases import PhraseVocabulary
from phrasedraft.target.loading import load_tokenizer

SETTINGS = ["--set", "num_phrases=60"]
TEXTS = ("the answer is the number of apples", "the number of apples is four", "so the answer is four")


@pytest.fixture(scope="module")
def corpus(llama, tmp_path_factory):
    """Answers in the tokens of the tiny llama."""
    tokenizer, _ = load_tokenizer(llama)
    lines = []
    for number in range(12):
        response = tokenizer.encode(TEXTS[number % 3], add_special_tokens=False)
        lines.append(json.dumps({"id": f"q-{number}", "prompt": [1], "response": response}))
    path = tmp_path_factory.mktemp("corpus") / "answers.jsonl"
    path.write_text("\n".join(lines))
    return str(path)


def test_phrases_are_written_and_shown(run, llama, corpus, tmp_path):
    result = run("mine", llama, "--corpus", corpus, "-o", "made/phrases.safetensors", *SETTINGS)
    assert result.exit_code == 0, result.output
    for part in ("phrases.safetensors", "prefixes", "11 answers", "words", "category", "top phrases", "'the'"):
        assert part in result.stdout
    vocabulary = PhraseVocabulary.load(tmp_path / "made" / "phrases.safetensors")
    assert f"{len(vocabulary):,} of up to {vocabulary.max_tokens} tokens" in result.stdout


@pytest.mark.parametrize("method", ["prefixes", "spans", "merges"])
def test_json_says_what_is_in_the_file(answer_of, llama, corpus, tmp_path, method):
    found = answer_of("mine", llama, "--corpus", corpus, "-o", "p.safetensors", "--set", f"method={method}", *SETTINGS)
    vocabulary = PhraseVocabulary.load(tmp_path / "p.safetensors")
    assert found["num_phrases"] == len(vocabulary) == 60
    assert found["fingerprint"] == vocabulary.fingerprint
    assert found["mean_tokens"] == vocabulary.lengths.mean() > 1.5
    assert found["settings"]["method"] == method
    assert sum(found["by_category"].values()) == 60


def test_answers_that_training_will_hold_out_are_not_mined(run, llama, corpus, tmp_path):
    run("mine", llama, "--corpus", corpus, "-o", "p.safetensors", *SETTINGS)
    provenance = PhraseVocabulary.provenance(tmp_path / "p.safetensors")
    assert provenance["held_out_share"] == "0.05"
    held_out = [answer.id for answer in read_corpora([Path(corpus)])[0].answers if is_held_out(answer, 0.05, 0)]
    assert held_out == ["q-10"]
    whole = run("mine", llama, "--corpus", corpus, "-o", "all.safetensors", *SETTINGS, "--held-out-share", "0")
    assert "12 answers" in whole.stdout


def test_the_file_says_how_it_was_made(run, llama, corpus, tmp_path):
    run("mine", llama, "--corpus", corpus, "-o", "p.safetensors", *SETTINGS)
    provenance = PhraseVocabulary.provenance(tmp_path / "p.safetensors")
    assert provenance["command"].startswith("phrasedraft")
    assert provenance["target"] == llama
    assert json.loads(provenance["settings"])["num_phrases"] == 60
    assert [part["name"] for part in json.loads(provenance["data"])] == ["answers"]


def test_a_target_without_its_weights_can_be_mined_for(answer_of, llama, corpus, tmp_path):
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in os.listdir(llama):
        if not name.endswith(".safetensors"):
            (bare / name).write_bytes((tmp_path / llama / name).read_bytes())
    whole = answer_of("mine", llama, "--corpus", corpus, "-o", "a.safetensors", *SETTINGS)
    found = answer_of("mine", str(bare), "--corpus", corpus, "-o", "b.safetensors", *SETTINGS)
    assert found["fingerprint"] == whole["fingerprint"]


def test_the_width_of_the_logits_is_the_same_with_and_without_weights(llama):
    tokenizer, vocab_size = load_tokenizer(llama)
    target = load_target(llama)
    assert vocab_size == target.identity.vocab_size
    assert tokenizer.get_vocab() == target.tokenizer.get_vocab()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--set", "words=2"], "there is no setting `words`"),
        (["--set", "max_words=9"], "`max_words` is `9`, it must be from 1 to 8"),
        (["--set", "method=bpe"], "`method` is `bpe`, it may be `prefixes`, `spans`, `merges`"),
        (["--corpus", "missing.jsonl"], "`missing.jsonl` cannot be read"),
        (["-o", "."], "output `.` is a folder"),
        (["-o", "file/phrases.safetensors"], "cannot be written"),
    ],
)
def test_a_mistake_is_two_lines_and_nothing_is_written(run, llama, corpus, tmp_path, arguments, message):
    (tmp_path / "file").touch()
    result = run("mine", llama, "--corpus", corpus, "-o", "p.safetensors", *arguments)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert "hint:" in result.stderr
    assert os.listdir(tmp_path) == ["file"]


def test_answers_of_another_target_are_refused(run, llama, corpus, tmp_path):
    foreign = tmp_path / "foreign.jsonl"
    foreign.write_text(json.dumps({"id": "x", "prompt": [1], "response": [3, 49_000]}))
    result = run("mine", llama, "--corpus", corpus, "--corpus", str(foreign), "-o", "p.safetensors")
    assert result.exit_code == 2
    assert "the answers hold token `49000`, the target has tokens 0 to" in " ".join(result.stderr.split())
    assert not (tmp_path / "p.safetensors").exists()


def test_a_target_that_is_not_there_is_an_error(run, corpus):
    result = run("mine", "nobody/nothing", "--corpus", corpus, "-o", "p.safetensors")
    assert result.exit_code == 2
    assert "tokenizer of target `nobody/nothing` cannot be loaded" in " ".join(result.stderr.split())


def test_help_shows_an_example(run):
    assert "phrasedraft mine smollm2-135m --corpus" in " ".join(run("mine", "--help").stdout.split())
