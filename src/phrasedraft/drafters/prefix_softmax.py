"""How the scores of phrases become probabilities, when phrases begin with one another."""

from itertools import accumulate

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from phrasedraft.phrases.trie import PhraseTrie

SCORE_LIMIT = 60.0
"""Scores are cut here before they are exponentiated, so that a sum over thousands of them stays finite in float32."""


class PrefixSoftmax(nn.Module):
    """Turns one score a phrase into the probability that it is the *longest* phrase the text goes on with.

    `the`, `the number` and `the number of` are not rivals: the longer ones can only be right where the shorter ones
    are. So a phrase's score is compared with those of its siblings only, the phrases with the same longest proper
    prefix among the phrases (its parent), and with a fixed score of 0 for "the text leaves the phrases here". The
    probability of a phrase is the product of these choices from the empty prefix down, then of leaving. One softmax
    over all phrases has to share the first token's probability among everything that begins with it; here the first
    token has a softmax of its own, for the same number of parameters.
    """

    parents: Tensor
    groups: Tensor
    joined: Tensor
    order: Tensor
    places: Tensor
    parent_places: Tensor

    def __init__(self, trie: PhraseTrie) -> None:
        super().__init__()
        parents = _parents(trie)
        levels = _levels(parents)
        heads = sorted(set(parents))
        group = {parent: index for index, parent in enumerate(heads)}
        self.num_groups = len(heads)
        # The group of children of each phrase and, at the end, of the empty prefix; `num_groups` where there are none.
        self._keep("parents", parents)
        self._keep("groups", [group.get(node, self.num_groups) for node in [*range(len(parents)), -1]])
        self._keep("joined", [group[parent] for parent in parents])
        # Phrases with shallow ones first, so that a level is a slice, and where in this order each phrase is.
        self._keep("order", [phrase for level in levels for phrase in level])
        self._keep("places", torch.argsort(self.order).tolist())
        self._keep("parent_places", self.places[self.parents[self.order]].tolist())
        ends = list(accumulate(map(len, levels)))
        self.levels = [slice(end - len(level), end) for level, end in zip(levels, ends, strict=True)]

    def log_sums(self, scores: Float[Tensor, "batch phrase"]) -> Float[Tensor, "batch node"]:
        """The log of each node's normaliser: node i is phrase i, the last node the empty prefix."""
        return self._log_group_sums(scores.clamp(max=SCORE_LIMIT))[:, self.groups]

    def forward(self, scores: Float[Tensor, "batch phrase"]) -> Float[Tensor, "batch phrase"]:
        """The probability of each phrase to be the longest one that fits; the rest to 1 is "none of them"."""
        scores = scores.clamp(max=SCORE_LIMIT)
        log_sums = self._log_group_sums(scores)
        return self._reach(scores, log_sums) * (-log_sums).exp()[:, self.groups[:-1]]

    def reach(self, scores: Float[Tensor, "batch phrase"]) -> Float[Tensor, "batch phrase"]:
        """The probability of each phrase to fit, whether a longer one does or not; never above that of its parent."""
        scores = scores.clamp(max=SCORE_LIMIT)
        return self._reach(scores, self._log_group_sums(scores))

    def _reach(
        self, scores: Float[Tensor, "batch phrase"], log_sums: Float[Tensor, "batch group"]
    ) -> Float[Tensor, "batch phrase"]:
        reach = (scores - log_sums[:, self.joined]).exp()[:, self.order]
        for level in self.levels[1:]:
            reach[:, level] *= reach[:, self.parent_places[level]]
        return reach[:, self.places]

    def paths(self) -> Int[Tensor, "phrase level"]:
        """For each phrase, the phrases it begins with, itself included, shortest first; padded with -1."""
        lines = torch.full((len(self.parents), max(len(self.levels), 1)), -1, dtype=torch.long)
        for depth, level in enumerate(self.levels):
            phrases = self.order[level]
            if depth:
                lines[phrases] = lines[self.parents[phrases]]
            lines[phrases, depth] = phrases
        return lines

    def followers(self) -> list[Tensor]:
        """The children of each phrase, and of the empty prefix at the end."""
        num_phrases = len(self.parents)
        lists: list[list[int]] = [[] for _ in range(num_phrases + 1)]
        for phrase, parent in enumerate(self.parents.tolist()):
            lists[parent].append(phrase)
        return [torch.tensor(line, dtype=torch.long) for line in lists]

    def _log_group_sums(self, scores: Float[Tensor, "batch phrase"]) -> Float[Tensor, "batch group"]:
        """The log of each group's sum and of 1 for leaving; the last group is the empty one."""
        sums = scores.new_ones((len(scores), self.num_groups + 1))
        return sums.index_add(1, self.joined, scores.exp()).log()

    def _keep(self, name: str, values: list[int]) -> None:
        """Keep a list as a tensor that moves with the module and is not saved with it."""
        self.register_buffer(name, torch.tensor(values, dtype=torch.long), persistent=False)


def _parents(trie: PhraseTrie) -> list[int]:
    """The longest proper prefix of each phrase that is a phrase itself, -1 where there is none."""
    parents = [-1] * len(trie.order)
    nearest: list[int] = []  # for each node, the phrase that ends there or at its closest ancestor
    for parent, phrase in zip(trie.parents.tolist(), trie.phrase_ids.tolist(), strict=True):
        above = nearest[parent] if parent >= 0 else -1
        if phrase >= 0:
            parents[phrase] = above
        nearest.append(phrase if phrase >= 0 else above)
    return parents


def _levels(parents: list[int]) -> list[list[int]]:
    """The phrases by how many phrases they begin with, none first."""
    children: dict[int, list[int]] = {}
    for phrase, parent in enumerate(parents):
        children.setdefault(parent, []).append(phrase)
    levels = [children.get(-1, [])]
    while levels[-1]:
        levels.append([child for phrase in levels[-1] for child in children.get(phrase, [])])
    return levels[:-1]
