"""What can be asked for the next token at any node of a draft tree: a drafter without a tree of its own."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from phrasedraft.drafters.protocol import Drafter
from phrasedraft.tree.draft_tree import DraftTree

MOST_CANDIDATES = 8
"""The most tokens one source proposes after one node."""


class Candidate(NamedTuple):
    """A token that may come next.

    `probability` is what the source makes of it; `strength` puts proposals into classes of their own, such as the
    length of the match behind them, because they are not equally reliable.
    """

    token: int
    probability: float
    strength: int = 0


@runtime_checkable
class Source(Drafter, Protocol):
    """A drafter that can also be asked node by node, so that it goes on from what another source proposed."""

    def root(self, state: Any) -> Any:
        """Where it stands at the last committed token: its own place, which is None where it has nothing to say."""
        ...

    def after(self, state: Any, place: Any, token: int) -> Any:
        """Where it stands after a further token; None as for `root`. Never changes `state` or `place`."""
        ...

    def candidates(self, state: Any, place: Any) -> Sequence[Candidate]:
        """What may come next at a place, each token once, `MOST_CANDIDATES` at most."""
        ...


class PlantedTree:
    """The tree that a drafter proposed for one pass, such as a head's, as a source: places are its nodes.

    The probability of a node after its parent is the quotient of their values.
    """

    def __init__(self, tree: DraftTree) -> None:
        self._tree = tree

    def after(self, node: int | None, token: int) -> int | None:
        """The child of `node` with this token, None where there is none."""
        return None if node is None else self._tree.children[node].get(token)

    def candidates(self, node: int) -> list[Candidate]:
        """The children of a node."""
        values = self._tree.values
        above = max(values[node], 1e-9)
        children = self._tree.children[node].items()
        return [Candidate(token, min(values[child] / above, 1.0)) for token, child in children]
