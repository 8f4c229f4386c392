"""What is seen from a state of a phrase chain, against the softmax over everything."""

import random

import pytest
import torch

from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.drafters.sight import ROOT, Entries
from phrasedraft.phrases.vocabulary import PhraseVocabulary


def vocabulary_of(seed, num_phrases=60):
    draw = random.Random(seed)
    phrases = {tuple(draw.choices(range(12), k=draw.randint(1, 5))) for _ in range(num_phrases)}
    closed = {phrase[:length] for phrase in phrases for length in range(1, len(phrase) + 1)}
    return PhraseVocabulary.from_phrases(draw.sample(sorted(closed), len(closed)))


def all_seen(sight, entry=ROOT):
    for child, token, value in sight.after(entry):
        yield child, token, value
        yield from all_seen(sight, child)


@pytest.mark.parametrize("seed", range(5))
def test_every_entry_is_as_probable_as_in_the_softmax_over_all(seed):
    vocabulary = vocabulary_of(seed)
    torch.manual_seed(seed)
    scores = torch.randn(3, len(vocabulary)) * 3
    scores[1, 0] = 500.0  # cut, as in training
    reach = PrefixSoftmax(vocabulary.trie).reach(scores)
    for row, sight in zip(reach, Entries(vocabulary).look(scores, len(vocabulary)), strict=True):
        seen = list(all_seen(sight))
        assert sorted(child for child, _, _ in seen) == (row > 0).nonzero()[:, 0].tolist()
        for child, token, value in seen:
            assert vocabulary.expand(child)[-1] == token
            assert value == pytest.approx(float(row[child]), rel=1e-4, abs=1e-30)


def test_only_the_most_probable_are_kept():
    vocabulary = vocabulary_of(9, 200)
    scores = torch.randn(1, len(vocabulary))
    few, many = (Entries(vocabulary).look(scores, most)[0] for most in (3, 1000))
    for entry, _, _ in few.after(ROOT):
        wanted = sorted(many.after(entry), key=lambda seen: -seen[2])[:3]
        assert sorted(few.after(entry)) == sorted(wanted)
    assert max(len(many.after(entry)) for entry, _, _ in many.after(ROOT)) > 3


def test_scores_that_are_not_finite_show_nothing():
    vocabulary = vocabulary_of(1)
    scores = torch.zeros(2, len(vocabulary))
    scores[1] = float("nan")
    assert Entries(vocabulary).look(scores, 4) is None
