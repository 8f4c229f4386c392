"""A training run of a second: one answer learnt by heart in 4 epochs of 6 steps, replayed on the same answer."""

import io
import random
from dataclasses import replace
from pathlib import Path

import torch
from rich.console import Console

from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.evaluation.replay import replay
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.training.checkpoint import run_key
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import make_examples
from phrasedraft.training.losses import LossSettings
from phrasedraft.training.run import run_epochs
from phrasedraft.training.trainer import Trainer, TrainingSettings
from synthetic import SyntheticTarget, answer_of, head_config, recorded

SETTINGS = TrainingSettings(
    num_epochs=4,
    batch_size=10,
    learning_rate=1e-2,
    trunk_width=16,
    checkpoint_steps=4,
    loss=LossSettings(num_sampled=8),
)


class Setting:
    """A run on one answer: 4 epochs of 6 steps, replayed on the same answer."""

    def __init__(self, folder, *, shifted_by=0, num_draft_tokens=3, **changes):
        tokens = [*random.Random(1).sample(range(4, 64), k=60), 4]
        phrases = {tuple(tokens[start : start + size]) for start in range(1, 61) for size in (1, 2, 3)}
        self.vocabulary = PhraseVocabulary.from_phrases(sorted(phrases))
        self.trace = SyntheticTarget().trace(answer_of(tokens))
        examples = make_examples([self.trace], self.vocabulary, frozenset())
        examples = replace(examples, longest=examples.longest.roll(shifted_by))
        embedding = EmbeddingTable.of(examples.tokens, SyntheticTarget().embed)
        self.settings = replace(SETTINGS, **changes)
        self.trainer = Trainer(examples, embedding, self.vocabulary, self.settings)
        self.checkpoint = Path(folder) / "checkpoint.pt"
        self.budget = DraftBudget(num_draft_tokens=num_draft_tokens, max_depth=3)
        self.console = Console(file=io.StringIO(), width=200)
        self.num_replays = 0

    @property
    def output(self):
        return self.console.file.getvalue()

    def replayed(self, scorer):
        self.num_replays += 1
        head = PhraseHead(scorer=scorer, vocabulary=self.vocabulary, config=head_config())
        return replay(head, [recorded(self.trace)], self.budget, SyntheticTarget().embed)

    def run(self, replayed=None):
        training = {name: value for name, value in vars(self.settings).items() if name != "loss"}
        config = {"target_name": "synthetic", "provenance": {"command": "x", "settings": {"training": training}}}
        key = run_key(config, self.vocabulary.fingerprint)
        scorer, history = run_epochs(self.trainer, replayed or self.replayed, self.checkpoint, key, self.console)
        return scorer.state_dict(), history


def same(first, second):
    (weights, history), (other_weights, other_history) = first, second
    assert history == other_history
    for name, weight in weights.items():
        assert torch.equal(weight, other_weights[name]), name


def stopping_at(setting, step, act):
    """Calls `act` when the trainer has done `step` steps."""
    real = setting.trainer.run_epoch

    def run_epoch(number, *, start=0):
        for loss in real(number, start=start):
            if setting.trainer.num_steps == step:
                act()
            yield loss

    setting.trainer.run_epoch = run_epoch
    return setting


def killed():
    raise MemoryError  # as abrupt as a kill: nothing is saved on the way out
