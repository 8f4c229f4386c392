import io
import json
import random

import pytest
import torch
from rich.console import Console

from phrasedraft.corpus.answers import is_held_out
from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.errors import DataError, OptionError
from phrasedraft.phrases import PhraseVocabulary, VocabularySettings
from phrasedraft.training import fit as fit_module
from phrasedraft.training.fit import fit
from phrasedraft.training.fit_settings import FitSettings, ReplaySettings
from phrasedraft.training.settings import with_overrides
from phrasedraft.training.trainer import TrainingSettings
from synthetic import VOCAB, SyntheticTarget, answer_of, write_corpus


class LetterTokenizer:
    """Every token is a word of its own: a space and a letter."""

    all_special_ids = (0, 1, 2)

    @property
    def added_tokens_decoder(self):
        return {}

    def get_vocab(self):
        return {f"Ġ{chr(0x4E00 - 0x4D00 + token)}": token for token in range(3, VOCAB)} | {"<0>": 0, "<1>": 1, "<2>": 2}

    def encode(self, text, *, add_special_tokens):
        return []  # no text is written in its words


@pytest.fixture
def target():
    target = SyntheticTarget()
    target.tokenizer = LetterTokenizer()
    return target


SETTINGS = FitSettings(
    vocabulary=VocabularySettings(num_phrases=60, min_count=2, min_answers=2, max_words=4),
    training=TrainingSettings(num_epochs=4, batch_size=64, learning_rate=1e-2, trunk_width=32),
    replay=ReplaySettings(held_out_share=0.2, num_draft_tokens=(4, 8)),
)


def corpus_at(path, *, count=40, seed=0):
    """Answers in a language of few sentences, each of which goes on as its two last tokens say."""
    draw = random.Random(seed)
    sentences = [draw.sample(range(3, 30), 5) for _ in range(6)]
    texts = [[token for _ in range(4) for token in draw.choice(sentences)] for _ in range(count)]
    return write_corpus(path, [answer_of(text, name=f"{path.stem}-{i}") for i, text in enumerate(texts)])


def run(target, tmp_path, *, settings=SETTINGS, command="phrasedraft fit synthetic", corpora=("train.jsonl",)):
    paths = [corpus_at(tmp_path / name) for name in corpora]
    console = Console(file=io.StringIO(), width=200)
    result = fit(target, paths, tmp_path / "head", settings, work=tmp_path / "work", command=command, console=console)
    return result, console.file.getvalue()


def test_a_corpus_becomes_a_head_that_saves_passes_on_answers_it_never_saw(target, tmp_path):
    result, output = run(target, tmp_path)
    stats = result.replayed["train"][8]
    assert stats.mean_acceptance_length > 2.0
    assert result.replayed["train"][4].num_accepted_tokens <= stats.num_accepted_tokens
    assert "tokens a pass" in output
    loaded = PhraseHead.from_pretrained(tmp_path / "head")
    loaded.check(target.identity)
    assert loaded.vocabulary == result.head.vocabulary


def test_every_prefix_of_a_phrase_is_a_phrase(target, tmp_path):
    result, _ = run(target, tmp_path)
    vocabulary = result.head.vocabulary
    phrases = {vocabulary.expand(phrase) for phrase in range(len(vocabulary))}
    assert max(map(len, phrases)) > 2
    assert all(phrase[:size] in phrases for phrase in phrases for size in range(1, len(phrase)))


def test_a_head_says_where_it_comes_from(target, tmp_path):
    run(target, tmp_path)
    provenance = json.loads((tmp_path / "head" / "config.json").read_text())["provenance"]
    assert provenance["command"] == "phrasedraft fit synthetic"
    assert provenance["settings"]["training"]["num_epochs"] == 4
    assert provenance["data"][0]["name"] == "train"
    assert len(provenance["data"][0]["sha256"]) == 64
    assert {"torch", "python", "phrasedraft"} <= provenance["versions"].keys()
    assert len(provenance["epochs"]) == 4
    card = (tmp_path / "head" / "README.md").read_text()
    assert "none of their prompts shares 13 tokens in a row with a bundled evaluation prompt" in card
    assert "phrasedraft fit synthetic" in card
    assert f"{provenance['held_out']['train']['8']['tokens_per_pass']:.3f}" in card


def test_the_same_settings_make_the_same_head(target, tmp_path):
    first, _ = run(target, tmp_path / "a")
    second, _ = run(target, tmp_path / "b")
    assert torch.equal(first.head.scorer.output.weight, second.head.scorer.output.weight)
    assert first.head.config == second.head.config


@pytest.fixture(autouse=True)
def folders(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()


def test_a_killed_run_goes_on_from_its_last_epoch_to_the_same_head(target, tmp_path, monkeypatch):
    whole, _ = run(target, tmp_path / "a")
    real, epochs = fit_module.replay, []

    def killed(*arguments):
        epochs.append(1)
        if len(epochs) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(fit_module, "replay", killed)
    with pytest.raises(KeyboardInterrupt):
        run(target, tmp_path / "b")
    monkeypatch.setattr(fit_module, "replay", real)
    resumed, output = run(target, tmp_path / "b")
    assert "going on after epoch 2" in output
    assert torch.equal(whole.head.scorer.output.weight, resumed.head.scorer.output.weight)


def test_a_checkpoint_of_other_settings_is_not_taken_up(target, tmp_path):
    run(target, tmp_path)
    _, output = run(target, tmp_path, settings=with_overrides(SETTINGS, ["training.learning_rate=0.02"]))
    assert "going on" not in output


def test_traces_are_used_again(target, tmp_path):
    run(target, tmp_path)
    before = target.num_passes
    run(target, tmp_path, settings=with_overrides(SETTINGS, ["training.seed=5"]))
    assert target.num_passes - before == 1  # the spot check that the traces are this target's


def test_each_corpus_is_reported_apart(target, tmp_path):
    result, _ = run(target, tmp_path, corpora=("maths.jsonl", "chat.jsonl"))
    assert list(result.replayed) == ["maths", "chat"]


def test_training_that_never_has_a_draft_accepted_is_an_error(target, tmp_path):
    rare = PhraseVocabulary.from_phrases([(63,), (62,)])
    held_out_only = with_overrides(SETTINGS, ["replay.num_draft_tokens=[1]"])
    paths = [corpus_at(tmp_path / "train.jsonl")]
    lines = paths[0].read_text().splitlines()
    record = json.loads(lines[0]) | {"id": "rare", "response": [3, 63, 3, 62, 3]}
    assert not is_held_out(answer_of(record["response"], name="rare"), 0.2, 0)
    paths[0].write_text("\n".join([*lines, json.dumps(record)]) + "\n")
    with pytest.raises(DataError, match="no draft on held-out answers was accepted"):
        fit(
            target,
            paths,
            tmp_path / "head",
            held_out_only,
            work=tmp_path / "work",
            command="fit",
            vocabulary=rare,
            console=Console(file=io.StringIO()),
        )
    assert not (tmp_path / "head").exists()


def test_a_target_without_a_tokenizer_is_refused(target, tmp_path):
    target.tokenizer = None
    with pytest.raises(OptionError, match="without a tokenizer"):
        run(target, tmp_path)


def test_answers_of_another_vocabulary_are_refused_before_anything_is_written(target, tmp_path):
    path = write_corpus(tmp_path / "train.jsonl", [answer_of([3, 4, 900], name="foreign")])
    with pytest.raises(DataError, match=r"holds token `900`, target `synthetic` has tokens 0 to 63"):
        fit(
            target,
            [path],
            tmp_path / "head",
            SETTINGS,
            work=tmp_path / "work",
            command="fit",
            console=Console(file=io.StringIO()),
        )
    assert not (tmp_path / "work").exists()


def test_too_few_answers_to_hold_some_out_are_refused(target, tmp_path):
    with pytest.raises(DataError, match="held out"):
        run(target, tmp_path, settings=with_overrides(SETTINGS, ["replay.held_out_share=0.000001"]))


def test_a_setting_is_changed_by_its_dotted_name():
    changed = with_overrides(
        FitSettings(), ["training.loss.mass=1", "traces.layers=[10, -1]", "vocabulary.num_phrases=500"]
    )
    assert changed.training.loss.mass == 1.0
    assert changed.traces.layers == (10, -1)
    assert changed.vocabulary.num_phrases == 500


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.epochs=3", "no setting `training.epochs`"),
        ("training.num_epochs=many", "must be a whole number"),
        ("training.num_epochs=0", "num_epochs"),
        ("training=3", "is a section"),
        ("training.num_epochs", "is not `section.field=value`"),
        ("training.num_epochs.more=3", "no setting"),
    ],
)
def test_an_override_that_cannot_be_is_refused(override, message):
    with pytest.raises(OptionError, match=message):
        with_overrides(FitSettings(), [override])
