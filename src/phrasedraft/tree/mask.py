"""The ancestor mask: it makes every node see the prompt, its own path, and nothing else."""

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from phrasedraft.tree.draft_tree import DraftTree


def ancestor_mask(tree: DraftTree, num_context_tokens: int = 0) -> Bool[Tensor, "node seen"]:
    """Whether each node (row) may attend to each column: the context, then each node of the tree.

    The context is `num_context_tokens` columns that every node sees; of the tree a node sees its ancestors and itself.

    >>> ancestor_mask(DraftTree((5, 7, 8, 9), (-1, 0, 0, 1), (1.0,) * 4)).int().tolist()
    [[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]]
    """
    num_nodes = len(tree.tokens)
    mask = np.zeros((num_nodes, num_context_tokens + num_nodes), dtype=np.bool_)
    mask[:, :num_context_tokens] = True
    for node, parent in enumerate(tree.parents):
        if parent >= 0:
            mask[node] = mask[parent]  # parents precede children, so the parent's row is complete
        mask[node, num_context_tokens + node] = True
    return torch.from_numpy(mask)
