"""Growing draft trees: from the probabilities of phrases, or by merging paths that drafters propose."""

import heapq
from collections.abc import Iterable, Sequence

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from phrasedraft.phrases.trie import PhraseTrie
from phrasedraft.tree.draft_tree import DraftTree


class PhraseTreeBuilder:
    """Grows the best draft tree of a phrase vocabulary from a probability for each phrase.

    The value of a node is the probability mass of all phrases that begin with its path. Keeps the trie's index tensors
    on each device it has grown on.
    """

    def __init__(self, trie: PhraseTrie) -> None:
        self._trie = trie
        self._index: dict[torch.device, tuple[Tensor, Tensor, Tensor, Tensor]] = {}

    def grow(
        self, probabilities: Float[Tensor, " phrase"], root_token: int, num_draft_tokens: int, max_depth: int
    ) -> DraftTree:
        """The `num_draft_tokens` most probable nodes at most `max_depth` below the root, most probable first.

        Any first nodes of the tree are themselves the best tree of that size. Nodes of no probability are left out.
        """
        return self.grow_from(self.masses(probabilities), root_token, num_draft_tokens, max_depth)

    def masses(self, probabilities: Float[Tensor, " phrase"]) -> Float[Tensor, " node"]:
        """The probability of all phrases that begin with the path of each node of the trie."""
        order, first, last, _ = self._index_on(probabilities.device)
        # Monotone even where the device sums in another order, so no child can weigh more than its parent.
        sums = torch.nn.functional.pad(probabilities.double()[order].cumsum(0), (1, 0)).cummax(0).values
        return sums[last] - sums[first]

    def grow_from(
        self, masses: Float[Tensor, " node"], root_token: int, num_draft_tokens: int, max_depth: int
    ) -> DraftTree:
        """The same from the mass of each node of the trie."""
        num_nodes = int(np.searchsorted(self._trie.depths, max_depth, side="right"))  # shallow nodes come first
        size = min(num_draft_tokens, num_nodes)
        if size <= 0:
            return DraftTree.root_only(root_token)
        masses = masses[:num_nodes].double()
        rank = self._index_on(masses.device)[-1]
        best = torch.topk(masses * rank[:num_nodes], size, sorted=False).indices
        nodes, values = torch.stack([best.double(), masses[best]]).cpu().numpy()  # one copy off the device
        return self._tree(nodes.astype(np.int64), values, root_token)

    def _tree(
        self, nodes: Int64[np.ndarray, " node"], values: Float[np.ndarray, " node"], root_token: int
    ) -> DraftTree:
        """The tree of trie nodes; those whose parent is missing or that have no mass are left out."""
        by_value = np.lexsort((nodes, -values))
        new = {-1: 0}
        tokens, parents, kept = [root_token], [-1], [1.0]
        for node, value in zip(nodes[by_value].tolist(), values[by_value].tolist(), strict=True):
            parent = new.get(int(self._trie.parents[node]))
            if parent is None or not value > 0:
                continue
            new[node] = len(tokens)
            tokens.append(int(self._trie.tokens[node]))
            parents.append(parent)
            kept.append(min(value, kept[parent]))
        return DraftTree(tokens=tuple(tokens), parents=tuple(parents), values=tuple(kept))

    def _index_on(self, device: torch.device) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """`order`, `first`, `last` and a factor that ranks a parent before a child of the same mass."""
        if device not in self._index:
            trie = self._trie
            rank = 1.0 - 1e-9 * trie.depths
            order, first, last, factor = (
                torch.from_numpy(array).to(device) for array in (trie.order, trie.first, trie.last, rank)
            )
            self._index[device] = (order, first, last, factor)
        return self._index[device]


def merge(
    root_token: int,
    candidates: Iterable[tuple[Sequence[int], float]],
    num_draft_tokens: int,
    max_depth: int,
) -> DraftTree:
    """The best tree of paths below the root, each with the probability that it is right, most probable node first.

    Paths that begin alike share nodes; a node's value is the sum over the paths through it, at most its parent's.

    >>> tree = merge(5, [((7, 8), 0.5), ((7, 9), 0.2), ((4,), 0.1)], num_draft_tokens=3, max_depth=4)
    >>> tree.tokens, tree.parents, tree.values
    ((5, 7, 8, 9), (-1, 0, 1, 1), (1.0, 0.7, 0.5, 0.2))
    """
    children: list[dict[int, int]] = [{}]
    tokens, masses = [root_token], [1.0]
    for path, probability in candidates:
        node = 0
        for token in path[:max_depth] if probability > 0 else ():
            child = children[node].setdefault(token, len(tokens))
            if child == len(tokens):
                children.append({})
                tokens.append(token)
                masses.append(0.0)
            masses[child] += probability
            node = child
    new_tokens, parents, values = [root_token], [-1], [1.0]
    frontier = [(-min(masses[child], 1.0), child, 0) for child in children[0].values()]
    heapq.heapify(frontier)
    while frontier and len(new_tokens) <= num_draft_tokens:
        value, node, parent = heapq.heappop(frontier)
        new = len(new_tokens)
        new_tokens.append(tokens[node])
        parents.append(parent)
        values.append(-value)
        for child in children[node].values():
            heapq.heappush(frontier, (-min(masses[child], -value), child, new))
    return DraftTree(tokens=tuple(new_tokens), parents=tuple(parents), values=tuple(values))
