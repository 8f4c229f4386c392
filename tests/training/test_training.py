import copy
import random
from dataclasses import replace
from itertools import islice

import pytest
import torch

from phrasedraft.drafters.phrase_head import PhraseHead
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.replay import replay
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.training.calibration import TEMPERATURES, calibrate
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import make_examples
from phrasedraft.training.losses import LossSettings
from phrasedraft.training.trainer import Trainer, TrainingSettings
from synthetic import SyntheticTarget, answer_of, head_config, recorded

BUDGET = DraftBudget(num_draft_tokens=3, max_depth=3)


def one_answer(length=61, seed=1):
    """An answer without order, so that only its own hidden states say how it goes on, and its phrases of 1 to 3."""
    tokens = random.Random(seed).choices(range(4, 60), k=length)
    phrases = {tuple(tokens[start : start + size]) for start in range(1, length) for size in (1, 2, 3)}
    vocabulary = PhraseVocabulary.from_phrases(sorted(phrases))
    return SyntheticTarget().trace(answer_of(tokens)), vocabulary


def trainer_for(trace, vocabulary, *, examples=None, **settings):
    examples = examples or make_examples([trace], vocabulary, frozenset())
    embedding = EmbeddingTable.of(examples.tokens, SyntheticTarget().embed)
    defaults = TrainingSettings(
        num_epochs=40, batch_size=60, learning_rate=1e-2, trunk_width=32, average=0.0, dropout=0.0, input_noise=0.0
    )
    return Trainer(examples, embedding, vocabulary, replace(defaults, **settings))


def trained_head(trainer, vocabulary):
    for epoch in range(trainer.settings.num_epochs):
        list(trainer.run_epoch(epoch))
    return PhraseHead(scorer=trainer.trained(), vocabulary=vocabulary, config=head_config())


def mean_acceptance_length(head, trace):
    return replay(head, [recorded(trace)], BUDGET, SyntheticTarget().embed).mean_acceptance_length


@pytest.mark.parametrize(
    "loss", [LossSettings(), LossSettings(longest=0.0, mass=1.0), LossSettings(longest=0.5, mass=0.5)]
)
def test_a_head_that_overfits_one_answer_has_nearly_every_draft_accepted(loss):
    trace, vocabulary = one_answer()
    head = trained_head(trainer_for(trace, vocabulary, loss=loss), vocabulary)
    assert mean_acceptance_length(head, trace) > 3.6  # 4 is the most: three drafted tokens and the bonus token


def test_labels_shifted_by_one_row_leave_nothing_to_accept():
    trace, vocabulary = one_answer()
    examples = make_examples([trace], vocabulary, frozenset())
    shifted = replace(examples, longest=examples.longest.roll(-1))
    head = trained_head(trainer_for(trace, vocabulary, examples=shifted), vocabulary)
    assert mean_acceptance_length(head, trace) < 1.5


def test_every_parameter_gets_a_gradient():
    trace, vocabulary = one_answer()
    trainer = trainer_for(trace, vocabulary)
    before = {name: weight.clone() for name, weight in trainer.scorer.named_parameters()}
    next(trainer.run_epoch(0))
    for name, weight in trainer.scorer.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.abs().sum() > 0, name
        assert not torch.equal(weight, before[name]), name


def test_the_same_seed_trains_the_same_head_and_another_seed_another():
    trace, vocabulary = one_answer()
    settings = {"num_epochs": 2, "dropout": 0.1, "input_noise": 0.1, "average": 0.9}
    first, second, other = (
        trained_head(trainer_for(trace, vocabulary, **settings, seed=seed), vocabulary) for seed in (3, 3, 4)
    )
    assert torch.equal(first.scorer.output.weight, second.scorer.output.weight)
    assert not torch.equal(first.scorer.output.weight, other.scorer.output.weight)


def test_training_leaves_the_random_numbers_of_the_caller_alone():
    trace, vocabulary = one_answer()
    torch.manual_seed(7)
    wanted = torch.rand(3)
    torch.manual_seed(7)
    trained_head(trainer_for(trace, vocabulary, num_epochs=1, dropout=0.1), vocabulary)
    assert torch.equal(torch.rand(3), wanted)


@pytest.mark.parametrize("num_done", [0, 1, 5])
def test_a_run_that_is_taken_up_inside_an_epoch_ends_with_the_same_weights(num_done):
    trace, vocabulary = one_answer()
    settings = {"num_epochs": 3, "batch_size": 10, "dropout": 0.1, "input_noise": 0.1, "average": 0.9}
    settings["loss"] = LossSettings(num_sampled=8)
    whole = trainer_for(trace, vocabulary, **settings)
    for epoch in range(3):
        list(whole.run_epoch(epoch))
    killed = trainer_for(trace, vocabulary, **settings)
    list(killed.run_epoch(0))
    list(islice(killed.run_epoch(1), num_done))
    torch.rand(3)  # what others draw in between does not matter
    resumed = trainer_for(trace, vocabulary, **settings)
    resumed.load_state_dict(copy.deepcopy(killed.state_dict()))
    losses = [*resumed.run_epoch(1, start=num_done), *resumed.run_epoch(2)]
    assert len(losses) == 12 - num_done
    for name, weight in whole.trained().state_dict().items():
        assert torch.equal(weight, resumed.trained().state_dict()[name]), name


def test_the_number_of_steps_can_be_limited_and_the_learning_rate_ends_with_it():
    trace, vocabulary = one_answer()
    trainer = trainer_for(trace, vocabulary, num_epochs=3, batch_size=10, max_steps=8)
    rates = []
    for epoch in range(3):
        rates += [trainer.learning_rate for _ in trainer.run_epoch(epoch)]
    assert len(rates) == trainer.num_steps == trainer.total_steps == 8
    assert rates[-1] == pytest.approx(0.01 * trainer.settings.learning_rate)


def test_the_trained_scorer_takes_inputs_as_the_target_gives_them():
    trace, vocabulary = one_answer()
    trainer = trainer_for(trace, vocabulary)
    hidden, embedding = trace.hidden[:-1].float(), trainer.embedding(trainer.examples.tokens)
    trainer.scorer.eval()
    torch.testing.assert_close(
        trainer.trained()(hidden, embedding), trainer.scorer(*trainer.standardise(hidden, embedding)), atol=1e-4, rtol=0
    )


def test_a_loss_that_is_not_finite_stops_the_run():
    trace, vocabulary = one_answer()
    trace.hidden[:] = float("nan")
    with pytest.raises(DataError, match="training loss is nan at step 1"):
        next(trainer_for(trace, vocabulary).run_epoch(0))


def test_rows_that_no_phrase_follows_are_refused():
    trace, _ = one_answer()
    with pytest.raises(DataError, match="none of the 60 rows goes on with a phrase"):
        trainer_for(trace, PhraseVocabulary.from_phrases([(62,), (63, 62)]))


def test_overconfident_scores_are_cooled_down():
    trace, vocabulary = one_answer()
    trainer = trainer_for(trace, vocabulary, num_epochs=20)
    trained_head(trainer, vocabulary)
    scorer, examples = trainer.trained(), trainer.examples
    surprising = replace(examples, longest=examples.longest.roll(5))
    assert calibrate(scorer, trainer.normaliser, examples, trainer.embedding) == TEMPERATURES[0]
    assert calibrate(scorer, trainer.normaliser, surprising, trainer.embedding) > 1.5


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"num_epochs": 0}, "num_epochs"),
        ({"dropout": 1.0}, "dropout"),
        ({"learning_rate": 0.0}, "learning_rate"),
        ({"max_steps": -1}, "max_steps"),
        ({"patience": -1}, "patience"),
        ({"window_rows": 0}, "window_rows"),
        ({"checkpoint_steps": 0}, "checkpoint_steps"),
        ({"logger": "paper"}, "may be `none`, `jsonl`, `tensorboard`, `wandb`, `trackio`"),
    ],
)
def test_a_setting_that_may_not_be_is_refused_by_name(wrong, name):
    with pytest.raises(OptionError, match=name):
        TrainingSettings(**wrong)
