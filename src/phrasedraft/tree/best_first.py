"""Growing a draft tree node by node, for drafters that know what follows a node only once it is in the tree."""

import heapq
from collections.abc import Callable, Iterable
from itertools import count
from typing import TypeVar

from phrasedraft.tree.draft_tree import DraftTree

Place = TypeVar("Place")


def grow_best_first(
    root_token: int,
    start: Place,
    followers: Callable[[Place], Iterable[tuple[int, float, Place]]],
    *,
    num_draft_tokens: int,
    max_depth: int,
    chain_only: bool = False,
) -> DraftTree:
    """The most probable nodes below the root, most probable first; one path where only a chain counts.

    `followers(place)` gives each token that may come next (once), its probability there, and the place after it. A
    node's value is the product along its path. It is asked once for each node of the tree, not for what was left out.

    >>> steps = {"a": [(7, 0.5, "b"), (4, 0.3, "c")], "b": [(8, 0.8, "c")], "c": []}
    >>> tree = grow_best_first(5, "a", steps.__getitem__, num_draft_tokens=3, max_depth=4)
    >>> tree.tokens, tree.parents, tree.values
    ((5, 7, 8, 4), (-1, 0, 1, 0), (1.0, 0.5, 0.4, 0.3))
    """
    tokens, parents, values, depths = [root_token], [-1], [1.0], [0]
    places = [start]
    frontier: list[tuple[float, int, int, int, Place]] = []
    order = count()  # the first of equals is taken first, and places are never compared
    node = 0
    while len(tokens) <= num_draft_tokens:
        if depths[node] < max_depth:
            options = followers(places[node])
            if chain_only:
                options = sorted(options, key=lambda option: -option[1])[:1]
            for token, probability, place in options:
                if probability > 0:
                    heapq.heappush(frontier, (-values[node] * min(probability, 1.0), next(order), token, node, place))
        if not frontier:
            break
        value, _, token, parent, place = heapq.heappop(frontier)
        node = len(tokens)
        tokens.append(token)
        parents.append(parent)
        values.append(-value)
        depths.append(depths[parent] + 1)
        places.append(place)
    return DraftTree(tokens=tuple(tokens), parents=tuple(parents), values=tuple(values))
