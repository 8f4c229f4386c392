"""Output rows that are made of the target's own embeddings, so that an entry costs a bias and not a row.

A phrase's last token is what tells it from its siblings, so the embedding of that token makes most of its row, through
a map of its own for each place in a phrase. Frequent tokens can have a learnt row beside that. That an output matrix
and embeddings may be one is known from language models (Press and Wolf 2017, 1608.05859); here they are the target's.
"""

import inspect
import weakref
from dataclasses import dataclass
from typing import Any, Final

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from phrasedraft.drafters.protocol import Embed
from phrasedraft.errors import OptionError
from phrasedraft.phrases.vocabulary import PhraseVocabulary

OWN: Final = "own"
COMPOSED: Final = "composed"
ROWS: Final = (OWN, COMPOSED)
MOST_PLACES: Final = 4
"""Places in a phrase that have a map of their own; later ones share the last."""


@dataclass(frozen=True, kw_only=True)
class RowSettings:
    """Where output rows come from: `own` is a learnt one for each entry, `composed` makes them of embeddings.

    The first `num_own_rows` single tokens, which are the most frequent ones of a mined vocabulary, have a learnt row
    added to the composed one.
    """

    rows: str = OWN
    num_own_rows: int = 0

    def __post_init__(self) -> None:
        if self.rows not in ROWS:
            raise OptionError(
                f"`rows` is `{self.rows}`, it may be {' or '.join(f'`{kind}`' for kind in ROWS)}",
                hint=f"`{COMPOSED}` makes them of the target's embeddings, for fewer parameters",
            )
        if self.num_own_rows < 0:
            raise OptionError(f"`num_own_rows` is {self.num_own_rows}, it must be 0 or more")
        if self.num_own_rows and self.rows == OWN:
            raise OptionError(f"`num_own_rows` is {self.num_own_rows}, but with `rows` = `{OWN}` every entry has one")


class ComposedOutput(nn.Module):
    """Stands where the output layer of a head stands: a `weight` of one row an entry, a `bias`, and scores.

    There are rows once `attach` has been given the target's embedding. They are composed when they are asked for, and
    anew when the weights have changed or moved; `refresh` is for what cannot be seen from them, a graph that was used.
    """

    table: Tensor
    last: Tensor
    before: Tensor
    owners: Tensor
    longer: Tensor
    order: Tensor

    def __init__(self, vocabulary: PhraseVocabulary, *, hidden_size: int, trunk_width: int, num_own_rows: int) -> None:
        super().__init__()
        lengths = torch.from_numpy(vocabulary.lengths.copy())
        places = (lengths - 1).clamp(max=MOST_PLACES - 1)
        tokens = vocabulary.to_tensor().long()
        entries = torch.arange(len(lengths))
        self._known = torch.unique(tokens[tokens >= 0])
        index = torch.searchsorted(self._known, tokens.clamp(min=0))  # of padding nothing is asked
        self._sizes = torch.bincount(places, minlength=1).tolist()
        for name, buffer in {
            "table": torch.zeros(0, hidden_size),
            "last": index[entries, lengths - 1],
            "before": index[entries, (lengths - 2).clamp(min=0)],
            "owners": (lengths == 1).nonzero()[:num_own_rows, 0],
            "longer": (lengths > 1).nonzero()[:, 0],
            "order": places.argsort(stable=True),  # the entries place by place
        }.items():
            self.register_buffer(name, buffer, persistent=False)
        self.maps = nn.Parameter(torch.randn(len(self._sizes), hidden_size, trunk_width) * (3 * trunk_width) ** -0.5)
        self.follow_map = nn.Parameter(torch.zeros(hidden_size if len(self.longer) else 0, trunk_width))
        self.own = nn.Parameter(torch.zeros(len(self.owners), trunk_width))
        self.bias = nn.Parameter(torch.zeros(len(lengths)))
        self._rows: Tensor | None = None
        self._target: weakref.ref[object] | None = None
        self._stamp: tuple[object, ...] = ()

    @property
    def is_attached(self) -> bool:
        """Whether the embeddings are known."""
        return len(self.table) > 0

    def attach_once(self, embed: Embed) -> None:
        """Read the embeddings unless they are this target's already."""
        target: object = (
            embed.__self__ if inspect.ismethod(embed) else embed
        )  # a bound method is another object each time
        if self._target is None or self._target() is not target:
            self.attach(embed)
            self._target = weakref.ref(target)

    def attach(self, embed: Embed) -> None:
        """Read the embeddings of the tokens in entries, evened out: of mean 0, and of length 1 in the mean."""
        table = embed(self._known.to(self.bias.device)).detach().to(self.bias.device, torch.float32).clone()
        table -= table.mean(dim=0)
        self.table = (table / table.square().sum(dim=1).mean().sqrt().clamp(min=1e-9)).to(self.bias.dtype)

    def refresh(self) -> None:
        """Forget the rows, so that they are composed anew."""
        self._rows = None

    @property
    def weight(self) -> Float[Tensor, "phrase trunk"]:
        """One row an entry; while training, part of the graph of the step."""
        parts = (self.maps, self.follow_map, self.own, self.table)
        stamp = (torch.is_grad_enabled(), *map(version_of, parts))
        if self._rows is None or stamp != self._stamp:
            self._rows, self._stamp = self._compose(), stamp
        return self._rows

    def forward(self, states: Float[Tensor, "batch trunk"]) -> Float[Tensor, "batch phrase"]:
        """One score an entry."""
        return F.linear(states, self.weight, self.bias)

    @torch.no_grad()
    def shrink(self, factor: float) -> None:
        """Make all rows smaller."""
        for part in (self.maps, self.follow_map, self.own):
            part.mul_(factor)

    def _compose(self) -> Float[Tensor, "phrase trunk"]:
        if not self.is_attached:
            raise RuntimeError("the output rows are composed of embeddings that were not given: call `attach` first")
        by_place = torch.split(self.order, self._sizes)
        parts = [self.table[self.last[entries]] @ map_ for entries, map_ in zip(by_place, self.maps, strict=True)]
        rows = torch.cat(parts)[self.order.argsort()]
        if len(self.longer):
            rows = rows.index_add(0, self.longer, self.table[self.before[self.longer]] @ self.follow_map)
        return rows.index_add(0, self.owners, self.own) if len(self.owners) else rows

    def __getstate__(self) -> dict[str, Any]:
        """Without the rows, which a copy composes itself, and without whose embeddings these are."""
        return {**self.__dict__, "_rows": None, "_target": None}


def version_of(tensor: Tensor) -> tuple[int, int]:
    """What changes when a tensor is moved or written to; one of inference mode is not written to."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


def make_output(
    settings: RowSettings, vocabulary: PhraseVocabulary, *, hidden_size: int, trunk_width: int
) -> ComposedOutput | None:
    """What stands in for a learnt row for each entry, where settings ask for it."""
    if settings.rows == OWN:
        return None
    return ComposedOutput(
        vocabulary, hidden_size=hidden_size, trunk_width=trunk_width, num_own_rows=settings.num_own_rows
    )
