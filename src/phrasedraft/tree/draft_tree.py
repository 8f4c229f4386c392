"""The draft tree: what a drafter proposes and the target checks in one pass."""

from dataclasses import dataclass
from functools import cached_property


@dataclass(frozen=True)
class DraftTree:
    """Draft tokens arranged by who follows whom; node 0 is the root, the last committed token.

    `parents[node]` is the node a node follows, -1 for the root, and always smaller than `node`. Siblings carry
    different tokens. `values[node]` is the drafter's probability that the node is accepted, 1 for the root and never
    above the parent's.

    >>> tree = DraftTree(tokens=(5, 7, 8, 9), parents=(-1, 0, 0, 1), values=(1.0, 0.6, 0.3, 0.5))
    >>> tree.num_draft_tokens, tree.depths, tree.children[0]
    (3, (0, 1, 1, 2), {7: 1, 8: 2})
    """

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        assert len(self.tokens) == len(self.parents) == len(self.values) >= 1
        assert self.parents[0] == -1
        assert all(0 <= parent < node for node, parent in enumerate(self.parents[1:], start=1))

    @classmethod
    def root_only(cls, token: int) -> "DraftTree":
        """The tree that drafts nothing: the target decodes one token from `token`."""
        return cls(tokens=(token,), parents=(-1,), values=(1.0,))

    @classmethod
    def chain(cls, tokens: tuple[int, ...], values: tuple[float, ...] | None = None) -> "DraftTree":
        """One path: `tokens[0]` is the root, each further token follows the one before it."""
        return cls(tokens=tokens, parents=tuple(range(-1, len(tokens) - 1)), values=values or (1.0,) * len(tokens))

    @property
    def num_draft_tokens(self) -> int:
        """How many nodes the target checks beside the root."""
        return len(self.tokens) - 1

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """The number of steps from the root to each node."""
        depths = [0] * len(self.parents)
        for node in range(1, len(depths)):
            depths[node] = depths[self.parents[node]] + 1
        return tuple(depths)

    @cached_property
    def children(self) -> tuple[dict[int, int], ...]:
        """For each node, the child node by the token it carries."""
        children: tuple[dict[int, int], ...] = tuple({} for _ in self.tokens)
        for node in range(1, len(self.tokens)):
            children[self.parents[node]].setdefault(self.tokens[node], node)
        return children

    @property
    def is_chain(self) -> bool:
        """Whether the tree is a single path."""
        return all(parent == node - 1 for node, parent in enumerate(self.parents))

    def cut(self, max_depth: int) -> "DraftTree":
        """The nodes at most `max_depth` steps below the root; deeper drafts could not be used."""
        if max(self.depths) <= max_depth:
            return self
        return self._select([node for node, depth in enumerate(self.depths) if depth <= max_depth])

    def first(self, num_draft_tokens: int) -> "DraftTree":
        """The root and the first so many nodes, a tree as parents come first; all of it where there are no more."""
        if num_draft_tokens >= self.num_draft_tokens:
            return self
        stop = num_draft_tokens + 1
        return DraftTree(tokens=self.tokens[:stop], parents=self.parents[:stop], values=self.values[:stop])

    def best_chain(self) -> "DraftTree":
        """The path that follows the most probable child from the root down."""
        if self.is_chain:
            return self
        path = [0]
        while self.children[path[-1]]:
            path.append(max(self.children[path[-1]].values(), key=lambda node: (self.values[node], -node)))
        return self._select(path)

    def _select(self, nodes: list[int]) -> "DraftTree":
        """The sub-tree of `nodes`, which are ascending and hold every parent of every member."""
        new = {node: index for index, node in enumerate(nodes)}
        return DraftTree(
            tokens=tuple(self.tokens[node] for node in nodes),
            parents=tuple(new.get(self.parents[node], -1) for node in nodes),
            values=tuple(self.values[node] for node in nodes),
        )
