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
from jaxtyping import Float, Int
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

    def attend(
        self, reader: "TextReader", queries: Float[Tensor, "row head key"]
    ) -> Float[Tensor, "row ahead head token"]:
        """What each row finds: for each head, the tokens one, two and three places after where it looks."""
        ...


class TextReader(nn.Module):
    """The weights of the attention; 0 comes back where a state looks for nothing that is in the text.

    `window` is how many tokens back a state can see.
    """

    classes: Tensor

    def __init__(self, *, hidden_size: int, trunk_width: int, window: int) -> None:
        super().__init__()
        self.window = window
        self.enter = nn.Linear(hidden_size, TOKEN_WIDTH)
        self.enter_norm = nn.LayerNorm(TOKEN_WIDTH)
        self.own_key = nn.Linear(TOKEN_WIDTH, NUM_HEADS * KEY_WIDTH)
        self.before_key = nn.Linear(TOKEN_WIDTH, NUM_HEADS * KEY_WIDTH, bias=False)
        self.values = nn.Parameter(torch.randn(AHEAD, NUM_HEADS, TOKEN_WIDTH, VALUE_WIDTH) * (3 * TOKEN_WIDTH) ** -0.5)
        self.queries = nn.Linear(trunk_width, NUM_HEADS * KEY_WIDTH)
        self.distance = nn.Parameter(torch.zeros(NUM_HEADS, DISTANCES))
        self.leave = nn.Linear(NUM_HEADS * VALUE_WIDTH, trunk_width, bias=False)
        self.leave_norm = nn.LayerNorm(trunk_width)
        back = torch.arange(window + 1, device="cpu").clamp(min=1)  # also where weights are only counted, on `meta`
        classes = (2 * back.float().log2()).long().clamp(max=DISTANCES - 1)
        self.register_buffer("classes", F.one_hot(classes, DISTANCES).float(), persistent=False)

    def forward(self, states: Float[Tensor, "row trunk"], text: Text | None) -> Float[Tensor, "row trunk"]:
        """The states with what they found, which is nothing where there is no text."""
        if text is None:
            nothing: Tensor = self.leave_norm(states)
            return nothing
        queries = self.queries(states).view(len(states), NUM_HEADS, KEY_WIDTH)
        found = torch.einsum("rahu,ahuv->rhv", text.attend(self, queries), self.values).flatten(1)
        seen: Tensor = self.leave_norm(states + self.leave(found))
        return seen

    def tokens(self, embeddings: Float[Tensor, "token hidden"]) -> Float[Tensor, "token width"]:
        """What is kept of each token."""
        entered: Tensor = self.enter_norm(self.enter(embeddings.to(self.enter.weight)))
        return entered

    def bias(self, back: Int[Tensor, "..."]) -> Float[Tensor, "head ..."]:
        """What is added to the score of a place that is `back` tokens away."""
        # A product, since the gradient of an index into so few rows adds up one after the other.
        return (self.distance @ self.classes.to(self.distance)[back.flatten()].t()).view(NUM_HEADS, *back.shape)


def make_reader(window: int, hidden_size: int, trunk_width: int) -> TextReader | None:
    """The weights of a head that sees `window` tokens back; None for one that does not read."""
    return TextReader(hidden_size=hidden_size, trunk_width=trunk_width, window=window) if window else None


def match(queries: Float[Tensor, "row head key"], keys: Float[Tensor, "token head key"]) -> Float[Tensor, "head _ _"]:
    """How well each key answers each query, `[head, row, token]`."""
    scores: Tensor = queries.transpose(0, 1) @ keys.permute(1, 2, 0) * KEY_WIDTH**-0.5
    return scores


def shares(scores: Float[Tensor, "*place token"]) -> Float[Tensor, "*place token"]:
    """A softmax with one more choice of score 0, which is to look at nothing; nothing where no token may be seen."""
    return F.pad(scores, (0, 1)).softmax(dim=-1)[..., :-1]


class OpenText:
    """One text that grows, all of which each state sees; keeps keys and tokens of its last `reader.window` places.

    `append` gives tokens to it. 1 kB a place in float32, up to two windows of them.
    """

    def __init__(self, reader: TextReader, embed: Embed, tokens: Sequence[int]) -> None:
        self._reader, self._embed = reader, embed
        self._seen = reader.window + 2  # the last place has nothing after it, and the first needs the token before it
        self._length = 0
        self._bias: Tensor | None = None  # of all places, until there are more
        weight = reader.enter.weight
        self._entered = weight.new_zeros((0, TOKEN_WIDTH))
        self._keys = weight.new_zeros((0, NUM_HEADS, KEY_WIDTH))
        self.append(tokens)

    @torch.inference_mode()
    def append(self, tokens: Sequence[int]) -> None:
        """Add tokens at the end; what lies before the window is dropped once the room is full."""
        if not tokens:
            return
        kept = tokens[-self._seen :]
        if self._length + len(kept) > 2 * self._seen:
            self._drop(self._length + len(kept) - self._seen if len(kept) < self._seen else self._length)
        reader, start = self._reader, self._length
        end = self._length = start + len(kept)
        self._bias = None
        if end + AHEAD > len(self._keys):
            self._make_room(end + AHEAD)
        ids = torch.tensor(kept, dtype=torch.long, device=self._entered.device)
        self._entered[start:end] = reader.tokens(self._embed(ids))
        keys = reader.own_key(self._entered[start:end])
        first = max(start, 1)
        keys[first - start :] += reader.before_key(self._entered[first - 1 : end - 1])
        self._keys[start:end] = keys.view(-1, NUM_HEADS, KEY_WIDTH)
        self._entered[end : end + AHEAD] = 0  # `attend` looks so far beyond the end

    def _make_room(self, needed: int) -> None:
        """Twice as much as before, or as is needed, up to two windows and what lies beyond the end."""
        more = min(max(needed, 2 * len(self._keys)), 2 * self._seen + AHEAD) - len(self._keys)
        self._entered, self._keys = (
            torch.cat([table, table.new_zeros((more, *table.shape[1:]))]) for table in (self._entered, self._keys)
        )

    def _drop(self, number: int) -> None:
        """Forget the first places."""
        left = self._length - number
        for table in (self._entered, self._keys):
            table[:left] = table[number : self._length].clone()
        self._length = left

    def attend(
        self, reader: TextReader, queries: Float[Tensor, "row head key"]
    ) -> Float[Tensor, "row ahead head token"]:
        """What each row finds in the last `reader.window` places that something came after."""
        last = self._length - 1
        first = max(last - reader.window, 0)
        if last <= first:
            return queries.new_zeros((len(queries), AHEAD, NUM_HEADS, TOKEN_WIDTH))
        if self._bias is None:
            self._bias = reader.bias(torch.arange(last - first, 0, -1, device=queries.device))[:, None]
        weights = shares(match(queries, self._keys[first:last]) + self._bias)
        # Row j of this view is what came one, two and three tokens after place j, 0 where that is not known yet.
        after = self._entered[first + 1 :].as_strided((last - first, AHEAD * TOKEN_WIDTH), (TOKEN_WIDTH, 1))
        return (weights @ after).view(NUM_HEADS, len(queries), AHEAD, TOKEN_WIDTH).permute(1, 2, 0, 3)
