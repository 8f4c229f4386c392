from pathlib import Path

import pytest

from phrasedraft.evaluation.fertility import LANGUAGES
from saved import save_target


def test_a_tokenizer_is_all_it_takes(run, llama, tmp_path):
    folder = tmp_path / "tokenizer"
    folder.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (folder / name).write_bytes((Path(llama) / name).read_bytes())
    result = run("fertility", str(folder))
    assert result.exit_code == 0, result.output
    assert max(map(len, result.stdout.splitlines())) <= 80
    for word in (*LANGUAGES, "tokens/word", "tokens/char", "one-token words"):
        assert word in result.stdout
    assert "tokens/pass" not in result.stdout


def test_json_holds_every_figure(answer_of, llama):
    found = answer_of("fertility", llama)
    assert (found["target"], found["head"], found["num_nodes"]) == (llama, None, None)
    assert tuple(found["texts"]) == LANGUAGES
    telugu = found["texts"]["telugu"]
    assert telugu["num_tokens"] == 3624  # one a byte
    assert telugu["tokens_per_word"] == telugu["num_tokens"] / telugu["num_words"]
    assert telugu["one_token_share"] == 0.0
    assert found["texts"]["chinese"]["one_token_share"] is None
    assert {each["forced_replay"] for each in found["texts"].values()} == {None}


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory):
    """The llama with a context of 96 tokens."""
    return str(save_target(tmp_path_factory.mktemp("targets") / "forgetful", "llama", max_position_embeddings=96))


def test_with_a_head_its_tokens_per_pass_are_shown_and_what_they_mean(run, answer_of, forgetful, head):
    found = answer_of("fertility", forgetful, "--head", head, "--nodes", "4")
    assert (found["head"], found["num_nodes"]) == (head, 4)
    for each in found["texts"].values():
        forced = each["forced_replay"]
        assert forced["num_tokens"] == 95
        assert forced["tokens_per_pass"] == 94 / forced["num_passes"] >= 1.0
    result = run("fertility", forgetful, "--head", head, "--nodes", "4")
    assert "tokens/pass" in result.stdout
    assert "as if the target had written these texts, which it has not" in result.stdout


def test_a_head_of_another_target_is_refused(run, wider, head):
    result = run("fertility", wider, "--head", head)
    assert result.exit_code == 2
    assert "hidden size" in result.stderr
    assert not result.stdout


@pytest.mark.filterwarnings("default")
def test_options_that_need_a_head_warn_without_one(run, llama):
    result = run("fertility", llama, "--dtype", "float32", "--no-packed", "--nodes", "4")
    assert result.exit_code == 0
    assert "without `--head`, --dtype, --no-packed, --nodes has no effect" in result.stderr


@pytest.mark.parametrize("name", ["nobody/nothing", "no-such-folder"])
def test_an_unknown_target_is_an_error(run, name):
    result = run("fertility", name)
    assert result.exit_code == 2
    assert f"the tokenizer of target `{name}` cannot be loaded" in result.stderr
    assert "hint:" in result.stderr
