from dataclasses import replace

import pytest
import torch

from phrasedraft.errors import OptionError
from phrasedraft.training.losses import LossSettings, PhraseLoss
from synthetic import HIDDEN, make_head

PHRASES = [(5,), (5, 6), (5, 6, 7), (8,), (9, 9), (10,), (5, 11), (9, 9, 4, 4)]
LONGEST = torch.tensor([2, 0, 7, -1, 3, 1, 6, 4, 2])
OPEN_ENDED = torch.tensor([False, False, True, False, True, False, False, True, True])


def setting(settings):
    head = make_head(PHRASES)
    generator = torch.Generator().manual_seed(3)
    hidden, embedding = (torch.randn((len(LONGEST), HIDDEN), generator=generator) for _ in range(2))
    return head, PhraseLoss(head.normaliser, settings), hidden, embedding


ALL_SETTINGS = [LossSettings(), LossSettings(longest=0.0, mass=1.0), LossSettings(longest=0.3, mass=0.7)]


@pytest.mark.parametrize("settings", ALL_SETTINGS)
def test_the_loss_of_few_scores_has_the_value_and_gradients_of_the_loss_of_all(settings):
    head, loss, hidden, embedding = setting(settings)
    trunk = head.scorer.trunk(hidden, embedding)
    sparse = loss(head.scorer, trunk, LONGEST, OPEN_ENDED)
    dense = loss.dense(head.scorer.output(trunk), LONGEST, OPEN_ENDED)
    torch.testing.assert_close(sparse, dense)
    parameters = list(head.scorer.parameters())
    found = torch.autograd.grad(sparse, parameters, retain_graph=True)
    wanted = torch.autograd.grad(dense, parameters)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


def test_the_longest_part_is_the_negative_log_probability_of_the_longest_phrase():
    head, loss, hidden, embedding = setting(LossSettings())
    scores = head.scorer(hidden, embedding)
    probabilities = head.normaliser(scores)
    none = 1 - probabilities.sum(dim=1)
    wanted = torch.where(LONGEST >= 0, probabilities.gather(1, LONGEST.clamp(min=0)[:, None])[:, 0], none).log()
    found = loss.dense(scores, LONGEST, torch.zeros(len(LONGEST), dtype=torch.bool))
    torch.testing.assert_close(found, -wanted.mean(), atol=1e-5, rtol=1e-4)


def test_the_mass_part_is_the_mean_of_the_true_prefixes_masses():
    head, loss, hidden, embedding = setting(LossSettings(longest=0.0, mass=1.0))
    scores = head.scorer(hidden, embedding)
    probabilities = head.normaliser(scores)
    terms = []
    for row, longest in enumerate(LONGEST.tolist()):
        prefixes = [phrase for phrase in PHRASES if longest >= 0 and PHRASES[longest][: len(phrase)] == phrase]
        masses = [
            sum(probabilities[row, i] for i, phrase in enumerate(PHRASES) if phrase[: len(prefix)] == prefix)
            for prefix in prefixes
        ]
        terms.append(sum(-mass.log() for mass in masses) / len(masses) if masses else torch.zeros(()))
    torch.testing.assert_close(loss.dense(scores, LONGEST, OPEN_ENDED), torch.stack(terms).mean(), atol=1e-5, rtol=1e-4)


def test_leaving_is_not_learnt_where_the_text_is_cut_off():
    _, loss, _, _ = setting(LossSettings())
    closed = loss.choices(torch.tensor([0]), torch.tensor([False]))
    cut = loss.choices(torch.tensor([0]), torch.tensor([True]))
    assert sorted(zip(closed.nodes.tolist(), closed.phrases.tolist(), strict=True)) == [(0, -1), (8, 0)]
    assert list(zip(cut.nodes.tolist(), cut.phrases.tolist(), strict=True)) == [(8, 0)]


@pytest.mark.parametrize("wrong", [{"longest": -1.0}, {"longest": 0.0, "mass": 0.0}])
def test_weights_that_train_nothing_are_refused(wrong):
    with pytest.raises(OptionError, match="loss weights"):
        LossSettings(**wrong)


MANY = [(first,) for first in range(3, 63)] + [(5, second) for second in range(3, 63)]


def many_rows(num_rows=12):
    head = make_head(MANY)
    generator = torch.Generator().manual_seed(4)
    hidden, embedding = (torch.randn((num_rows, HIDDEN), generator=generator) for _ in range(2))
    longest = torch.randint(-1, len(MANY), (num_rows,), generator=generator)
    return head, head.scorer.trunk(hidden, embedding), longest, torch.zeros(num_rows, dtype=torch.bool)


@pytest.mark.parametrize("num_sampled", [60, 1000])
def test_a_sample_of_all_siblings_is_the_full_softmax(num_sampled):
    head, trunk, longest, open_ended = many_rows()
    sampled = PhraseLoss(head.normaliser, LossSettings(num_sampled=num_sampled))
    full = PhraseLoss(head.normaliser, LossSettings())
    assert torch.equal(sampled(head.scorer, trunk, longest, open_ended), full(head.scorer, trunk, longest, open_ended))


@pytest.mark.parametrize("settings", ALL_SETTINGS)
def test_sampled_siblings_give_the_full_loss_and_gradients_in_the_mean(settings):
    head, trunk, longest, open_ended = many_rows()
    parameters = [head.scorer.output.weight, head.scorer.output.bias]
    full = PhraseLoss(head.normaliser, settings)(head.scorer, trunk, longest, open_ended)
    wanted = torch.autograd.grad(full, parameters, retain_graph=True)
    sampled = PhraseLoss(head.normaliser, replace(settings, num_sampled=16))
    torch.manual_seed(0)
    losses, slopes = [], []
    for _ in range(300):
        loss = sampled(head.scorer, trunk, longest, open_ended)
        losses.append(loss.detach())
        slopes.append(torch.autograd.grad(loss, parameters, retain_graph=True))
    assert torch.stack(losses).std() > 1e-3  # each draw is another sample
    assert torch.stack(losses).mean() == pytest.approx(full.item(), rel=0.01)
    for index, gradient in enumerate(wanted):
        mean = torch.stack([slope[index] for slope in slopes]).mean(dim=0)
        assert (mean - gradient).norm() < 0.1 * gradient.norm()


def test_a_negative_sample_is_refused():
    with pytest.raises(OptionError, match="num_sampled"):
        LossSettings(num_sampled=-1)


@pytest.mark.parametrize("num_sampled", [0, 16])
def test_every_row_of_the_head_gets_a_gradient(num_sampled):
    head, trunk, longest, open_ended = many_rows(48)
    loss = PhraseLoss(head.normaliser, LossSettings(num_sampled=num_sampled))
    weight = torch.zeros_like(head.scorer.output.weight)
    for _ in range(40 if num_sampled else 1):
        total = loss(head.scorer, trunk, longest, open_ended)
        weight += torch.autograd.grad(total, head.scorer.output.weight, retain_graph=True)[0].abs()
    assert (weight.sum(dim=1) > 0).all()
