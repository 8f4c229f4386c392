"""One sequence in a transformers model: prefill, verify a tree, keep what was accepted."""

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from phrasedraft.target.cache import SequenceCache, Snapshot
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import Pass, Support
from phrasedraft.tree.draft_tree import DraftTree
from phrasedraft.tree.mask import ancestor_mask

PREFILL_CHUNK_TOKENS = 512
"""A prompt is read in pieces, so that the hidden states of all layers never exist for a long prompt at once."""

MAX_PENDING_TOKENS = 8
"""How many committed tokens may wait to be fed again to a recurrent target before they get a pass of their own."""


@runtime_checkable
class Host(Protocol):
    """What a sequence needs of its target."""

    @property
    def network(self) -> PreTrainedModel:
        """The modules to run."""
        ...

    @property
    def input_device(self) -> torch.device:
        """Where token ids go."""
        ...

    @property
    def support(self) -> Support:
        """What one pass of the target can check exactly at best."""
        ...

    @property
    def forward_parameters(self) -> frozenset[str]:
        """The keywords of the network's `forward`."""
        ...

    @property
    def rope_switch(self) -> int | None:
        """The longest sequence whose positions are rotated by the short factors, where there are longer ones."""
        ...


class TransformersSequence:
    """One sequence in the target's cache, which holds every committed token but the last.

    On recurrent targets a rejected draft cannot be removed from the state, so the state from before the pass comes
    back and the accepted tokens wait (`pending`) to be fed again in front of the next pass.
    """

    def __init__(self, host: Host, features: FeatureSpec, existing: DynamicCache | None = None) -> None:
        self._host = host
        self._features = features
        self._cache = SequenceCache(host.network, existing)
        self._pending: list[int] = []
        self._verified: tuple[DraftTree, int, Snapshot | None] | None = None

    @property
    def num_cached_tokens(self) -> int:
        """How many tokens were read."""
        return self._cache.length + len(self._pending)

    def support_for(self, num_nodes: int) -> Support:
        """What a pass over `num_nodes` nodes can check exactly from here."""
        switch, length = self._host.rope_switch, self.num_cached_tokens
        if switch is not None and length < switch < length + num_nodes:
            return Support.NOTHING  # the last rows of the pass would decide how the first ones are rotated
        if self._host.support is Support.TREE:
            return self._cache.support(num_nodes)
        return self._host.support

    def prefill(self, tokens: Sequence[int]) -> Pass:
        """Read `tokens` after what is cached: features of each of them, logits after the last one only."""
        num_pending = len(self._pending)
        waiting = [*self._pending, *tokens]
        self._pending = []
        hidden = []
        chunk_size = self._chunk_size(len(waiting))
        for start in range(0, len(waiting), chunk_size):
            chunk = waiting[start : start + chunk_size]
            result = self._forward(chunk, num_logits=1)
            self._cache.keep_last(len(chunk), range(len(chunk)))
            hidden.append(result.hidden)
        return Pass(result.logits, torch.cat(hidden)[num_pending:])

    def verify(self, tree: DraftTree) -> Pass:
        """Check a tree in one pass: a row for every node, in the tree's order."""
        num_nodes = len(tree.tokens)
        is_chain = tree.is_chain
        assert is_chain or self.support_for(num_nodes) is Support.TREE
        if len(self._pending) > MAX_PENDING_TOKENS:
            waiting, self._pending = self._pending, []
            self._forward(waiting, num_logits=1)
            self._cache.keep_last(len(waiting), range(len(waiting)))
        snapshot = self._cache.snapshot() if self._cache.is_recurrent and num_nodes > 1 else None
        tokens = [*self._pending, *tree.tokens]
        arguments = {} if is_chain else self._tree_arguments(tree)
        result = self._forward(tokens, num_logits=num_nodes, **arguments)
        self._verified = (tree, len(tokens), snapshot)
        return Pass(result.logits, result.hidden[-num_nodes:])

    def keep(self, path: Sequence[int]) -> None:
        """Keep the rows of the last verified tree on `path` (root first) in the cache; the rest leave it."""
        assert self._verified is not None
        assert path[0] == 0
        (tree, num_rows, snapshot), self._verified = self._verified, None
        num_pending = num_rows - len(tree.tokens)
        if snapshot is not None and len(path) < len(tree.tokens):
            self._cache.restore(snapshot)
            self._pending.extend(tree.tokens[node] for node in path)
            return
        self._pending = []
        self._cache.keep_last(num_rows, [*range(num_pending), *(num_pending + node for node in path)])

    def crop(self, num_tokens: int) -> bool:
        """Forget all but the first `num_tokens` tokens; False, with nothing changed, where the cache cannot."""
        if num_tokens == self.num_cached_tokens:
            return True
        return not self._pending and self._cache.crop(num_tokens)

    def _chunk_size(self, num_tokens: int) -> int:
        switch = self._host.rope_switch
        if switch is not None and self._cache.length + num_tokens > switch:
            return num_tokens  # read in pieces, the first ones would be rotated as in a shorter text
        if self._host.support is not Support.NOTHING:
            return PREFILL_CHUNK_TOKENS
        # This target reads several tokens exactly only from an empty cache, so never in a second piece.
        return num_tokens if self._cache.length == 0 else 1

    def _tree_arguments(self, tree: DraftTree) -> dict[str, Any]:
        network, device = self._host.network, self._host.input_device
        seen = ancestor_mask(tree, self._cache.length).to(device)
        mask = torch.zeros(seen.shape, dtype=network.dtype, device=device)
        mask.masked_fill_(~seen, torch.finfo(network.dtype).min)
        positions = torch.tensor([tree.depths], device=device) + self._cache.length
        return {"attention_mask": mask[None, None], "position_ids": positions}

    def _forward(self, tokens: Sequence[int], *, num_logits: int, **arguments: Any) -> Pass:
        if "logits_to_keep" in self._host.forward_parameters:
            arguments["logits_to_keep"] = num_logits
        output = self._host.network(
            input_ids=torch.tensor([list(tokens)], device=self._host.input_device),
            output_hidden_states=bool(self._features.layers),
            **self._cache.forward_arguments,
            **arguments,
        )
        self._cache.grown(len(tokens))
        return Pass(output.logits[0, -num_logits:], self._hidden(output, len(tokens)))

    def _hidden(self, output: Any, num_rows: int) -> Float[Tensor, "row feature"]:
        if not self._features.layers:
            return output.logits.new_empty((num_rows, 0))  # type: ignore[no-any-return]
        return self._features.select(output.hidden_states)
