"""The ancestor mask is the reflexive, transitive closure of `parents`, behind a context that everyone sees."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft.tree.draft_tree import DraftTree
from phrasedraft.tree.mask import ancestor_mask

PARENTS = st.lists(st.integers(0, 30), max_size=20).map(
    lambda numbers: (-1, *(number % (node + 1) for node, number in enumerate(numbers)))
)


def tree_with(parents):
    return DraftTree(tuple(range(len(parents))), tuple(parents), (1.0,) * len(parents))


@given(PARENTS)
def test_a_node_sees_its_ancestors_and_itself_and_nothing_else(parents):
    mask = ancestor_mask(tree_with(parents))
    for node in range(len(parents)):
        ancestors, above = {node}, node
        while above:
            above = parents[above]
            ancestors.add(above)
        assert set(torch.nonzero(mask[node])[:, 0].tolist()) == ancestors


@given(PARENTS)
def test_the_mask_is_reflexive_antisymmetric_and_transitive(parents):
    mask = ancestor_mask(tree_with(parents)).int()
    assert mask.diagonal().all()
    assert torch.equal(mask * mask.T, torch.eye(len(parents), dtype=torch.int32))
    assert torch.equal((mask @ mask).clamp_max(1), mask)


@given(PARENTS)
def test_a_row_has_as_many_entries_as_the_node_is_deep(parents):
    tree = tree_with(parents)
    assert ancestor_mask(tree).sum(dim=1).tolist() == [depth + 1 for depth in tree.depths]


@given(PARENTS, st.integers(0, 5))
def test_every_node_sees_the_whole_context(parents, num_context_tokens):
    tree = tree_with(parents)
    mask = ancestor_mask(tree, num_context_tokens)
    assert mask.dtype == torch.bool
    assert mask.shape == (len(parents), num_context_tokens + len(parents))
    assert mask[:, :num_context_tokens].all()
    assert torch.equal(mask[:, num_context_tokens:], ancestor_mask(tree))


def test_a_chain_is_causal():
    assert torch.equal(ancestor_mask(DraftTree.chain((4, 5, 6))).int(), torch.ones(3, 3).tril().int())
