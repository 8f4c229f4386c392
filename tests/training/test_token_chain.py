import io
import json
import random
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from rich.console import Console

from phrasedraft.drafters import TokenChain, load_head
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.replay import replay
from phrasedraft.phrases import PhraseVocabulary, VocabularySettings
from phrasedraft.training import fit as fit_module
from phrasedraft.training.calibration import TEMPERATURES
from phrasedraft.training.chain_examples import OUTSIDE, UNKNOWN, make_chain_examples
from phrasedraft.training.chain_learner import ChainLearner
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.fit import fit
from phrasedraft.training.fit_settings import FitSettings, HeadSettings, ReplaySettings
from phrasedraft.training.kinds import kind_of
from phrasedraft.training.losses import LossSettings
from phrasedraft.training.settings import with_overrides
from phrasedraft.training.trainer import Trainer, TrainingSettings
from synthetic import EOS, SyntheticTarget, answer_of, head_config, recorded, write_corpus

SETTINGS = FitSettings(
    head=HeadSettings(kind="token-chain", num_steps=3, num_draft_steps=5),
    vocabulary=VocabularySettings(num_phrases=60),
    training=TrainingSettings(num_epochs=4, batch_size=64, learning_rate=1e-2, trunk_width=32),
    replay=ReplaySettings(held_out_share=0.2, num_draft_tokens=(4, 8)),
)


def trace_of(tokens):
    return SyntheticTarget().trace(answer_of(tokens))


def vocabulary_of(*tokens):
    return PhraseVocabulary.from_phrases([(token,) for token in tokens])


def corpus_at(path, *, count=40, seed=0):
    """Answers in a language of few sentences, each of which goes on as its two last tokens say."""
    draw = random.Random(seed)
    sentences = [draw.sample(range(3, 30), 5) for _ in range(6)]
    texts = [[token for _ in range(4) for token in draw.choice(sentences)] for _ in range(count)]
    return write_corpus(path, [answer_of(text, name=f"{path.stem}-{i}") for i, text in enumerate(texts)])


def run(folder, *, settings=SETTINGS, **arguments):
    folder.mkdir(exist_ok=True)
    console = Console(file=io.StringIO(), width=200)
    corpus = corpus_at(folder / "train.jsonl")
    arguments = {"work": folder / "work", "command": "phrasedraft fit", "console": console, **arguments}
    target = SyntheticTarget()
    target.tokenizer = None  # a chain's entries are counted, not read
    return fit(target, [corpus], folder / "head", settings, **arguments), console.file.getvalue()


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (7, [[0, 1, 0], [1, 0, OUTSIDE], [0, OUTSIDE, UNKNOWN], [OUTSIDE, UNKNOWN, UNKNOWN], [2, UNKNOWN, UNKNOWN]]),
        (EOS, [[0, 1, 0], [1, 0, OUTSIDE], [0, OUTSIDE, UNKNOWN], [OUTSIDE, UNKNOWN, UNKNOWN], [3, OUTSIDE, UNKNOWN]]),
    ],
)
def test_a_row_is_followed_up_to_the_first_token_outside_or_to_where_the_answer_is_cut(end, expected):
    examples = make_chain_examples([trace_of([9, 5, 6, 5, 40, end])], vocabulary_of(5, 6, 7, EOS), frozenset({EOS}), 3)
    assert examples.following.tolist() == expected
    assert examples.longest.tolist() == [row[0] for row in expected]
    assert len(examples) == 5


def test_the_end_of_one_answer_is_not_the_beginning_of_the_next():
    traces = [trace_of([5, 6]), trace_of([7]), trace_of([6, 6, 5])]
    examples = make_chain_examples(traces, vocabulary_of(5, 6, 7), frozenset(), 2)
    assert examples.following.tolist() == [[1, UNKNOWN], [1, 0], [0, UNKNOWN]]
    assert examples.tokens.tolist() == [5, 6, 6]


def learning(tokens, vocabulary, num_steps=3, **changes):
    trace = trace_of(tokens)
    learner = ChainLearner(vocabulary, LossSettings(), num_steps, num_steps)
    examples = learner.examples([trace], frozenset({EOS}))
    embedding = EmbeddingTable.of(examples.tokens, SyntheticTarget().embed)
    settings = TrainingSettings(
        num_epochs=60, batch_size=20, learning_rate=1e-2, trunk_width=32, dropout=0.0, input_noise=0.0, average=0.9
    )
    return trace, learner, Trainer(examples, embedding, vocabulary, replace(settings, **changes), learner)


def test_the_loss_is_the_cross_entropy_of_every_step_that_is_known():
    tokens = random.Random(2).choices(range(4, 20), k=30)
    _, learner, trainer = learning([*tokens, EOS], vocabulary_of(*range(4, 16), EOS))
    scorer, examples = trainer.trained(), trainer.examples
    rows = torch.arange(len(examples))
    states = trunk = scorer.trunk(examples.hidden[rows], trainer.embedding(examples.tokens))
    wanted = torch.zeros(())
    for entries in examples.following.unbind(dim=1):
        scores = F.pad(scorer.output(states), (0, 1))
        labels = torch.where(entries == OUTSIDE, scores.shape[1] - 1, entries)
        wanted = wanted + F.cross_entropy(scores, labels, ignore_index=UNKNOWN, reduction="sum")
        states = scorer.advance(states, entries.clamp(min=0))
    assert learner.loss(scorer, trunk, examples, rows).item() == pytest.approx(wanted.item() / len(rows), rel=1e-5)


def test_every_weight_learns_from_the_later_steps_too():
    _, learner, trainer = learning(random.Random(3).choices(range(4, 20), k=30), vocabulary_of(*range(4, 20)))
    scorer, examples = trainer.scorer, trainer.examples
    trunk = scorer.trunk(examples.hidden[:], trainer.embedding(examples.tokens))
    learner.loss(scorer, trunk, examples, torch.arange(len(examples))).backward()
    assert all(bool(weight.grad.abs().sum() > 0) for weight in scorer.parameters())


def test_one_answer_is_learnt_by_heart_to_the_last_step():
    tokens = random.Random(1).choices(range(4, 60), k=61)
    trace, learner, trainer = learning(tokens, vocabulary_of(*sorted(set(tokens))))
    for epoch in range(trainer.settings.num_epochs):
        for _ in trainer.run_epoch(epoch):
            pass
    head = learner.head(trainer.trained(), head_config())
    assert (head.config.kind, head.config.num_steps) == ("token_chain", 3)
    stats = replay(head, [recorded(trace)], DraftBudget(num_draft_tokens=3, max_depth=3), SyntheticTarget().embed)
    assert stats.mean_acceptance_length > 3.5  # three accepted and the bonus token


def test_overconfident_steps_are_cooled_down():
    tokens = random.Random(1).choices(range(4, 60), k=61)
    _, learner, trainer = learning(tokens, vocabulary_of(*sorted(set(tokens))))
    for epoch in range(20):
        for _ in trainer.run_epoch(epoch):
            pass
    scorer, examples = trainer.trained(), trainer.examples
    surprising = replace(examples, following=examples.following.roll(5, dims=0).clamp(min=0))
    assert learner.calibrate(scorer, examples, trainer.embedding) == TEMPERATURES[0]
    assert learner.calibrate(scorer, surprising, trainer.embedding) > 1.5


def test_a_recipe_makes_a_chain_that_saves_passes_on_answers_it_never_saw(tmp_path):
    result, output = run(tmp_path)
    assert isinstance(result.head, TokenChain)
    assert result.replayed["train"][8].mean_acceptance_length > 2.0
    assert "tokens, 100.0% of what the answers hold" in output
    loaded = load_head(tmp_path / "head")
    assert isinstance(loaded, TokenChain)
    assert loaded.vocabulary == result.head.vocabulary
    assert (loaded.config.kind, loaded.config.num_steps) == ("token_chain", 5)
    assert loaded.config.temperature == result.head.config.temperature
    assert loaded.config.provenance["settings"]["head"] == {
        "kind": "token-chain",
        "num_steps": 3,
        "num_draft_steps": 5,
        "rows": "own",
        "num_own_rows": 0,
        "text_window": 512,
    }
    card = (tmp_path / "head" / "README.md").read_text()
    assert "# Token chain for `synthetic`" in card
    assert "single tokens, 5 steps a draft" in card
    figures = json.loads((tmp_path / "head" / "config.json").read_text())["provenance"]["held_out"]["train"]["8"]
    assert f"{figures['tokens_per_pass']:.3f}" in card


def test_the_entries_are_the_most_frequent_tokens(tmp_path):
    result, _ = run(tmp_path, settings=with_overrides(SETTINGS, ["vocabulary.num_phrases=7"]))
    lines = [json.loads(line)["response"] for line in (tmp_path / "train.jsonl").read_text().splitlines()]
    chosen = set(result.head.vocabulary.phrase_tokens[:, 0].tolist())
    counts = {token: sum(line.count(token) for line in lines) for token in range(3, 30)}
    assert len(chosen) == 7
    assert sum(counts[token] for token in chosen) > 0.8 * sum(sorted(counts.values())[-7:])


def test_a_killed_run_goes_on_to_the_same_chain_bit_for_bit(tmp_path, monkeypatch):
    whole, _ = run(tmp_path / "a")
    real, epochs = fit_module.replay, []

    def killed(*arguments):
        epochs.append(1)
        if len(epochs) == 3:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(fit_module, "replay", killed)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "b")
    monkeypatch.setattr(fit_module, "replay", real)
    resumed, output = run(tmp_path / "b")
    assert "going on after epoch 2" in output
    for name, weight in whole.head.scorer.state_dict().items():
        assert torch.equal(weight, resumed.head.scorer.state_dict()[name]), name


def test_the_kind_is_part_of_what_a_checkpoint_belongs_to(tmp_path):
    run(tmp_path, settings=with_overrides(SETTINGS, ["training.max_steps=2"]))
    _, output = run(tmp_path, settings=with_overrides(SETTINGS, ["training.max_steps=2", "head.num_steps=2"]))
    assert "going on" not in output


def test_of_phrases_that_are_given_only_the_single_tokens_are_entries(tmp_path):
    given = PhraseVocabulary.from_phrases([(token,) for token in range(3, 30)] + [(3, 4), (5, 6, 7)])
    result, output = run(tmp_path, vocabulary=given)
    assert "27 of 29 phrases are single tokens" in output
    assert result.head.vocabulary == vocabulary_of(*range(3, 30))


def test_phrases_without_a_single_token_teach_nothing(tmp_path):
    with pytest.raises(DataError, match="nothing can be learnt"):
        run(tmp_path, vocabulary=PhraseVocabulary.from_phrases([(3, 4)]))


def test_a_kind_that_is_none_is_refused_and_a_setting_without_effect_is_said():
    with pytest.raises(OptionError, match="`medusa`, it may be `phrase-head`, `token-chain`"):
        with_overrides(FitSettings(), ["head.kind=medusa"])
    with pytest.raises(OptionError, match="`num_steps` is 0"):
        HeadSettings(num_steps=0)
    with pytest.warns(UserWarning, match="`head.num_steps`, `head.num_draft_steps` has no effect on a phrase head"):
        kind_of(FitSettings(head=HeadSettings(num_steps=2, num_draft_steps=2)))
    assert FitSettings().head.kind == "phrase-head"
