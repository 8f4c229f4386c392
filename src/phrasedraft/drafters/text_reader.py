"""Sight of the text so far: attention from a head's states to the tokens of prompt and answer.

What a target says next was often said before, and one row of hidden states says little about where. Each head of the
attention finds places in the text by their token and the one before it, and brings back what came after them: the next
token and the two that follow it. Attention that copies what followed is what induction heads do in language models
(Olsson et al. 2022, 2209.11895) and pointer networks by design (Vinyals et al. 2015, 1506.03134). It reads the target's
own embeddings and nothing else, so a prompt costs no hidden states, and the text may go on from any state.
"""

from collections.abc import Sequence
from typing import Final, Protocol, runtime_checkable

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from phrasedraft.drafters.protocol import Embed

NUM_HEADS: Final = 4
KEY_WIDTH: Final = 32
VALUE_WIDTH: Final = 64
TOKEN_WIDTH: Final = 128
AHEAD: Final = 3
"""How many of the tokens after a place are brought back."""
DISTANCES: Final = 24
"""Classes of distances, two for each doubling."""


@runtime_checkable
class Text(Protocol):
    """The tokens that some states can see."""

    def attend(self, reader: "TextReader", queries: Float[Tensor, "row head key"]) -> Float[Tensor, "row value"]:
        """What each row finds, all heads side by side."""
        ...


class TextReader(nn.Module):
    """The weights of the attention; 0 comes back where a state looks for nothing that is in the text.

    `window` is how many tokens back a state can see.
    """

    distance_class: Tensor

    def __init__(self, *, hidden_size: int, trunk_width: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.enter = nn.Linear(hidden_size, TOKEN_WIDTH)
        self.enter_norm = nn.LayerNorm(TOKEN_WIDTH)
        self.keys = nn.Linear(2 * TOKEN_WIDTH, NUM_HEADS * KEY_WIDTH)
        self.values = nn.Linear(TOKEN_WIDTH, AHEAD * NUM_HEADS * VALUE_WIDTH, bias=False)
        self.queries = nn.Linear(trunk_width, NUM_HEADS * KEY_WIDTH)
        self.distance = nn.Parameter(torch.zeros(NUM_HEADS, DISTANCES))
        self.leave = nn.Linear(NUM_HEADS * VALUE_WIDTH, trunk_width, bias=False)
        self.leave_norm = nn.LayerNorm(trunk_width)
        classes = (2 * torch.arange(window + 1).clamp(min=1).float().log2()).long().clamp(max=DISTANCES - 1)
        self.register_buffer("distance_class", classes, persistent=False)

    def forward(self, states: Float[Tensor, "row trunk"], text: Text) -> Float[Tensor, "row trunk"]:
        """The states with what they found."""
        queries = self.queries(states).view(len(states), NUM_HEADS, KEY_WIDTH)
        seen: Tensor = self.leave_norm(states + self.leave(text.attend(self, queries)))
        return seen

    def tokens(
        self, embeddings: Float[Tensor, "*text token hidden"]
    ) -> tuple[Float[Tensor, "*text token head key"], Float[Tensor, "*text token ahead head value"]]:
        """The key of each token and the one before it, and what it brings as the first, second, third one ahead."""
        entered = self.enter_norm(self.enter(embeddings.to(self.enter.weight)))
        before = F.pad(entered, (0, 0, 1, 0))[..., :-1, :]
        keys = self.keys(torch.cat([entered, before], dim=-1)).unflatten(-1, (NUM_HEADS, KEY_WIDTH))
        return keys, self.values(entered).unflatten(-1, (AHEAD, NUM_HEADS, VALUE_WIDTH))


def make_reader(window: int, hidden_size: int, trunk_width: int) -> TextReader | None:
    """The weights of a head that sees `window` tokens back; None for one that does not read."""
    return TextReader(hidden_size=hidden_size, trunk_width=trunk_width, window=window) if window else None


def shares(scores: Float[Tensor, "*place token"]) -> Float[Tensor, "*place token"]:
    """A softmax with one more choice of score 0, which is to look at nothing; nothing where no token may be seen."""
    return F.pad(scores, (0, 1)).softmax(dim=-1)[..., :-1]


class OpenText:
    """One text that grows, all of which each state sees; keeps the keys and values of its last `reader.window` tokens.

    `append` gives tokens to it. About 3.6 kB a token in float32.
    """

    def __init__(self, reader: TextReader, embed: Embed, tokens: Sequence[int]) -> None:
        self._reader, self._embed = reader, embed
        self._last: int | None = None
        self._keys: Tensor | None = None
        self._values: Tensor | None = None
        self._length = 0
        self._seen = reader.window + 2  # the last place has nothing after it, and the first needs the token before it
        self.append(tokens)

    @torch.inference_mode()
    def append(self, tokens: Sequence[int]) -> None:
        """Add tokens at the end."""
        if not tokens:
            return
        kept = list(tokens[-self._seen :])
        if len(kept) == len(tokens) and self._last is not None:
            kept.insert(0, self._last)  # the key of the first new token holds the one before it
        device = self._reader.enter.weight.device
        keys, values = self._reader.tokens(self._embed(torch.tensor(kept, device=device)))
        num_new = min(len(tokens), len(kept))
        self._keep(keys[-num_new:], values[-num_new:])
        self._last = kept[-1]

    def _keep(self, keys: Tensor, values: Tensor) -> None:
        """Write behind what is there; what lies before the window is dropped once the room is full."""
        room = 2 * self._seen
        if self._keys is None or self._values is None:
            self._keys, self._values = (each.new_zeros((room, *each.shape[1:])) for each in (keys, values))
        if self._length + len(keys) > room:
            first = max(self._length + len(keys) - self._seen, 0)
            left = max(self._length - first, 0)
            for table in (self._keys, self._values):
                table[:left] = table[self._length - left : self._length].clone()
            self._length = left
        self._keys[self._length : self._length + len(keys)] = keys
        self._values[self._length : self._length + len(values)] = values
        self._length += len(keys)

    def attend(self, reader: TextReader, queries: Float[Tensor, "row head key"]) -> Float[Tensor, "row value"]:
        """What each row finds in the last `reader.window` places that something came after."""
        assert self._keys is not None
        assert self._values is not None
        last = self._length - 1
        first = max(last - reader.window, 0)
        found = queries.new_zeros((len(queries), NUM_HEADS, VALUE_WIDTH))
        if last > first:
            scores = torch.einsum("rhk,thk->rht", queries, self._keys[first:last]) * KEY_WIDTH**-0.5
            bias = reader.distance[:, reader.distance_class[1 : last - first + 1].flip(0)]
            weights = shares(scores + bias)
            for ahead in range(min(AHEAD, last - first)):
                values = self._values[first + 1 + ahead : last + 1, ahead]
                found += torch.einsum("rht,thv->rhv", weights[:, :, : len(values)], values)
        return found.flatten(1)
