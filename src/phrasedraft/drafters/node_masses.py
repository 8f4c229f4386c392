"""From scores straight to the masses of a trie's nodes, where every beginning of a phrase is a phrase.

Then a node's mass, the probability of all phrases that begin with its path, is the probability of its phrase to fit:
the product of the choices among siblings down to it. That is `PrefixSoftmax.reach`, for one row and in the order in
which a tree is grown, without a sum over everything below.
"""

import itertools

import torch
from jaxtyping import Float
from torch import Tensor

from phrasedraft.drafters.prefix_softmax import SCORE_LIMIT
from phrasedraft.phrases.trie import PhraseTrie


class NodeMasses:
    """The masses of all nodes of a trie whose nodes are all phrases (`is_closed`); keeps its indices on one device."""

    def __init__(self, trie: PhraseTrie) -> None:
        self.is_closed = bool((trie.phrase_ids >= 0).all())
        self._phrases = torch.from_numpy(trie.phrase_ids)
        self._parents = torch.from_numpy(trie.parents)
        self._groups = self._parents + 1  # children of the root are group 0, those of node i group i + 1
        ends = torch.bincount(torch.from_numpy(trie.depths)).cumsum(0).tolist()
        self._levels = [slice(start, end) for start, end in itertools.pairwise(ends[1:])]  # all but the first

    def place(self, device: torch.device) -> None:
        """Move to where the scores are."""
        self._phrases, self._parents, self._groups = (
            each.to(device) for each in (self._phrases, self._parents, self._groups)
        )

    def of(self, scores: Float[Tensor, " phrase"]) -> Float[Tensor, " node"]:
        """The mass of each node, never above that of its parent."""
        weights = scores.index_select(0, self._phrases).clamp_(max=SCORE_LIMIT).exp_()
        sums = weights.new_ones(len(weights) + 1).index_add_(0, self._groups, weights)
        masses = weights.div_(sums.index_select(0, self._groups))
        for level in self._levels:
            masses[level] *= masses.index_select(0, self._parents[level])
        return masses
