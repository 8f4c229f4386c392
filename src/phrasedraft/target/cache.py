"""The cache of one sequence: the only module that knows how transformers keeps keys, values and states.

What it knows (transformers 5.16 to 5.24): the forward keyword is `cache` or, before 5.24, `past_key_values`;
`DynamicCache(config=...)` creates a layer object per layer, of a kind that tells what can be undone: plain attention
layers keep every row, window layers forget rows beyond their window unless `activate_past_recording()` was called
before, recurrent layers hold one state that cannot be taken back and has to be copied; `crop` takes negative counts.
"""

import copy
import inspect
from collections.abc import Sequence
from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from phrasedraft.errors import TargetError
from phrasedraft.target.protocol import Support


def cache_keyword(model: PreTrainedModel) -> str:
    """The name under which the model's `forward` takes its cache."""
    parameters = inspect.signature(model.forward).parameters
    for name in ("cache", "past_key_values", "cache_params"):
        if name in parameters:
            return name
    raise TargetError(
        f"`{type(model).__name__}.forward` takes none of `cache`, `past_key_values`, `cache_params`",
        hint="phrasedraft drafts for decoder-only models with a transformers cache",
    )


class SequenceCache:
    """A transformers cache that can keep some of the rows of the last pass and drop the rest."""

    def __init__(self, model: PreTrainedModel, existing: DynamicCache | None = None) -> None:
        self._keyword = cache_keyword(model)
        own = DynamicCache(config=model.config)  # knows the model's layers; one that was made without a config may not
        self._cache = own if existing is None else existing
        self._length = 0 if existing is None else existing.get_seq_length()
        windows = [layer for layer in (*own.layers, *self._cache.layers) if type(layer) is DynamicSlidingWindowLayer]
        self._window = min((layer.sliding_window for layer in windows), default=None)
        self._recurrent = [
            index
            for index, layer in enumerate(own.layers)
            if type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer)
        ]
        for layer in self._cache.layers:
            if type(layer) is DynamicSlidingWindowLayer:
                layer.activate_past_recording()

    @property
    def length(self) -> int:
        """How many tokens the cache holds."""
        return self._length

    @property
    def is_recurrent(self) -> bool:
        """Whether some layer holds a state that can only be restored from a copy."""
        return bool(self._recurrent)

    @property
    def forward_arguments(self) -> dict[str, Any]:
        """The keywords that make a forward pass read and extend this cache."""
        return {self._keyword: self._cache, "use_cache": True}

    def support(self, num_rows: int) -> Support:
        """What the cache can undo after a further pass of `num_rows`: trees need all rows of all layers at hand."""
        if self._recurrent or self._exceeds_window(self._length + num_rows):
            return Support.CHAIN
        return Support.TREE

    def grown(self, num_rows: int) -> None:
        """Take note that a pass has added `num_rows` rows."""
        self._length += num_rows

    def keep_last(self, num_rows: int, rows: Sequence[int]) -> None:
        """Of the last `num_rows` rows keep `rows` (ascending, counted from the first of them), in this order."""
        start = self._length - num_rows
        in_place = next((index for index, row in enumerate(rows) if index != row), len(rows))
        if in_place < len(rows):
            assert not self._recurrent
            self._move(num_rows, rows[in_place:], in_place)
        self._drop(num_rows - len(rows))
        self._length = start + len(rows)

    def crop(self, length: int) -> bool:
        """Forget all but the first `length` tokens; False where the cache no longer has what it needs for that."""
        if length < self._length and (self._recurrent or self._exceeds_window(self._length)):
            return False
        self._drop(self._length - length)
        self._length = length
        return True

    def snapshot(self) -> "Snapshot":
        """A copy of the recurrent layers, from which `restore` can return here."""
        return Snapshot(self._length, {index: copy.deepcopy(self._cache.layers[index]) for index in self._recurrent})

    def restore(self, snapshot: "Snapshot") -> None:
        """Go back to where the snapshot was taken. A snapshot can be used once."""
        for index, layer in snapshot.layers.items():
            self._cache.layers[index] = layer
        self._drop(self._length - snapshot.length)
        self._length = snapshot.length

    def _move(self, num_rows: int, rows: Sequence[int], to: int) -> None:
        """Copy `rows` of the last `num_rows` to the place of the rows from `to` on, in every layer."""
        on_device: dict[torch.device, torch.Tensor] = {}
        for layer in self._cache.layers:
            device = layer.keys.device
            if device not in on_device:
                on_device[device] = torch.tensor(rows, device=device)
            index = on_device[device]
            for states in (layer.keys, layer.values):
                last = states.narrow(-2, states.shape[-2] - num_rows, num_rows)
                last.narrow(-2, to, len(rows)).copy_(last.index_select(-2, index))

    def _drop(self, num_rows: int) -> None:
        # Window layers trim themselves to their window in `crop`, so they are called even with 0.
        for index, layer in enumerate(self._cache.layers):
            if index not in self._recurrent:
                layer.crop(-num_rows)

    def _exceeds_window(self, length: int) -> bool:
        return self._window is not None and length >= self._window


class Snapshot:
    """The recurrent layers of a cache at one length."""

    def __init__(self, length: int, layers: dict[int, Any]) -> None:
        self.length = length
        self.layers = layers


def adoptable(cache: Any) -> bool:
    """Whether a cache made elsewhere can be continued here: dynamic, and every row of it at hand."""
    return isinstance(cache, DynamicCache) and all(
        type(layer) is DynamicLayer
        or (type(layer) is DynamicSlidingWindowLayer and layer.get_seq_length() < layer.sliding_window)
        for layer in cache.layers
    )


class RoomyLayer(DynamicLayer):  # type: ignore[misc]
    """An attention layer that keeps room for rows to come, so that a step writes its row instead of copying all.

    The tensors it gives out are views; the rows behind them stay where they are until there is no more room.
    """

    ROOM = 128

    def update(
        self,
        key_states: torch.Tensor,
        value_states: torch.Tensor,
        *args: Any,  # noqa: ARG002 - what transformers calls
        **kwargs: Any,  # noqa: ARG002
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Add rows; all keys and values there are."""
        if not self.is_initialized:
            self.lazy_initialization(key_states, value_states)
            self.keys, self.values = key_states[..., :0, :], value_states[..., :0, :]
            self._rooms = (key_states.new_empty(0), value_states.new_empty(0))
        length = self.keys.shape[-2] + key_states.shape[-2]
        self.keys, self.values = (
            self._put(index, old, new, length)
            for index, (old, new) in enumerate(((self.keys, key_states), (self.values, value_states)))
        )
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keep these rows of the batch; the room is made anew with the next token."""
        super().batch_select_indices(indices)
        self._rooms = (self.keys[:0], self.values[:0])

    def _put(self, index: int, old: torch.Tensor, new: torch.Tensor, length: int) -> torch.Tensor:
        room = self._rooms[index]
        if room.ndim < 4 or room.shape[0] != new.shape[0] or room.shape[-2] < length:
            room = new.new_empty((*new.shape[:-2], length + self.ROOM, new.shape[-1]))
            room[..., : old.shape[-2], :] = old
            self._rooms = (room, self._rooms[1]) if index == 0 else (self._rooms[0], room)
        room[..., old.shape[-2] : length, :] = new
        return room[..., :length, :]


def batch_cache(model: PreTrainedModel) -> DynamicCache | None:
    """An empty cache for a padded batch; None where a layer holds a recurrent state, which padding would enter."""
    cache = DynamicCache(config=model.config)
    if any(type(layer) not in (DynamicLayer, DynamicSlidingWindowLayer) for layer in cache.layers):
        return None
    if all(type(layer) is DynamicLayer for layer in cache.layers):
        cache.layers = [RoomyLayer() for _ in cache.layers]
    return cache
