"""How a phrase chain learns: every step is a phrase head's, one token further on."""

import io
import random
from dataclasses import replace

import pytest
import torch
from rich.console import Console

from phrasedraft.drafters import PhraseChain, load_head
from phrasedraft.drafters.composed_output import RowSettings
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.evaluation.replay import replay
from phrasedraft.phrases import PhraseVocabulary, VocabularySettings
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.fit import fit
from phrasedraft.training.fit_settings import FitSettings, HeadSettings, ReplaySettings
from phrasedraft.training.losses import LossSettings
from phrasedraft.training.phrase_chain_learner import PhraseChainLearner
from phrasedraft.training.trainer import Trainer, TrainingSettings
from synthetic import EOS, SyntheticTarget, answer_of, head_config, recorded, write_corpus

PHRASES = [(token,) for token in range(4, 16)] + [(4, 5), (4, 5, 6), (7, 8), (9, 4)]


COMPOSED = RowSettings(rows="composed", num_own_rows=4)


def learning(responses, phrases, num_steps=3, rows=None, text_window=0, **changes):
    traces = [SyntheticTarget().trace(answer_of(tokens)) for tokens in responses]
    vocabulary = PhraseVocabulary.from_phrases(phrases)
    learner = PhraseChainLearner(vocabulary, LossSettings(), num_steps, num_steps, rows, text_window)
    examples = learner.examples(traces, frozenset({EOS}))
    embedding = EmbeddingTable.of(torch.tensor([1, 3, *examples.tokens, *sum(phrases, ())]), SyntheticTarget().embed)
    settings = TrainingSettings(
        num_epochs=60, batch_size=20, learning_rate=1e-2, trunk_width=32, dropout=0.0, input_noise=0.0, average=0.9
    )
    return traces, learner, Trainer(examples, embedding, vocabulary, replace(settings, **changes), learner)


def test_a_row_is_followed_by_the_next_token_alone_and_never_by_another_answer():
    _, _, trainer = learning([[9, 4, 5, 40, 4], [7], [8, 8, 5]], PHRASES)
    examples = trainer.examples
    entry = {token: index for index, token in enumerate(range(4, 16))}
    assert examples.tokens.tolist() == [9, 4, 5, 40, 8, 8]
    assert examples.following.tolist() == [entry[4], entry[5], -1, -1, entry[8], -1]


def test_the_loss_is_that_of_a_phrase_head_at_every_step():
    tokens = random.Random(2).choices(range(4, 18), k=40)
    _, learner, trainer = learning([tokens, tokens[::-1]], PHRASES)
    scorer, examples = trainer.trained(), trainer.examples
    rows = torch.arange(len(examples))
    trunk = scorer.trunk(examples.hidden[rows], trainer.embedding(examples.tokens))
    wanted, alive = torch.zeros(()), [(int(row), trunk[row]) for row in rows]
    for _ in range(3):
        places = torch.tensor([place for place, _ in alive])
        scores = scorer.output(torch.stack([state for _, state in alive]))
        each = learner._loss.dense(scores, examples.longest[places], examples.open_ended[places])
        wanted = wanted + each * len(alive)
        alive = [
            (place + 1, scorer.advance(state[None], examples.following[place][None])[0])
            for place, state in alive
            if examples.following[place] >= 0
        ]
    found = learner.loss(scorer, trunk, examples, rows).item()
    assert found == pytest.approx(wanted.item() / len(rows), rel=1e-5)


@pytest.mark.parametrize(
    ("rows", "phrases", "text_window"), [(None, PHRASES[:12], 0), (COMPOSED, PHRASES, 0), (None, PHRASES[:12], 300)]
)
def test_every_weight_learns(rows, phrases, text_window):
    _, learner, trainer = learning([random.Random(3).choices(range(4, 16), k=400)], phrases, 3, rows, text_window)
    scorer, examples = trainer.scorer, trainer.examples
    text = examples.view(torch.arange(len(examples)), scorer.reader, trainer.embedding)
    trunk = scorer.trunk(examples.hidden[:], trainer.embedding(examples.tokens), text)
    learner.loss(scorer, trunk, examples, torch.arange(len(examples)), text).backward()
    assert all(bool(weight.grad.abs().sum() > 0) for weight in scorer.parameters())


@pytest.mark.parametrize(("rows", "text_window"), [(None, 0), (COMPOSED, 0), (COMPOSED, 100)])
def test_one_answer_is_learnt_by_heart_to_the_last_step(rows, text_window):
    tokens = random.Random(1).choices(range(4, 60), k=61)
    singles = [(token,) for token in sorted(set(tokens))]
    traces, learner, trainer = learning([tokens], singles, 3, rows, text_window)
    for epoch in range(trainer.settings.num_epochs):
        for _ in trainer.run_epoch(epoch):
            pass
    head = learner.head(trainer.trained(), head_config())
    assert (head.config.kind, head.config.num_steps) == ("phrase_chain", 3)
    stats = replay(head, [recorded(traces[0])], DraftBudget(num_draft_tokens=3, max_depth=3), SyntheticTarget().embed)
    assert stats.mean_acceptance_length > 3.5


@pytest.mark.parametrize("rows", [RowSettings(), COMPOSED])
def test_a_recipe_makes_a_phrase_chain_that_saves_passes_on_answers_it_never_saw(tmp_path, rows):
    draw = random.Random(0)
    sentences = [draw.sample(range(3, 30), 5) for _ in range(6)]
    texts = [[token for _ in range(4) for token in draw.choice(sentences)] for _ in range(40)]
    corpus = write_corpus(tmp_path / "train.jsonl", [answer_of(text, name=f"t-{i}") for i, text in enumerate(texts)])
    settings = FitSettings(
        head=HeadSettings(kind="phrase-chain", num_steps=3, num_draft_steps=3, **vars(rows)),
        vocabulary=VocabularySettings(num_phrases=60, min_answers=1),
        training=TrainingSettings(num_epochs=4, batch_size=64, learning_rate=1e-2, trunk_width=32),
        replay=ReplaySettings(held_out_share=0.2, num_draft_tokens=(4, 8)),
    )
    phrases = [(token,) for token in range(3, 30)] + [tuple(each[:2]) for each in sentences]
    target = SyntheticTarget()
    target.tokenizer = None  # the phrases are given
    result = fit(
        target,
        [corpus],
        tmp_path / "head",
        settings,
        work=tmp_path / "work",
        command="phrasedraft fit",
        vocabulary=PhraseVocabulary.from_phrases(sorted(set(phrases))),
        console=Console(file=io.StringIO()),
    )
    assert result.replayed["train"][8].mean_acceptance_length > 2.0
    loaded = load_head(tmp_path / "head")
    assert isinstance(loaded, PhraseChain)
    assert loaded.config.output == rows
    assert loaded.num_parameters == result.head.num_parameters
    assert "# Phrase chain for `synthetic`" in (tmp_path / "head" / "README.md").read_text()
