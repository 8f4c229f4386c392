"""How often what was proposed turned out right: the correction of probabilities, learnt while decoding."""

from bisect import bisect_right
from collections.abc import Hashable

EDGES = (0.01, 0.03, 0.08, 0.2, 0.4, 0.6, 0.8, 0.92, 0.98)
"""Probabilities between two of these are corrected alike."""


class Reliability:
    """Corrects probabilities by what became of earlier ones of the same class and the same size.

    A class is whatever shares a fate: a source, a depth, the length of a match. Of each class and size the sum of the
    probabilities and the number of hits are kept; their quotient is the correction, held near 1 by `prior` imaginary
    hits as long as little is known. When the sum exceeds `horizon`, both are halved: what was seen long ago fades,
    so that a class that has become useless loses its probability within a few hundred tokens, and may win it back.
    """

    def __init__(self, *, prior: float = 2.0, horizon: float = 40.0) -> None:
        self._prior, self._horizon = prior, horizon
        self._seen: dict[Hashable, list[list[float]]] = {}

    def corrected(self, kind: Hashable, probability: float) -> float:
        """The share of such proposals that come true, below 1."""
        sizes = self._seen.get(kind)
        if sizes is None:
            return min(probability, 0.999)
        hits, expected = sizes[bisect_right(EDGES, probability)]
        return min(probability * (hits + self._prior) / (expected + self._prior), 0.999)

    def learn(self, kind: Hashable, probability: float, hit: bool) -> None:
        """Take note of what became of one proposal, given as it was before any correction."""
        sizes = self._seen.get(kind)
        if sizes is None:
            sizes = self._seen[kind] = [[0.0, 0.0] for _ in range(len(EDGES) + 1)]
        cell = sizes[bisect_right(EDGES, probability)]
        cell[0] += hit
        cell[1] += probability
        if cell[1] > self._horizon:
            cell[0] *= 0.5
            cell[1] *= 0.5
