"""What is seen from a state of a phrase chain: first tokens at once, what may follow them when it is asked for.

A tree has room for a few nodes, so of thousands of entries few are ever looked at: only the choice of the first token
is a softmax over many, and the siblings below a token are compared when that token is in the tree. The numbers are
those of `PrefixSoftmax.reach`.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor

from phrasedraft.drafters.prefix_softmax import SCORE_LIMIT
from phrasedraft.phrases.vocabulary import PhraseVocabulary

ROOT: Final = -1
"""Stands for no entry yet."""

Seen = tuple[int, int, float]
"""An entry, its last token, and the probability that the text goes on with it."""


class Entries:
    """The entries of a vocabulary that holds every beginning of an entry, by the entry they go on from.

    `single` gives the entry of each token that is one by itself.
    """

    def __init__(self, vocabulary: PhraseVocabulary) -> None:
        trie = vocabulary.trie
        parents = np.where(trie.parents < 0, ROOT, trie.phrase_ids[trie.parents])
        starts = np.flatnonzero(np.diff(parents, prepend=ROOT - 1))  # siblings lie together
        groups = zip(np.split(trie.phrase_ids, starts[1:]), np.split(trie.tokens, starts[1:]), strict=True)
        self._children = dict(zip(parents[starts].tolist(), groups, strict=True)) if len(trie) else {}
        first, tokens = self._children.get(ROOT, (trie.phrase_ids, trie.tokens))
        self._first, self._first_entries, self._first_tokens = torch.from_numpy(first), first.tolist(), tokens.tolist()
        self.single: dict[int, int] = dict(zip(self._first_tokens, self._first_entries, strict=True))

    def look(self, scores: Float[Tensor, "node phrase"], most: int) -> "list[Sight] | None":
        """What is seen from each of some nodes, `most` tokens after each entry; None where a score is not finite."""
        scores = scores.clamp(max=SCORE_LIMIT)
        self._first = self._first.to(scores.device)
        first = scores.index_select(1, self._first)
        log_sums = torch.logaddexp(first.logsumexp(dim=1), first.new_zeros(len(first)))  # the last choice is to leave
        if not torch.isfinite(log_sums).all():
            return None
        found = torch.topk(first, min(most, first.shape[1]), dim=1)
        values, places = (found.values - log_sums[:, None]).exp().tolist(), found.indices.tolist()
        entries, tokens = self._first_entries, self._first_tokens
        return [
            Sight(
                self,
                row,
                [(entries[at], tokens[at], value) for value, at in zip(each, where, strict=True) if value > 0],
                most,
            )
            for row, each, where in zip(scores.cpu().numpy(), values, places, strict=True)
        ]

    def after(self, entry: int) -> tuple[Int64[np.ndarray, " child"], Int64[np.ndarray, " child"]] | None:
        """The entries one token longer than `entry` and these tokens; None where there are none."""
        return self._children.get(entry)


class Sight:
    """What is seen from one node."""

    def __init__(
        self, entries: Entries, scores: Float32[np.ndarray, " phrase"], first: Sequence[Seen], most: int
    ) -> None:
        self._entries, self._scores, self._most = entries, scores, most
        self._seen: dict[int, Sequence[Seen]] = {ROOT: first}
        self._values = {entry: value for entry, _, value in first}

    def after(self, entry: int) -> Sequence[Seen]:
        """What is one token longer than an entry that was seen, the most probable of it."""
        if entry not in self._seen:
            self._seen[entry] = self._compare(entry)
            self._values.update({child: value for child, _, value in self._seen[entry]})
        return self._seen[entry]

    def _compare(self, entry: int) -> Sequence[Seen]:
        children = self._entries.after(entry)
        if children is None:
            return ()
        ids, tokens = children
        weights = np.exp(self._scores[ids])
        values = weights * (self._values[entry] / (1 + weights.sum()))
        if len(ids) > self._most:
            best = np.argpartition(values, -self._most)[-self._most :]
            ids, tokens, values = ids[best], tokens[best], values[best]
        return [each for each in zip(ids.tolist(), tokens.tolist(), values.tolist(), strict=True) if each[2] > 0]
