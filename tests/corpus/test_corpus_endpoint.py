import socket
from dataclasses import replace

import pytest

from answering import ending_target, lines_of, question_file, quiet
from completions import HINTS, Completions, served
from phrasedraft.corpus.block_file import read_recipe
from phrasedraft.corpus.distill import DistillSettings, distill
from phrasedraft.corpus.endpoint import EndpointSettings, distill_through
from phrasedraft.corpus.server_answer import answer_tokens
from phrasedraft.errors import DataError, OptionError, TargetError
from texts import CORPUS

SMALL = DistillSettings(max_new_tokens=12, batch_size=3)
SAMPLED = replace(SMALL, temperature=1.0, top_p=0.9, top_k=40, seed=3)


@pytest.fixture
def prompts(tmp_path):
    return question_file(tmp_path / "prompts")


def endpoint(url, **changes):
    return EndpointSettings(**{"url": url, "model": "tiny", "retry_seconds": 0.01, "max_retries": 3, **changes})


def through(server, prompts, path, settings=SMALL, **changes):
    with served(server) as url:
        return distill_through(server.target, prompts, settings, endpoint(url, **changes), path, console=quiet())


@pytest.mark.parametrize("settings", [SMALL, SAMPLED], ids=["greedy", "sampled"])
def test_a_server_gives_the_answers_the_target_gives_here(tmp_path, prompts, settings):
    server = Completions(ending_target())
    corpus = through(server, prompts, tmp_path / "answers.jsonl", settings)
    here = distill(ending_target(), prompts, settings, tmp_path / "here.jsonl", console=quiet())
    assert corpus.answers == here.answers
    assert {line["finish"] for line in lines_of(tmp_path / "answers.jsonl")} == {"stop", "length"}


def test_the_server_gets_token_ids_and_at_most_so_many_requests_at_once(tmp_path, prompts):
    server = Completions(ending_target())
    corpus = through(server, prompts, tmp_path / "answers.jsonl", SAMPLED, concurrency=2)
    assert {tuple(request["prompt"]) for request in server.requests} == {answer.prompt for answer in corpus.answers}
    assert server.most_at_once <= 2
    for request in server.requests:
        assert (request["model"], request["max_tokens"], request["temperature"]) == ("tiny", 12, 1.0)
        assert (request["top_p"], request["top_k"]) == (0.9, 40)
        assert all(hint in request for hint in HINTS)
    assert len({request["seed"] for request in server.requests}) == 6


def test_a_file_cut_off_goes_on_with_the_missing_blocks_only(tmp_path, prompts):
    path = tmp_path / "answers.jsonl"
    through(Completions(ending_target()), prompts, path)
    whole = path.read_bytes()
    path.write_bytes(whole[:-30])
    server = Completions(ending_target())
    through(server, prompts, path)
    assert path.read_bytes() == whole
    assert len(server.requests) == 3


def test_a_busy_server_and_half_an_answer_are_asked_again(tmp_path, prompts):
    server = Completions(ending_target(), failures=[503, 429, "cut", 500])
    corpus = through(server, prompts, tmp_path / "answers.jsonl", concurrency=1, max_retries=4)
    assert len(server.requests) == 6 + 4
    here = distill(ending_target(), prompts, SMALL, tmp_path / "here.jsonl", console=quiet())
    assert corpus.answers == here.answers


@pytest.mark.parametrize(
    ("failure", "message"),
    [(503, "failed 4 times, lastly with 503: .*not now"), ("cut", "lastly with 200, but no whole")],
)
def test_a_server_that_stays_busy_is_given_up_and_whole_blocks_are_kept(tmp_path, prompts, failure, message):
    path = tmp_path / "answers.jsonl"
    server = Completions(ending_target(), num_sound=4, lasting=failure)
    with served(server) as url:
        settings = endpoint(url, concurrency=1)
        with pytest.raises(TargetError, match=message) as caught:
            distill_through(server.target, prompts, SMALL, settings, path, console=quiet())
        assert f"{url}/completions" in str(caught.value)
        assert [line["id"] for line in lines_of(path)] == ["q0", "q1", "q2"]
        server.num_sound = 1000
        corpus = distill_through(server.target, prompts, SMALL, settings, path, console=quiet())
    here = distill(ending_target(), prompts, SMALL, tmp_path / "here.jsonl", console=quiet())
    assert corpus.answers == here.answers


def test_a_slow_server_times_out(tmp_path, prompts):
    with socket.create_server(("127.0.0.1", 0)) as deaf:  # takes connections, answers nothing
        settings = endpoint(f"http://127.0.0.1:{deaf.getsockname()[1]}/v1", timeout_seconds=0.05, max_retries=1)
        with pytest.raises(TargetError, match="failed 2 times, lastly with ReadTimeout"):
            distill_through(ending_target(), prompts, SMALL, settings, tmp_path / "answers.jsonl", console=quiet())


def test_no_server_a_wrong_page_and_a_wrong_key_are_named_with_the_url(tmp_path, prompts, monkeypatch):
    path = tmp_path / "answers.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    settings = endpoint(f"http://127.0.0.1:{port}/v1")
    with pytest.raises(TargetError, match=rf"nothing answers at `http://127.0.0.1:{port}/v1/completions`"):
        distill_through(ending_target(), prompts, SMALL, settings, path, console=quiet())
    server = Completions(ending_target(), key="secret")
    with served(server) as url:
        settings = endpoint(url.removesuffix("/v1"))
        with pytest.raises(TargetError, match=r"refuses with 404: .*no such page") as caught:
            distill_through(server.target, prompts, SMALL, settings, path, console=quiet())
        assert "/v1" in caught.value.hint
        monkeypatch.delenv("TINY_KEY", raising=False)
        settings = endpoint(url, api_key_env="TINY_KEY")
        with pytest.raises(TargetError, match="refuses with 401") as caught:
            distill_through(server.target, prompts, SMALL, settings, path, console=quiet())
        assert "`TINY_KEY`" in caught.value.hint
        monkeypatch.setenv("TINY_KEY", "secret")
        distill_through(server.target, prompts, SMALL, settings, path, console=quiet())
    assert "secret" not in path.with_name("answers.jsonl.recipe.json").read_text() + path.read_text()


def test_a_server_that_refuses_what_only_vllm_knows_is_asked_without_it(tmp_path, prompts):
    server = Completions(ending_target(), refuses_hints=True)
    settings = replace(SMALL, max_new_tokens=3)
    with pytest.warns(UserWarning, match="answers were left out: the server's text does not tell its tokens"):
        corpus = through(server, prompts, tmp_path / "answers.jsonl", settings, concurrency=1)
    assert sum(any(hint in request for hint in HINTS) for request in server.requests) == 1
    assert 0 < len(corpus.answers) < 6
    here = distill(ending_target(), prompts, settings, tmp_path / "here.jsonl", console=quiet())
    by_id = {answer.id: answer for answer in here.answers}
    decode = ending_target().tokenizer.decode
    for answer in corpus.answers:  # the same text; this model's tokens for it are at times not the tokenizer's
        assert decode(answer.response) == decode(by_id[answer.id].response)


def test_text_alone_is_encoded_again_and_kept_where_that_gives_it_back():
    target = ending_target()
    prompt = target.encode_chat([{"role": "user", "content": "what is the end?"}])
    tokens = target.encode(CORPUS[0])
    stopped = answer_tokens(target, prompt, {"text": CORPUS[0], "finish_reason": "stop"}, 7)
    assert stopped == [*tokens, 7]
    assert answer_tokens(target, prompt, {"text": CORPUS[0], "finish_reason": "length"}, 7) == tokens
    assert answer_tokens(target, prompt, {"text": "", "finish_reason": "stop"}, 7) == [7]
    for left_out in ("cut in half \ufffd", ""):
        assert answer_tokens(target, prompt, {"text": left_out, "finish_reason": "length"}, 7) is None
    for finish in ("abort", None):
        assert answer_tokens(target, prompt, {"text": "fine", "finish_reason": finish}, 7) is None


def test_ids_that_do_not_spell_the_text_in_the_targets_tokenizer_are_left_out():
    target = ending_target()
    tokens, end = target.encode("the answer"), target.tokenizer.eos_token_id
    for finish, given in (("length", tokens), ("stop", [*tokens, end])):
        choice = {"text": "the answer", "finish_reason": finish, "token_ids": given}
        assert answer_tokens(target, [5], choice, end) == given
    for wrong in ([*tokens[:-1], 299], [*tokens, 300], [*tokens, -1], [*tokens, "a"]):
        assert (
            answer_tokens(target, [5], {"text": "the answer", "finish_reason": "length", "token_ids": wrong}, end)
            is None
        )


def test_a_server_of_another_model_is_found_out(tmp_path, prompts):
    server = Completions(ending_target())
    own = server.choice
    server.choice = lambda body: own(body) | {"text": "something else"}
    with pytest.raises(DataError, match="no answer of the 6 could be kept"):
        through(server, prompts, tmp_path / "answers.jsonl")


def test_another_model_name_is_another_recipe_and_another_address_is_not(tmp_path, prompts):
    path = tmp_path / "answers.jsonl"
    through(Completions(ending_target()), prompts, path)
    through(Completions(ending_target()), prompts, path, concurrency=1)
    assert read_recipe(path)["made_by"] == {"model": "tiny"}
    with pytest.raises(DataError, match=r"`made_by.model` is `other`, was `tiny`"):
        through(Completions(ending_target()), prompts, path, model="other")


def test_a_page_that_is_no_completion_is_an_error(tmp_path, prompts):
    server = Completions(ending_target())
    server.reply = lambda *_: (200, b'{"hello": "world"}', {})
    with pytest.raises(DataError, match="gave no `choices` with one answer"):
        through(server, prompts, tmp_path / "answers.jsonl")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"url": "localhost:8000"}, "`url` is `localhost:8000`, it must be like"),
        ({"url": "http:///v1"}, "`url` is"),
        ({"model": ""}, "`model` is empty"),
        ({"concurrency": 0}, "`concurrency` 0"),
    ],
)
def test_settings_that_cannot_be_are_refused(changes, message):
    with pytest.raises(OptionError, match=message):
        endpoint(**{"url": "http://localhost:8000/v1", **changes})
