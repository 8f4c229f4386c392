"""The target's own distribution as label of the first token."""

import io
import random
from dataclasses import replace

import pytest
import torch
from rich.console import Console

import fitted
from kit import plain, target_of
from phrasedraft import Stopping
from phrasedraft.errors import OptionError
from phrasedraft.phrases import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.training.chain_learner import ChainLearner
from phrasedraft.training.examples import EmbeddingTable
from phrasedraft.training.losses import LossSettings, PhraseLoss
from phrasedraft.training.phrase_chain_learner import PhraseChainLearner
from phrasedraft.training.phrase_learner import PhraseLearner
from phrasedraft.training.settings import with_overrides
from phrasedraft.training.teacher import NextTokens, SoftLabels, soft_labels
from phrasedraft.training.traces import collect_traces, read_traces
from phrasedraft.training.trainer import Trainer, TrainingSettings
from synthetic import EOS, HIDDEN, SyntheticTarget, answer_of, make_head

PHRASES = [(5,), (5, 6), (5, 6, 7), (8,), (10,), (5, 11)]
LONGEST = torch.tensor([2, 0, 3, -1, 4, 1, 5, 2])
OPEN_ENDED = torch.tensor([False, False, True, False, False, False, True, True])
QUIET = Console(file=io.StringIO())


def weights_and_loss(soft, **settings):
    head = make_head(PHRASES)
    generator = torch.Generator().manual_seed(3)
    hidden, embedding = (torch.randn((len(LONGEST), HIDDEN), generator=generator) for _ in range(2))
    loss = PhraseLoss(head.normaliser, LossSettings(soft=soft, **settings))
    return head, loss, head.scorer.trunk(hidden, embedding)


def random_labels():
    generator = torch.Generator().manual_seed(5)
    entries = torch.tensor([[0, 3, -1], [3, 4, 0], [4, 0, 3], [-1, 0, 4]] * 2)
    shares = torch.rand((8, 3), generator=generator)
    return SoftLabels(entries, shares / shares.sum(dim=1, keepdim=True))


@pytest.mark.parametrize("settings", [{}, {"mass": 0.7, "longest": 0.3}])
@pytest.mark.parametrize("soft", [0.0, 0.4, 1.0])
def test_the_first_token_is_learnt_from_true_token_and_shares_and_nothing_else_changes(soft, settings):
    head, loss, trunk = weights_and_loss(soft, **settings)
    labels = random_labels()
    found = loss(head.scorer, trunk, LONGEST, OPEN_ENDED, labels)
    hard = loss.dense(head.scorer.output(trunk), LONGEST, OPEN_ENDED)
    first = torch.cat([head.scorer.output(trunk)[:, [0, 3, 4]], torch.zeros(8, 1)], dim=1).log_softmax(dim=1)
    place = {-1: 3, 0: 0, 1: 0, 2: 0, 3: 1, 4: 2, 5: 0}
    wanted = hard
    weight = loss.choices(LONGEST, OPEN_ENDED)
    at_root = {
        int(row): float(each)
        for row, node, each in zip(weight.rows, weight.nodes, weight.weights, strict=True)
        if node == 6
    }
    for row, longest in enumerate(LONGEST.tolist()):
        if row not in at_root:
            continue
        softened = sum(
            share * first[row, place[entry]]
            for entry, share in zip(labels.entries[row].tolist(), labels.shares[row], strict=True)
        )
        wanted = wanted + soft * at_root[row] * (first[row, place[longest]] - softened) / len(LONGEST)
    torch.testing.assert_close(found, wanted)
    parameters = list(head.scorer.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(found, parameters, retain_graph=True),
        torch.autograd.grad(wanted, parameters),
        atol=1e-5,
        rtol=1e-4,
    )


@pytest.mark.parametrize("kind", [PhraseLearner, PhraseChainLearner, ChainLearner])
def test_labels_stand_at_the_row_whose_next_token_they_are_of_at_every_step(kind):
    """Shares that all lie on the true token are the true token: with them the loss is what it is without."""
    draw = random.Random(4)
    traces = [SyntheticTarget().trace(answer_of([*draw.choices(range(4, 20), k=length), EOS])) for length in (9, 1, 14)]
    traces.append(SyntheticTarget().trace(answer_of(draw.choices(range(4, 20), k=8))))
    phrases = [(token,) for token in range(4, 16)] + [(4, 5)] * (kind is not ChainLearner)
    vocabulary = PhraseVocabulary.from_phrases(phrases)

    def loss_of(soft):
        steps = () if kind is PhraseLearner else (3, 3)
        learner = kind(vocabulary, LossSettings(soft=soft), *steps)
        examples = learner.examples(traces, frozenset({EOS}))
        true = torch.tensor([token for trace in traces for token in trace.tokens[1:]])[:, None]
        examples = replace(examples, soft=NextTokens(true, torch.full(true.shape, 0.7)).labels(vocabulary))
        embedding = EmbeddingTable.of(examples.tokens, SyntheticTarget().embed)
        trainer = Trainer(examples, embedding, vocabulary, TrainingSettings(trunk_width=16), learner)
        scorer, rows = trainer.trained(), torch.arange(len(examples))
        trunk = scorer.trunk(examples.hidden[rows], embedding(examples.tokens))
        return learner.loss(scorer, trunk, examples, rows)

    torch.testing.assert_close(loss_of(1.0), loss_of(0.0))


@pytest.fixture(scope="module")
def traced(tmp_path_factory):
    target, layers = target_of("llama"), (1, -1)
    answers = []
    for place, prompt in enumerate(([5, 9, 17], [3, 3, 8, 21, 4], [40])):
        tokens = plain(target, stopping=Stopping(max_new_tokens=24), prompt=prompt).tokens
        answers.append(answer_of(tokens, name=str(place), prompt=prompt))
    folder = tmp_path_factory.mktemp("traces")
    collect_traces(target, answers, FeatureSpec(layers=layers), folder, console=QUIET)
    return target, layers, read_traces(folder, answers, layers)


def test_the_likeliest_next_token_is_the_one_the_target_took(traced):
    target, layers, traces = traced
    true = [token for trace in traces for token in trace.tokens[1:]]
    vocabulary = PhraseVocabulary.from_phrases([(token,) for token in sorted(set(true))[::2]])
    labels = soft_labels(target, traces, layers, vocabulary, QUIET)
    assert labels.shares.shape == (len(true), 8)
    torch.testing.assert_close(labels.shares.sum(dim=1), torch.ones(len(true)))
    entry = {vocabulary.expand(index)[0]: index for index in range(len(vocabulary))}
    agree = [first == entry.get(token, -1) for first, token in zip(labels.entries[:, 0].tolist(), true, strict=True)]
    assert sum(agree) / len(agree) > 0.95  # traces are rounded to fp16
    assert 0.2 < (labels.entries[:, 0] >= 0).float().mean() < 0.8


def test_what_cannot_have_soft_labels_is_refused(traced, monkeypatch):
    target, layers, traces = traced
    vocabulary = PhraseVocabulary.from_phrases([(5,)])
    with pytest.raises(OptionError, match="need the layer that the language-model head reads, -1; traced are"):
        soft_labels(target, traces, (1, 2), vocabulary, QUIET)
    with pytest.raises(OptionError, match="does not say what its hidden states mean"):
        soft_labels(SyntheticTarget(), traces, layers, vocabulary, QUIET)
    said = target.next_logits
    monkeypatch.setattr(target, "next_logits", lambda states: 0.3 * said(states))
    with pytest.raises(OptionError, match="it changes its logits afterwards"):
        soft_labels(target, traces, layers, vocabulary, QUIET)


@pytest.mark.parametrize(
    ("settings", "message"),
    [({"soft": 1.5}, "`soft` is 1.5, it must be from 0"), ({"soft": 0.5, "num_sampled": 9}, "leave one of them at 0")],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(OptionError, match=message) as caught:
        LossSettings(**settings)
    assert caught.value.hint is None or "0" in caught.value.hint


def test_a_recipe_with_soft_labels_makes_a_head_that_saves_passes(tmp_path):
    path = fitted.corpus(tmp_path, fitted.questions())
    settings = with_overrides(fitted.SETTINGS, ["training.loss.soft=0.5"])
    result = fitted.fitted(path, tmp_path, settings)
    assert result.replayed["train"][8].mean_acceptance_length > 1.3
