"""Finding phrases in tokens: the longest phrase at each position, and a text as a sequence of phrases."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int, Int64

from phrasedraft.errors import DataError
from phrasedraft.phrases.vocabulary import PhraseVocabulary


class PhraseMatcher:
    """Matches the phrases of one vocabulary, always the longest that fits.

    >>> matcher = PhraseMatcher(PhraseVocabulary.from_phrases([(7,), (7, 8), (9,)]))
    >>> matcher.segment([7, 8, 9, 7])
    [1, 2, 0]
    """

    def __init__(self, vocabulary: PhraseVocabulary) -> None:
        self._lengths: list[int] = vocabulary.lengths.tolist()
        trie = vocabulary.trie
        self._phrase_ids = trie.phrase_ids
        self._max_tokens = vocabulary.max_tokens
        # An edge is the pair (parent, token) as one number; nodes are numbered from 1 here so that 0 is the root.
        self._num_tokens = int(trie.tokens.max(initial=0)) + 1
        edges = (trie.parents + 1) * self._num_tokens + trie.tokens
        self._nodes = np.argsort(edges)
        self._edges = edges[self._nodes]

    def segment(self, tokens: Sequence[int]) -> list[int]:
        """The phrases that spell `tokens`, each the longest at its place.

        `DataError` names the token at which no phrase begins.
        """
        phrase_ids, position = list[int](), 0
        longest = self._longest(tokens).tolist()
        while position < len(longest):
            phrase_id = longest[position]
            if phrase_id < 0:
                raise DataError(
                    f"no phrase matches at position {position}, token `{tokens[position]}`",
                    hint="use a vocabulary that holds every token of the text as a phrase of its own",
                )
            phrase_ids.append(phrase_id)
            position += self._lengths[phrase_id]
        return phrase_ids

    def covers(self, tokens: Sequence[int]) -> bool:
        """Whether `segment` finds phrases for all of `tokens`."""
        position, longest = 0, self._longest(tokens).tolist()
        while position < len(longest) and longest[position] >= 0:
            position += self._lengths[longest[position]]
        return position == len(longest)

    def longest_at_each(
        self, tokens: Int[np.ndarray, " position"], offsets: Int[np.ndarray, " bound"]
    ) -> Int64[np.ndarray, " position"]:
        """The longest phrase that begins at each position and ends within the same answer, -1 where there is none.

        `tokens` holds the answers end to end; answer `a` is `tokens[offsets[a]:offsets[a + 1]]`, so there is one bound
        more than there are answers.
        """
        assert offsets[0] == 0
        assert offsets[-1] == len(tokens)
        ends = np.repeat(offsets[1:], np.diff(offsets)).astype(np.int64)
        longest = np.full(len(tokens), -1, dtype=np.int64)
        positions = np.arange(len(tokens))
        nodes = np.zeros(len(tokens), dtype=np.int64)
        for depth in range(self._max_tokens):
            inside = positions + depth < ends[positions]
            positions, nodes = positions[inside], nodes[inside]
            nodes = self._follow(nodes, tokens[positions + depth])
            found = nodes > 0
            positions, nodes = positions[found], nodes[found]
            phrase_ids = self._phrase_ids[nodes - 1]
            ends_here = phrase_ids >= 0
            longest[positions[ends_here]] = phrase_ids[ends_here]
        return longest

    def _longest(self, tokens: Sequence[int]) -> Int64[np.ndarray, " position"]:
        return self.longest_at_each(np.asarray(tokens, dtype=np.int64), np.array([0, len(tokens)]))

    def _follow(
        self, nodes: Int64[np.ndarray, " position"], tokens: Int[np.ndarray, " position"]
    ) -> Int64[np.ndarray, " position"]:
        """The child of each node (0 is the root) by a token, 0 where it has none."""
        if not len(self._edges):
            return np.zeros_like(nodes)
        edges = nodes * self._num_tokens + tokens
        places = np.minimum(np.searchsorted(self._edges, edges), len(self._edges) - 1)
        known = (self._edges[places] == edges) & (tokens >= 0) & (tokens < self._num_tokens)
        return np.where(known, self._nodes[places] + 1, 0)
