"""Masses straight from scores are those of summing over everything below."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasedraft.drafters.node_masses import NodeMasses
from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.tree.build import PhraseTreeBuilder


def closed(phrases):
    """The phrases with all their beginnings."""
    return PhraseVocabulary.from_phrases({phrase[:size] for phrase in phrases for size in range(1, len(phrase) + 1)})


@settings(deadline=None)
@given(
    st.sets(st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple), min_size=1, max_size=30), st.integers(0, 99)
)
def test_masses_are_the_sums_over_all_phrases_below(phrases, seed):
    vocabulary = closed(sorted(phrases))
    scores = 3 * torch.randn(len(vocabulary), generator=torch.Generator().manual_seed(seed))
    masses = NodeMasses(vocabulary.trie)
    assert masses.is_closed
    wanted = PhraseTreeBuilder(vocabulary.trie).masses(PrefixSoftmax(vocabulary.trie)(scores[None])[0])
    torch.testing.assert_close(masses.of(scores).double(), wanted, atol=1e-6, rtol=1e-4)


def test_no_node_weighs_more_than_its_parent_and_large_scores_stay_finite():
    vocabulary = closed([(1, 2, 3), (1, 2, 4), (5, 6)])
    scores = torch.full((len(vocabulary),), 1e4)
    masses = NodeMasses(vocabulary.trie).of(scores)
    assert torch.isfinite(masses).all()
    parents = torch.from_numpy(vocabulary.trie.parents)
    deep = parents >= 0
    assert (masses[deep] <= masses[parents[deep]]).all()
    assert scores[0] == 1e4  # the scores are as they were


@pytest.mark.parametrize(("phrases", "is_closed"), [([(1,), (1, 2)], True), ([(1, 2)], False), ([(3,)], True)])
def test_whether_every_node_is_a_phrase_is_known(phrases, is_closed):
    assert NodeMasses(PhraseVocabulary.from_phrases(phrases).trie).is_closed is is_closed


def test_a_score_that_is_not_a_number_is_seen_in_the_masses():
    vocabulary = closed([(1, 2), (3,)])
    scores = torch.tensor([0.0, float("nan"), 0.0])
    assert not torch.isfinite(NodeMasses(vocabulary.trie).of(scores)).all()
