"""Verification: the target walks down the draft tree for as long as its own choice is there."""

from collections.abc import Callable
from dataclasses import dataclass

from phrasedraft.tree.draft_tree import DraftTree


@dataclass(frozen=True)
class Verification:
    """What one pass settled: the nodes on the accepted path, root first, and the target's own token after them."""

    path: tuple[int, ...]
    bonus_token: int

    @property
    def num_accepted_tokens(self) -> int:
        """How many draft tokens became part of the text."""
        return len(self.path) - 1


def walk(tree: DraftTree, choose: Callable[[int], int], commit: Callable[[int, bool], bool]) -> Verification:
    """Follow the child that carries the target's choice, node by node, until there is none or the text ends.

    `choose(node)` is the target's token after the node's path; it is called for walked nodes only, in order.
    `commit(token, was_drafted)` takes each chosen token in order and returns whether the text goes on. The token that
    ends a walk is the bonus token, also where the text ended on a token that was in the tree.

    >>> tree = DraftTree((5, 7, 8, 9), (-1, 0, 0, 1), (1.0,) * 4)
    >>> text = []
    >>> walk(tree, {0: 7, 1: 9, 3: 4}.__getitem__, lambda token, _: text.append(token) is None)
    Verification(path=(0, 1, 3), bonus_token=4)
    >>> text
    [7, 9, 4]
    """
    path = [0]
    while True:
        token = choose(path[-1])
        child = tree.children[path[-1]].get(token)
        goes_on = commit(token, child is not None)
        if child is None or not goes_on:
            return Verification(tuple(path), token)
        path.append(child)
