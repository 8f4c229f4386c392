"""What the phrase head is trained on: every phrase the true text begins with, and where it leaves the phrases."""

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.errors import OptionError


@dataclass(frozen=True, kw_only=True)
class LossSettings:
    """Weights of the two parts of the loss, and against how many siblings each choice is scored.

    `longest` weighs the cross-entropy of the longest phrase that fits. `mass` weighs the mean of -log(mass) over all
    phrases that fit: as every one of them goes through the first, most of that weight lies on the first token.

    `num_sampled` is 0 for a full softmax among siblings. Above 0, a set of siblings with more than that many members
    that are nobody's true choice in the batch is represented by the true ones and this many others, drawn anew each
    step, which costs less the more first tokens there are; `calibrate` and replay still use all of them.
    """

    longest: float = 1.0
    mass: float = 0.0
    num_sampled: int = 0

    def __post_init__(self) -> None:
        if self.longest < 0 or self.mass < 0 or self.longest + self.mass == 0:
            raise OptionError(f"loss weights are {self.longest} and {self.mass}, they may not be negative nor both 0")
        if self.num_sampled < 0:
            raise OptionError(f"`num_sampled` is {self.num_sampled}, it must be 0 (a full softmax) or more")


@dataclass(frozen=True)
class Choices:
    """The choices among siblings that lead to the longest phrase of each row, ordered by node.

    At `nodes[i]` (a phrase, or the number of phrases for the empty prefix) row `rows[i]` goes on to `phrases[i]`, child
    number `picks[i]` there; or it leaves, and they are -1 and the number of children.
    """

    rows: Int[Tensor, " choice"]
    nodes: Int[Tensor, " choice"]
    phrases: Int[Tensor, " choice"]
    picks: Int[Tensor, " choice"]
    weights: Float[Tensor, " choice"]


class PhraseLoss:
    """The loss of one batch, given how the phrases begin with one another.

    Only the scores that the true phrases were chosen against are computed, a third of them or fewer; `dense` computes
    the same from all scores.
    """

    def __init__(self, normaliser: PrefixSoftmax, settings: LossSettings) -> None:
        self._normaliser = normaliser
        self._settings = settings
        self._paths = normaliser.paths()
        self._children = normaliser.followers()
        self._num_children = torch.tensor([len(children) for children in self._children])
        self._rank = torch.zeros(len(self._paths), dtype=torch.long)
        for children in self._children:
            self._rank[children] = torch.arange(len(children))

    def __call__(
        self,
        scorer: PhraseScorer,
        trunk: Float[Tensor, "batch trunk"],
        longest: Int[Tensor, " batch"],
        open_ended: Bool[Tensor, " batch"],
    ) -> Float[Tensor, ""]:
        """The weighted mean over the batch; leaving the phrases does not count where the text is cut off there.

        Siblings are sampled with torch's own random numbers.
        """
        choices = self.choices(longest, open_ended)
        weight, bias, num_sampled = scorer.output.weight, scorer.output.bias, self._settings.num_sampled
        loss: Tensor = _SiblingCrossEntropy.apply(trunk, weight, bias, choices, self._children, num_sampled)  # type: ignore[no-untyped-call]
        return loss / len(longest)

    def dense(
        self,
        scores: Float[Tensor, "batch phrase"],
        longest: Int[Tensor, " batch"],
        open_ended: Bool[Tensor, " batch"],
    ) -> Float[Tensor, ""]:
        """The same loss from the scores of all phrases."""
        choices = self.choices(longest, open_ended)
        log_sums = self._normaliser.log_sums(scores)[choices.rows, choices.nodes]
        picked = torch.where(choices.phrases >= 0, scores[choices.rows, choices.phrases], 0.0)
        return ((log_sums - picked) * choices.weights).sum() / len(longest)

    def choices(self, longest: Int[Tensor, " batch"], open_ended: Bool[Tensor, " batch"]) -> Choices:
        """Each row's choices from the empty prefix down to its longest phrase, and that it leaves there."""
        root = len(self._paths)
        path = torch.full((len(longest), self._paths.shape[1] + 2), -1, dtype=torch.long)
        path[:, 0] = root
        known = longest >= 0  # where nothing fits, the one choice is to leave at once
        path[known, 1:-1] = self._paths[longest[known]]
        nodes, following = path[:, :-1], path[:, 1:]
        leaves = following < 0
        counts = (nodes >= 0) & (self._num_children[nodes] > 0) & ~(leaves & open_ended[:, None])
        rows, steps = counts.nonzero(as_tuple=True)
        order = nodes[rows, steps].argsort(stable=True)
        rows, steps = rows[order], steps[order]
        phrases, leaving, at = following[rows, steps], leaves[rows, steps], nodes[rows, steps]
        num_prefixes = (following >= 0).sum(dim=1)[rows].clamp(min=1)
        share = torch.where(leaving, 0.0, 1 - steps / num_prefixes)
        return Choices(
            rows=rows,
            nodes=at,
            phrases=phrases,
            picks=torch.where(leaving, self._num_children[at], self._rank[phrases]),
            weights=self._settings.longest + self._settings.mass * share,
        )


class _SiblingCrossEntropy(torch.autograd.Function):
    """The weighted sum of -log(probability) of choices, with gradients worked out group by group on the way."""

    @staticmethod
    def forward(
        ctx: Any,  # torch gives it no type
        trunk: Float[Tensor, "batch trunk"],
        weight: Float[Tensor, "phrase trunk"],
        bias: Float[Tensor, " phrase"],
        choices: Choices,
        children: list[Tensor],  # of many lengths
        num_sampled: int,
    ) -> Float[Tensor, ""]:
        gradients = torch.zeros_like(trunk), torch.zeros_like(weight), torch.zeros_like(bias)
        total = trunk.new_zeros(())
        nodes, sizes = torch.unique_consecutive(choices.nodes, return_counts=True)
        start = 0
        for node, size in zip(nodes.tolist(), sizes.tolist(), strict=True):
            group = slice(start, start + size)
            start += size
            rivals = _rivals(children[node], choices.picks[group], num_sampled)
            total += _group(trunk, weight, bias, choices, group, rivals, gradients)
        ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    def backward(ctx: Any, gradient: Float[Tensor, ""]) -> tuple[Tensor | None, ...]:
        trunk, weight, bias = ctx.saved_tensors
        return gradient * trunk, gradient * weight, gradient * bias, None, None, None


class _Rivals(NamedTuple):  # there are a thousand a batch
    """The siblings a node's choices are scored against; `picks` are places among them, their number is to leave.

    `shift` is added to the scores: 0, and for a sampled sibling the log of how many it stands for.
    """

    phrases: Int[Tensor, " rival"]
    picks: Int[Tensor, " choice"]
    shift: Float[Tensor, " rival"] | None


def _rivals(children: Int[Tensor, " child"], picks: Int[Tensor, " choice"], num_sampled: int) -> _Rivals:
    """All children of a node, or the batch's true choices and a sample of the others.

    Importance sampling of the normaliser (Bengio and Senecal 2008; a sample shared by the batch as in Jean et al.
    2015), with one stratum taken whole: true choices are frequent phrases and hold most of the sum, so they, and
    leaving, count as themselves. The others are drawn evenly and without repetition, and each stands for
    (others / drawn), which makes the estimated sum right in the mean; its log, and so the gradient, are nearly so.
    """
    if not num_sampled or len(children) <= num_sampled:
        return _Rivals(children, picks, None)
    stays = picks < len(children)
    true, places = torch.unique(picks[stays], return_inverse=True)
    is_other = torch.ones(len(children), dtype=torch.bool)
    is_other[true] = False
    others = is_other.nonzero()[:, 0]
    if len(others) <= num_sampled:
        return _Rivals(children, picks, None)
    drawn = others[torch.randperm(len(others))[:num_sampled]]
    found = torch.full_like(picks, len(true) + num_sampled)
    found[stays] = places
    shift = torch.zeros(len(true) + num_sampled)
    shift[len(true) :] = math.log(len(others) / num_sampled)
    return _Rivals(children[torch.cat([true, drawn])], found, shift)


def _group(
    trunk: Float[Tensor, "batch trunk"],
    weight: Float[Tensor, "phrase trunk"],
    bias: Float[Tensor, " phrase"],
    choices: Choices,
    group: slice,
    rivals: _Rivals,
    gradients: tuple[Float[Tensor, "batch trunk"], Float[Tensor, "phrase trunk"], Float[Tensor, " phrase"]],
) -> Float[Tensor, ""]:
    """The loss of the choices at one node; adds to the gradients of trunk, weight and bias."""
    rows, picks, weights = choices.rows[group], rivals.picks, choices.weights[group]
    states, siblings, offsets = trunk[rows], weight[rivals.phrases], bias[rivals.phrases]
    scores = torch.addmm(offsets if rivals.shift is None else offsets + rivals.shift, states, siblings.t())
    log_probabilities = torch.nn.functional.pad(scores, (0, 1)).log_softmax(dim=1)  # the last choice is to leave
    each = torch.arange(len(rows))
    loss = -(log_probabilities[each, picks] * weights).sum()
    slope = log_probabilities.exp_()
    slope[each, picks] -= 1
    slope = slope[:, :-1] * weights[:, None]
    gradients[0].index_add_(0, rows, slope @ siblings)
    gradients[1].index_add_(0, rivals.phrases, slope.t() @ states)
    gradients[2].index_add_(0, rivals.phrases, slope.sum(dim=0))
    return loss
