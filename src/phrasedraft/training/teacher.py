"""What the target itself thinks of the next token: soft labels, from the hidden states that were traced anyway."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor

from phrasedraft.errors import OptionError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import Target
from phrasedraft.training.traces import Trace

NUM_CHOICES = 8
"""So many tokens are kept of each distribution; with greedy answers they hold nearly all of it."""
ROWS_AT_ONCE = 1024
LEAVE = "leave `training.loss.soft` at 0"
MAX_DIFFERENCE = 0.02
"""Between two probabilities of one token: rounding is far below, other logits far above."""
LAST = -1
"""The layer that the language-model head reads."""


@runtime_checkable
class Teacher(Protocol):
    """A target that says what its last hidden states mean."""

    def next_logits(self, states: Float[Tensor, "row hidden"]) -> Float[Tensor, "row vocab"]:
        """The logits its language-model head makes of final states."""
        ...


class SoftLabels(NamedTuple):
    """What the target makes of each row's next token: its likeliest entries, -1 for tokens that are none, and shares.

    The shares of a row add up to 1, or to 0 where nothing is known of it.
    """

    entries: Int[Tensor, "row choice"]
    shares: Float[Tensor, "row choice"]

    def take(self, rows: Int[Tensor, " batch"]) -> "SoftLabels":
        """Those of some rows; of row -1 nothing is known."""
        return SoftLabels(self.entries[rows], self.shares[rows] * (rows >= 0)[:, None])


@dataclass(frozen=True)
class NextTokens:
    """For each example of some traces, the target's likeliest next tokens and their probabilities."""

    tokens: Int[Tensor, "row choice"]
    probabilities: Float[Tensor, "row choice"]

    def labels(self, vocabulary: PhraseVocabulary) -> SoftLabels:
        """The same as entries of one token; shares add up to 1, tokens without an entry keep theirs."""
        singles = torch.from_numpy(vocabulary.lengths == 1)
        entries = singles.nonzero()[:, 0]
        tokens = vocabulary.to_tensor()[singles, 0].long()
        size = 1 + max(int(self.tokens.max()), int(tokens.max()) if len(tokens) else 0)
        entry_of = torch.full((size,), -1, dtype=torch.long)
        entry_of[tokens] = entries
        return SoftLabels(entry_of[self.tokens], self.probabilities / self.probabilities.sum(dim=1, keepdim=True))


def soft_labels(
    target: object, traces: Sequence[Trace], layers: Sequence[int], vocabulary: PhraseVocabulary, console: Console
) -> SoftLabels:
    """The soft labels of all examples of `traces`.

    `OptionError` where the target cannot say what its hidden states mean, or the layer that would say it is not traced.
    """
    if not isinstance(target, Teacher):
        raise OptionError("this target does not say what its hidden states mean, which soft labels need", hint=LEAVE)
    if isinstance(target, Target):
        _check(target, target, traces[0], layers)
    return next_tokens(target, traces, layers, console=console).labels(vocabulary)


@torch.inference_mode()
def _check(target: Target, teacher: Teacher, trace: Trace, layers: Sequence[int]) -> None:
    """Refuse a target that does something to its logits behind its head, such as capping them."""
    _place(layers)
    first = target.start(FeatureSpec(layers=(LAST,))).prefill(trace.answer.prompt)
    served, said = first.logits[-1].float().softmax(-1), teacher.next_logits(first.hidden[-1:])[0].float().softmax(-1)
    difference = float((served.cpu() - said.cpu()).abs().max())
    if not difference <= MAX_DIFFERENCE:
        raise OptionError(
            f"the target's probabilities differ by {difference:.2f} from what its language-model head says: it changes "
            "its logits afterwards, so there are no soft labels",
            hint=LEAVE,
        )


@torch.inference_mode()
def next_tokens(
    target: Teacher, traces: Sequence[Trace], layers: Sequence[int], *, console: Console | None = None
) -> NextTokens:
    """The likeliest next tokens of every row of `traces` but each answer's first, whose token nobody drafts."""
    place = _place(layers)
    columns = (TextColumn("soft labels"), BarColumn(), TextColumn("{task.completed:,.0f} of {task.total:,.0f} rows"))
    tokens, probabilities = [], []
    with Progress(*columns, TimeElapsedColumn(), TimeRemainingColumn(), console=console or Console(stderr=True)) as bar:
        task = bar.add_task("", total=sum(len(trace.tokens) - 1 for trace in traces))
        for trace in traces:
            rows = trace.hidden[1:]
            width = rows.shape[1] // len(layers)
            for part in torch.split(rows[:, place * width : (place + 1) * width], ROWS_AT_ONCE):
                found = target.next_logits(part.float()).float().softmax(dim=-1).topk(NUM_CHOICES, dim=-1)
                tokens.append(found.indices.cpu())
                probabilities.append(found.values.cpu())
                bar.advance(task, len(part))
    return NextTokens(torch.cat(tokens), torch.cat(probabilities))


def _place(layers: Sequence[int]) -> int:
    """Which of the traced layers the language-model head reads."""
    if LAST not in layers:
        raise OptionError(
            f"soft labels need the layer that the language-model head reads, {LAST}; traced are {list(layers)}",
            hint=f"add {LAST} to `traces.layers`, or leave `training.loss.soft` at 0",
        )
    return list(layers).index(LAST)
