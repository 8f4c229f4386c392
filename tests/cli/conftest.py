"""Tiny targets and heads in folders, and the command line run in a folder of its own."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

import zoo
from phrasedraft import Decoder, Stopping, load_target
from phrasedraft.cli.app import app
from phrasedraft.cli.known_answer import KnownAnswerDrafter
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from saved import byte_tokenizer, save_target


@pytest.fixture(scope="session")
def llama(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny llama with a chat template."""
    return str(save_target(tmp_path_factory.mktemp("targets") / "llama", "llama", max_position_embeddings=1024))


@pytest.fixture(scope="session")
def wider(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A llama of another hidden size."""
    return str(save_target(tmp_path_factory.mktemp("targets") / "wider", "llama", hidden_size=64))


@pytest.fixture(scope="session")
def broken(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A llama whose logits are NaN."""
    tokenizer = byte_tokenizer()
    model = zoo.build_model("llama", vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id)
    with torch.no_grad():
        model.get_output_embeddings().weight.fill_(float("nan"))
    folder = tmp_path_factory.mktemp("targets") / "broken"
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def bloom(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny bloom, which has no chat template."""
    return str(save_target(tmp_path_factory.mktemp("targets") / "bloom", "bloom", chat_template=None))


@pytest.fixture(scope="session")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny qwen3_5, whose linear layers keep a state from which rejected branches cannot be removed."""
    return str(save_target(tmp_path_factory.mktemp("targets") / "hybrid", "qwen3_5"))


@pytest.fixture(scope="session")
def mamba(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A tiny mamba, which keeps a state."""
    return str(save_target(tmp_path_factory.mktemp("targets") / "mamba", "mamba"))


@pytest.fixture(scope="session")
def head(llama: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A head for the llama that knows the tokens of one of its answers, so that some drafts land."""
    target = load_target(llama)
    prompt = target.encode_chat([{"role": "user", "content": "hello"}])
    answer = Decoder(target, KnownAnswerDrafter(), num_draft_tokens=0).generate(
        prompt, stopping=Stopping(max_new_tokens=120)
    )
    pairs = list(zip(answer.tokens, answer.tokens[1:], strict=False))
    vocabulary = PhraseVocabulary.from_phrases([*((token,) for token in answer.tokens), *pairs])
    torch.manual_seed(0)
    identity = target.identity
    scorer = PhraseScorer(
        feature_size=identity.hidden_size, hidden_size=identity.hidden_size, num_phrases=len(vocabulary), trunk_width=8
    )
    config = HeadConfig(
        target_name=llama,
        target_hidden_size=identity.hidden_size,
        target_vocab_size=identity.vocab_size,
        tokenizer_fingerprint=identity.tokenizer_fingerprint(identity.vocab_size),
        trunk_width=8,
        provenance={"command": "made in a test"},
    )
    folder = tmp_path_factory.mktemp("heads") / "llama"
    PhraseHead(scorer=scorer, vocabulary=vocabulary, config=config).save_pretrained(folder)
    return str(folder)


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Run:
    """Runs `phrasedraft` with arguments, in an empty folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str, stdin: str | None = None) -> Result:
        result = CliRunner().invoke(app, list(arguments), input=stdin)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return call


@pytest.fixture
def answer_of(run: Run) -> Callable[..., dict]:
    """The one JSON object a verb prints."""

    def call(*arguments: str) -> dict:
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    return call
