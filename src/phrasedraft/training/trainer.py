"""Trains a head on traces and keeps the epoch that replays best on held-out answers."""

import copy
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from phrasedraft.drafters.composed_output import make_output
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.prefix_softmax import PrefixSoftmax
from phrasedraft.drafters.text_reader import make_reader
from phrasedraft.errors import DataError, OptionError
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import Examples
from phrasedraft.training.learner import Learner
from phrasedraft.training.loggers import check_logger
from phrasedraft.training.losses import LossSettings
from phrasedraft.training.order import epoch_batches, row_by_row
from phrasedraft.training.phrase_learner import PhraseLearner
from phrasedraft.training.randomness import seed_of, seeded
from phrasedraft.training.standardise import Standardiser


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How a head is trained.

    `input_noise` is in standard deviations of the input; `average` is the decay of the running mean of the weights that
    is kept in their place, 0 for none. `max_steps` ends a run early, as a smoke test, and the learning rate with it; 0
    is no limit. `patience` ends it after so many epochs without a better replay; 0 never does. Rows are shuffled among
    `window_rows` of neighbouring files at a time. `checkpoint_steps` is how often the run is saved beside every epoch's
    end. `logger` is `none`, `jsonl`, `tensorboard`, `wandb` or `trackio`.
    """

    num_epochs: int = 6
    batch_size: int = 2048
    learning_rate: float = 4e-3
    warmup_share: float = 0.05
    weight_decay: float = 0.05
    max_gradient_norm: float = 1.0
    dropout: float = 0.1
    input_noise: float = 0.1
    average: float = 0.99
    trunk_width: int = 256
    seed: int = 0
    loss: LossSettings = field(default_factory=LossSettings)
    max_steps: int = 0
    patience: int = 0
    window_rows: int = 262_144
    checkpoint_steps: int = 500
    logger: str = "none"

    def __post_init__(self) -> None:
        for name in ("num_epochs", "batch_size", "trunk_width", "window_rows", "checkpoint_steps"):
            if getattr(self, name) < 1:
                raise OptionError(f"`{name}` is {getattr(self, name)}, it must be 1 or more")
        for name in ("max_steps", "patience"):
            if getattr(self, name) < 0:
                raise OptionError(f"`{name}` is {getattr(self, name)}, it must be 0 (off) or more")
        for name in ("dropout", "average", "warmup_share"):
            if not 0 <= getattr(self, name) < 1:
                raise OptionError(f"`{name}` is {getattr(self, name)}, it must be 0 or more and below 1")
        for name in ("weight_decay", "input_noise", "max_gradient_norm"):
            if getattr(self, name) < 0:
                raise OptionError(f"`{name}` is {getattr(self, name)}, it must be 0 or more")
        if self.learning_rate <= 0:
            raise OptionError(f"`learning_rate` is {self.learning_rate}, it must be above 0")
        check_logger(self.logger)


class Trainer:
    """One training run: steps through the examples, and gives the trained scorer with its input scaling folded in.

    A `learner` says what kind of head it is, a phrase head unless given; `examples` are its own.
    """

    def __init__(
        self,
        examples: Examples,
        embedding: EmbeddingTable,
        vocabulary: PhraseVocabulary,
        settings: TrainingSettings,
        learner: Learner | None = None,
    ) -> None:
        if not bool((examples.longest >= 0).any()):
            raise DataError(
                f"none of the {len(examples):,} rows goes on with a phrase of the vocabulary, so nothing can be learnt",
                hint="mine the phrases from the same target's answers, or give a larger corpus",
            )
        self.examples = examples
        self.embedding = embedding
        self.settings = settings
        self._learner = learner or PhraseLearner(vocabulary, settings.loss)
        self.normaliser = self._learner.normaliser
        self.standardise = Standardiser.of(examples, embedding)
        with seeded(seed_of(settings.seed, "weights")):
            self.scorer = self._learner.scorer_class(
                feature_size=examples.hidden.shape[1],
                hidden_size=embedding.rows.shape[1],
                num_phrases=len(vocabulary),
                trunk_width=settings.trunk_width,
                dropout=settings.dropout,
                output=make_output(
                    self._learner.rows,
                    vocabulary,
                    hidden_size=embedding.rows.shape[1],
                    trunk_width=settings.trunk_width,
                ),
                reader=make_reader(self._learner.text_window, embedding.rows.shape[1], settings.trunk_width),
            )
        self.scorer.see(embedding)
        start_from_counts(self.scorer, self.normaliser, examples)
        self._average = copy.deepcopy(self.scorer)
        self.num_steps = 0
        self._optimizer = self._make_optimizer()

    @property
    def steps_per_epoch(self) -> int:
        """How many batches an epoch has."""
        return max(len(self.examples) // self.settings.batch_size, 1)

    @property
    def total_steps(self) -> int:
        """How many batches the run has, unless it is stopped early."""
        total = self.settings.num_epochs * self.steps_per_epoch
        return min(total, self.settings.max_steps) if self.settings.max_steps else total

    @property
    def learning_rate(self) -> float:
        """What the next step uses: a linear warm-up, then a cosine to a hundredth."""
        warmup = max(self.settings.warmup_share * self.total_steps, 1)
        rise = min((self.num_steps + 1) / warmup, 1)
        fall = 0.5 * (1 + math.cos(math.pi * min(self.num_steps / self.total_steps, 1)))
        return self.settings.learning_rate * max(rise * fall, 0.01)

    def run_epoch(self, number: int, *, start: int = 0) -> Iterator[float]:
        """Train one epoch from its batch `start` on; gives the loss of each batch.

        Order, noise and dropout follow from the seed, the epoch and the step alone: it is the same epoch whatever ran
        before and wherever it was taken up.
        """
        order = torch.Generator().manual_seed(seed_of(self.settings.seed, "order", number))
        for batch in islice(self._batches(order), start, self.steps_per_epoch):
            if self.num_steps >= self.total_steps:
                return
            yield self._step(batch)

    def trained(self) -> PhraseScorer:
        """A copy of the scorer as it is now, for inputs as the target gives them."""
        source = self._average if self.settings.average else self.scorer
        return self.standardise.fold_into(copy.deepcopy(source)).eval()

    def state_dict(self) -> dict[str, Any]:
        """Everything a later `load_state_dict` needs to go on with the next step."""
        return {
            "scorer": self.scorer.state_dict(),
            "average": self._average.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "num_steps": self.num_steps,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from where `state` was taken."""
        self.scorer.load_state_dict(state["scorer"])
        self._average.load_state_dict(state["average"])
        self._optimizer.load_state_dict(state["optimizer"])
        self.num_steps = state["num_steps"]

    def _step(self, rows: Int[Tensor, " batch"]) -> float:
        """One batch; the loss before the step."""
        for group in self._optimizer.param_groups:
            group["lr"] = self.learning_rate
        self.scorer.train()
        with seeded(seed_of(self.settings.seed, "step", self.num_steps)):
            loss = self._loss_of(rows)
        self._optimizer.zero_grad()
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(self.scorer.parameters(), self.settings.max_gradient_norm)
        self._optimizer.step()
        self.num_steps += 1
        self._follow()
        value = loss.item()
        if not math.isfinite(value):
            raise DataError(
                f"the training loss is {value} at step {self.num_steps}",
                hint="lower `learning_rate`, or look for hidden states that are not finite in the traces",
            )
        return value

    def _loss_of(self, rows: Int[Tensor, " batch"]) -> Float[Tensor, ""]:
        """The loss of one batch, with its noise."""
        hidden, embedding = self.standardise(self.examples.hidden[rows], self.embedding(self.examples.tokens[rows]))
        if self.settings.input_noise:
            hidden = hidden + self.settings.input_noise * torch.randn_like(hidden)
            embedding = embedding + self.settings.input_noise * torch.randn_like(embedding)
        text = self.examples.view(rows, self.scorer.reader, self.embedding)
        trunk = self.scorer.trunk(hidden, embedding, text)
        return self._learner.loss(self.scorer, trunk, self.examples, rows, text)

    def _batches(self, order: torch.Generator) -> Iterator[Int[Tensor, " batch"]]:
        """One epoch of rows; many of a text together where it is read."""
        texts, settings = self.examples.texts, self.settings
        shuffle = row_by_row if texts is None else texts.shuffle
        spans = self.examples.hidden.spans()
        return epoch_batches(spans, settings.batch_size, settings.window_rows, order, shuffle)

    def _follow(self) -> None:
        """Move the running mean of the weights; it follows closely at first, when weights move fast."""
        decay = min(self.settings.average, (1 + self.num_steps) / (10 + self.num_steps))
        if self.settings.average:
            for mean, weight in zip(self._average.parameters(), self.scorer.parameters(), strict=True):
                mean.data.lerp_(weight.data, 1 - decay)

    def _make_optimizer(self) -> torch.optim.Optimizer:
        """AdamW; biases and norms do not decay."""
        matrices = [weight for weight in self.scorer.parameters() if weight.ndim > 1]
        others = [weight for weight in self.scorer.parameters() if weight.ndim < 2]
        return torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": self.settings.weight_decay},
                {"params": others, "weight_decay": 0.0},
            ],
            lr=self.settings.learning_rate,
            betas=(0.9, 0.99),
        )


@torch.no_grad()
def start_from_counts(scorer: PhraseScorer, normaliser: PrefixSoftmax, examples: Examples) -> None:
    """Set the output biases so that an untrained head already predicts how often each phrase follows its parent."""
    num_phrases = len(normaliser.parents)
    if not num_phrases:
        return
    ends = torch.bincount(examples.longest[examples.longest >= 0], minlength=num_phrases)
    paths = normaliser.paths()
    counts = torch.zeros_like(ends)
    for level in paths.t():  # every phrase that the longest one begins with is on its path
        counts.index_add_(0, level[level >= 0], ends[level >= 0])
    counts = counts.float()
    reached = torch.cat([counts, torch.tensor([float(len(examples))])])
    taken = torch.zeros(num_phrases + 1).index_add(0, normaliser.parents % (num_phrases + 1), counts)
    left = (reached - taken)[normaliser.parents].clamp(min=0.5)
    scorer.output.bias.copy_(((counts + 0.1) / left).log().clamp(-8, 8))
    scorer.shrink_rows(0.3)
