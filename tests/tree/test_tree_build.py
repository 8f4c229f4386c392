from collections import defaultdict

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from phrasedraft.phrases import PhraseVocabulary
from phrasedraft.tree.build import PhraseTreeBuilder, merge
from phrasedraft.tree.draft_tree import DraftTree

ROOT = 99
phrase_lists = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=5).map(tuple), max_size=25, unique=True)
sizes = st.integers(0, 12)
depths = st.integers(0, 6)


def paths_of(tree: DraftTree) -> list[tuple[int, ...]]:
    paths: list[tuple[int, ...]] = [()]
    for node in range(1, len(tree.tokens)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return paths


def masses_by_adding_up(phrases, probabilities, max_depth) -> dict[tuple[int, ...], float]:
    """The slow reference: every prefix of every phrase, and the sum of what begins with it."""
    masses: dict[tuple[int, ...], float] = defaultdict(float)
    for phrase, probability in zip(phrases, probabilities, strict=True):
        for end in range(1, min(len(phrase), max_depth) + 1):
            masses[phrase[:end]] += probability
    return masses


@st.composite
def weighted_phrases(draw):
    phrases = draw(phrase_lists)
    weights = draw(st.lists(st.integers(0, 20), min_size=len(phrases), max_size=len(phrases)))
    total = max(sum(weights), 1)
    return phrases, [weight / total for weight in weights]


def assert_best_first(tree: DraftTree, masses, num_draft_tokens) -> None:
    """The tree holds a best choice of nodes, its values are their masses, and its order is theirs."""
    paths = paths_of(tree)[1:]
    assert len(set(paths)) == len(paths)
    assert list(tree.values[1:]) == pytest.approx([masses[path] for path in paths], abs=1e-12)
    best = sorted((mass for mass in masses.values() if mass > 0), reverse=True)[:num_draft_tokens]
    assert list(tree.values[1:]) == pytest.approx(best, abs=1e-12)
    assert all(tree.values[node] <= tree.values[tree.parents[node]] for node in range(1, len(tree.tokens)))


@given(weighted_phrases(), sizes, depths)
def test_a_grown_tree_holds_the_prefixes_of_most_mass(weighted, num_draft_tokens, max_depth):
    phrases, probabilities = weighted
    builder = PhraseTreeBuilder(PhraseVocabulary.from_phrases(phrases).trie)
    tree = builder.grow(torch.tensor(probabilities, dtype=torch.float64), ROOT, num_draft_tokens, max_depth)
    assert tree.tokens[0] == ROOT
    assert_best_first(tree, masses_by_adding_up(phrases, probabilities, max_depth), num_draft_tokens)


@given(weighted_phrases(), sizes, depths)
def test_merged_paths_make_the_tree_that_growing_makes(weighted, num_draft_tokens, max_depth):
    phrases, probabilities = weighted
    tree = merge(ROOT, zip(phrases, probabilities, strict=True), num_draft_tokens, max_depth)
    assert_best_first(tree, masses_by_adding_up(phrases, probabilities, max_depth), num_draft_tokens)


@given(weighted_phrases(), depths)
def test_the_first_nodes_of_a_tree_are_the_smaller_tree(weighted, max_depth):
    phrases, probabilities = weighted
    builder = PhraseTreeBuilder(PhraseVocabulary.from_phrases(phrases).trie)
    whole = builder.grow(torch.tensor(probabilities), ROOT, 12, max_depth)
    for size in range(12):
        smaller = builder.grow(torch.tensor(probabilities), ROOT, size, max_depth)
        assert smaller.values == whole.values[: size + 1]


@settings(max_examples=15)
@given(st.integers(0, 2**31), st.sampled_from([torch.float16, torch.bfloat16, torch.float32]))
def test_a_real_vocabulary_size_keeps_parents_ahead_of_children_in_any_precision(seed, dtype):
    generator = torch.Generator().manual_seed(seed)
    phrases = torch.randint(0, 12, (3000, 6), generator=generator).tolist()
    phrases = [phrase[: 1 + index % 6] for index, phrase in enumerate(phrases)]
    vocabulary = PhraseVocabulary.from_phrases(phrases)
    logits = torch.randn(len(vocabulary), generator=generator) * 4
    probabilities = logits.softmax(0).to(dtype)
    tree = PhraseTreeBuilder(vocabulary.trie).grow(probabilities, ROOT, 200, 6)
    listed = [vocabulary.expand(phrase_id) for phrase_id in range(len(vocabulary))]
    masses = masses_by_adding_up(listed, probabilities.double().tolist(), 6)
    assert tree.num_draft_tokens == 200
    expected = [min(masses[path], 1.0) for path in paths_of(tree)[1:]]
    assert list(tree.values[1:]) == pytest.approx(expected, abs=1e-9)
    assert min(tree.values) >= sorted(masses.values())[-201] - 1e-9


def test_a_certain_phrase_is_drafted_whole_though_all_its_nodes_tie():
    builder = PhraseTreeBuilder(PhraseVocabulary.from_phrases([tuple(range(24)), (50,), (51, 52)]).trie)
    for size in range(1, 25):
        tree = builder.grow(torch.tensor([1.0, 0.0, 0.0]), ROOT, size, 24)
        assert tree.tokens == (ROOT, *range(size))


@pytest.mark.parametrize("probabilities", [[0.0, 0.0], [float("nan"), 0.5], [float("nan")] * 2])
def test_no_probability_drafts_nothing_or_less_but_always_a_tree(probabilities):
    builder = PhraseTreeBuilder(PhraseVocabulary.from_phrases([(1, 2), (3,)]).trie)
    tree = builder.grow(torch.tensor(probabilities), ROOT, 4, 4)
    assert tree == DraftTree.root_only(ROOT)


def test_an_empty_vocabulary_or_budget_drafts_nothing():
    empty = PhraseTreeBuilder(PhraseVocabulary.from_phrases([]).trie)
    assert empty.grow(torch.zeros(0), ROOT, 8, 8) == DraftTree.root_only(ROOT)
    some = PhraseTreeBuilder(PhraseVocabulary.from_phrases([(1,)]).trie)
    assert some.grow(torch.ones(1), ROOT, 0, 8) == some.grow(torch.ones(1), ROOT, 8, 0) == DraftTree.root_only(ROOT)
    assert merge(ROOT, [], 8, 8) == merge(ROOT, [((), 1.0), ((3,), 0.0)], 8, 8) == DraftTree.root_only(ROOT)


def test_paths_of_several_sources_share_nodes_and_never_outweigh_their_parent():
    tree = merge(ROOT, [((1, 2), 0.6), ((1, 2, 3), 0.7), ((4,), 0.2)], num_draft_tokens=8, max_depth=8)
    assert paths_of(tree) == [(), (1,), (1, 2), (1, 2, 3), (4,)]
    assert tree.values == (1.0, 1.0, 1.0, 0.7, 0.2)
