"""The algebra of draft trees: cutting, chains and children, over random trees."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from phrasedraft.tree.draft_tree import DraftTree


@st.composite
def parts(draw, max_nodes=14):
    """Tokens, parents and values of a tree: siblings carry different tokens, values fall from parent to child."""
    tokens, parents, values = [draw(st.integers(0, 20))], [-1], [1.0]
    for node in range(1, draw(st.integers(1, max_nodes))):
        parent = draw(st.integers(0, node - 1))
        taken = {tokens[other] for other in range(1, node) if parents[other] == parent}
        tokens.append(draw(st.integers(0, 40).filter(lambda token, taken=taken: token not in taken)))
        parents.append(parent)
        values.append(values[parent] * draw(st.floats(0.0, 1.0)))
    return tuple(tokens), tuple(parents), tuple(values)


def paths_of(tree):
    """The token path of every node: what the tree says, however its nodes are numbered."""
    paths = [(tree.tokens[0],)]
    for node in range(1, len(tree.tokens)):
        paths.append((*paths[tree.parents[node]], tree.tokens[node]))
    return paths


@given(parts())
def test_depth_is_the_length_of_the_path(parts):
    tree = DraftTree(*parts)
    assert list(tree.depths) == [len(path) - 1 for path in paths_of(tree)]


@given(parts())
def test_children_are_found_by_the_token_they_carry(parts):
    tree = DraftTree(*parts)
    found = {(node, child) for node, children in enumerate(tree.children) for child in children.values()}
    assert found == {(parent, node) for node, parent in enumerate(tree.parents) if node}
    assert all(tree.tokens[child] == token for children in tree.children for token, child in children.items())


@given(parts(), st.integers(0, 6))
def test_a_cut_keeps_exactly_the_nodes_that_are_not_too_deep(parts, max_depth):
    tree = DraftTree(*parts)
    cut = tree.cut(max_depth)
    kept = [node for node, depth in enumerate(tree.depths) if depth <= max_depth]
    assert paths_of(cut) == [paths_of(tree)[node] for node in kept]
    assert cut.values == tuple(tree.values[node] for node in kept)
    assert cut.cut(max_depth) == cut


@given(parts(), st.integers(0, 6), st.integers(0, 6))
def test_cutting_twice_is_cutting_at_the_smaller_depth(parts, first, second):
    tree = DraftTree(*parts)
    assert tree.cut(first).cut(second) == tree.cut(min(first, second))


@given(parts())
def test_the_best_chain_is_a_path_of_the_tree_that_ends_at_a_leaf(parts):
    tree = DraftTree(*parts)
    chain = tree.best_chain()
    assert chain.is_chain
    paths = paths_of(tree)
    assert paths_of(chain)[-1] in paths
    assert not tree.children[paths.index(paths_of(chain)[-1])]
    assert chain.best_chain() == chain


@given(parts())
def test_the_best_chain_follows_the_most_probable_child(parts):
    tree = DraftTree(*parts)
    chain, node = tree.best_chain(), 0
    for token, value in zip(chain.tokens[1:], chain.values[1:], strict=True):
        assert value == max(tree.values[child] for child in tree.children[node].values())
        node = tree.children[node][token]


@given(parts())
def test_a_tree_is_a_chain_where_no_node_has_two_children(parts):
    tree = DraftTree(*parts)
    assert tree.is_chain == (list(tree.depths) == list(range(len(tree.tokens))))
    assert not tree.is_chain or all(len(children) <= 1 for children in tree.children)


def test_a_root_alone_drafts_nothing_and_is_a_chain():
    tree = DraftTree.root_only(7)
    assert (tree.tokens, tree.num_draft_tokens, tree.depths, tree.children) == ((7,), 0, (0,), ({},))
    assert tree.is_chain
    assert tree.cut(0) is tree
    assert tree.best_chain() is tree


def test_a_chain_is_made_of_its_tokens_and_values():
    tree = DraftTree.chain((3, 4, 5), (1.0, 0.5, 0.25))
    assert tree.parents == (-1, 0, 1)
    assert tree.values == (1.0, 0.5, 0.25)
    assert DraftTree.chain((3, 4)).values == (1.0, 1.0)


@pytest.mark.parametrize(
    ("tokens", "parents", "values"),
    [
        ((), (), ()),
        ((1, 2), (-1,), (1.0, 1.0)),
        ((1, 2), (-1, 0), (1.0,)),
        ((1, 2), (0, 0), (1.0, 1.0)),
        ((1, 2), (-1, 1), (1.0, 1.0)),
        ((1, 2, 3), (-1, 2, 0), (1.0, 1.0, 1.0)),
        ((1, 2), (-1, -1), (1.0, 1.0)),
    ],
)
def test_a_malformed_tree_cannot_be_made(tokens, parents, values):
    with pytest.raises(AssertionError):
        DraftTree(tokens, parents, values)


@given(parts(), st.integers(0, 16))
def test_the_first_nodes_of_a_tree_are_a_tree(parts, count):
    tree = DraftTree(*parts)
    first = tree.first(count)
    assert first.num_draft_tokens == min(count, tree.num_draft_tokens)
    assert paths_of(first) == paths_of(tree)[: count + 1]
    assert first.values == tree.values[: count + 1]
    assert count < tree.num_draft_tokens or first is tree
