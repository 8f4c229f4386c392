"""The prefix tree of a phrase vocabulary, as arrays: exact prefix masses take one cumulative sum."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int32, Int64


@dataclass(frozen=True, eq=False)
class PhraseTrie:
    """Every prefix of every phrase once, root left out, shallow nodes first, so that parents precede children.

    `order` sorts the phrases by their tokens. The phrases that begin with a node's path are `order[first:last]`, so the
    probability that a path is right is the mass between `first` and `last` of a cumulative sum over `order`.
    `parents` is -1 for nodes that hang on the root; `depths` counts steps below the root, from 1;
    `phrase_ids` is the phrase that ends at the node, -1 where none does.

    >>> trie = PhraseTrie.of(np.array([[7, 8], [5, -1], [7, 9], [7, -1]], dtype=np.int32))
    >>> trie.tokens.tolist(), trie.parents.tolist(), trie.phrase_ids.tolist()
    ([5, 7, 8, 9], [-1, -1, 1, 1], [1, 3, 0, 2])
    >>> trie.order.tolist(), trie.first.tolist(), trie.last.tolist()
    ([1, 3, 0, 2], [0, 1, 2, 3], [1, 4, 3, 4])
    """

    tokens: Int64[np.ndarray, " trie_node"]
    parents: Int64[np.ndarray, " trie_node"]
    depths: Int64[np.ndarray, " trie_node"]
    first: Int64[np.ndarray, " trie_node"]
    last: Int64[np.ndarray, " trie_node"]
    phrase_ids: Int64[np.ndarray, " trie_node"]
    order: Int64[np.ndarray, " phrase"]

    def __len__(self) -> int:
        return len(self.tokens)

    @classmethod
    def of(cls, phrase_tokens: Int32[np.ndarray, "phrase token"]) -> "PhraseTrie":
        """The trie of phrases padded with -1, which no two rows may share."""
        num_phrases, max_tokens = phrase_tokens.shape
        order = np.lexsort(phrase_tokens.T[::-1]) if max_tokens else np.arange(num_phrases)
        sorted_tokens = phrase_tokens[order].astype(np.int64)
        # A cell differs where its row leaves the path of the row above at or before that column.
        differs = np.ones((num_phrases, max_tokens), dtype=np.bool_)
        differs[1:] = np.logical_or.accumulate(sorted_tokens[1:] != sorted_tokens[:-1], axis=1)
        opens = differs & (sorted_tokens >= 0)
        columns, first = np.nonzero(opens.T)  # column by column: shallow nodes first, then by row
        node_of_cell = np.cumsum(opens.T).reshape(max_tokens, num_phrases) - 1
        parents = np.full(len(first), -1, dtype=np.int64)
        deep = columns > 0
        parents[deep] = node_of_cell[columns[deep] - 1, first[deep]]
        last = _next_difference(differs)[columns, first]
        lengths = (sorted_tokens >= 0).sum(axis=1)
        ends_here = lengths[first] == columns + 1  # a phrase sorts before those that extend it
        return cls(
            tokens=sorted_tokens[first, columns],
            parents=parents,
            depths=columns.astype(np.int64) + 1,
            first=first.astype(np.int64),
            last=last,
            phrase_ids=np.where(ends_here, order[first], -1),
            order=order.astype(np.int64),
        )


def _next_difference(differs: np.ndarray) -> Int64[np.ndarray, "token phrase"]:
    """For each column and row, the next row below that differs there, or the number of rows."""
    num_phrases, max_tokens = differs.shape
    rows = np.where(differs, np.arange(num_phrases)[:, None], num_phrases)
    below = np.full((num_phrases, max_tokens), num_phrases, dtype=np.int64)
    below[:-1] = np.minimum.accumulate(rows[::-1], axis=0)[::-1][1:]
    return below.T
