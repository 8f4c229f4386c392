def test_a_head_is_shown_with_the_text_of_its_phrases(run, head):
    result = run("inspect", head, "--top", "3")
    assert result.exit_code == 0
    for part in ("MB", "trunk", "rows", "tokens", "words", "category", "top phrases", "spelled", "made in a test"):
        assert part in result.stdout


def test_json_adds_up(answer_of, head):
    found = answer_of("inspect", head)
    assert found["parameters"]["trunk"] + found["parameters"]["rows"] == found["parameters"]["all"]
    assert sum(found["by_num_tokens"].values()) == found["num_phrases"] == found["text"]["num_phrases"]
    assert sum(found["text"]["by_category"].values()) == found["num_phrases"]
    assert found["bytes"]["model.safetensors"] > 0


def test_without_a_tokenizer_lengths_are_shown(run, answer_of, head):
    result = run("inspect", head, "--target", "none")
    assert result.exit_code == 0
    assert "give `--target`" in result.stdout
    assert "text" not in answer_of("inspect", head, "--target", "none")


def test_an_unknown_tokenizer_is_an_error(run, head):
    result = run("inspect", head, "--target", "nobody/nothing")
    assert result.exit_code == 2
    assert "`nobody/nothing`" in result.stderr
    assert "hint:" in result.stderr


def test_a_folder_without_a_head_is_an_error(run, tmp_path):
    result = run("inspect", str(tmp_path / "no-head"))
    assert result.exit_code == 2
    assert "does not exist" in result.stderr
