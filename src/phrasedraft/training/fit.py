"""From a corpus of the target's answers to a head for that target, in one call."""

import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from importlib.metadata import version
from pathlib import Path
from typing import Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from rich.console import Console
from torch import Tensor

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.drafters.head_file import HeadConfig
from phrasedraft.drafters.phrase_head import PhraseHead, PhraseScorer
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.errors import OptionError
from phrasedraft.evaluation.replay import replay
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.phrases.prefix_mining import PrefixMiningSettings, mine_prefixes
from phrasedraft.phrases.spelling import Tokenizer
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import TargetIdentity
from phrasedraft.training.calibration import calibrate
from phrasedraft.training.card import write_card
from phrasedraft.training.checkpoint import run_key
from phrasedraft.training.data import TracedCorpus, trace_corpora
from phrasedraft.training.examples import EmbeddingTable, make_examples
from phrasedraft.training.run import run_epochs
from phrasedraft.training.traces import FeatureSource, Trace
from phrasedraft.training.trainer import Trainer, TrainingSettings


@runtime_checkable
class FitTarget(FeatureSource, Protocol):
    """What `fit` needs of the target."""

    @property
    def identity(self) -> TargetIdentity:
        """What the head will know it by."""
        ...

    @property
    def eos_token_ids(self) -> frozenset[int]:
        """Every token that ends a text."""
        ...

    @property
    def tokenizer(self) -> Tokenizer | None:
        """How it spells."""
        ...

    def embed(self, tokens: Int[Tensor, " token"]) -> Float[Tensor, "token hidden"]:
        """Its input embedding of `tokens`."""
        ...


@dataclass(frozen=True, kw_only=True)
class FitSettings:
    """What a head is made of and how it is judged.

    `held_out_share` of the answers are neither mined nor trained on; every epoch replays `max_replayed_answers` of them
    at `replayed_draft_tokens[0]` nodes, and the finished head replays all of them at each of these node counts.
    """

    vocabulary: PrefixMiningSettings = field(default_factory=PrefixMiningSettings)
    training: TrainingSettings = field(default_factory=TrainingSettings)
    target_layers: tuple[int, ...] = (-1,)
    held_out_share: float = 0.05
    max_replayed_answers: int = 60
    replayed_draft_tokens: tuple[int, ...] = (8, 4, 16, 46)

    def __post_init__(self) -> None:
        if not 0 < self.held_out_share < 1:
            raise OptionError(f"`held_out_share` is {self.held_out_share}, it must lie between 0 and 1")
        if not self.replayed_draft_tokens or self.max_replayed_answers < 1:
            raise OptionError("`replayed_draft_tokens` may not be empty, `max_replayed_answers` must be 1 or more")


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """The head, its held-out replay by corpus and number of draft tokens, and what each epoch came to."""

    head: PhraseHead
    replayed: dict[str, dict[int, DecodingStats]]
    history: list[dict[str, float]]


def fit(
    target: FitTarget,
    corpus_paths: Sequence[Path],
    output: Path,
    settings: FitSettings,
    *,
    work: Path,
    command: str,
    console: Console | None = None,
) -> FitResult:
    """Mine, trace, train, calibrate and save a head for `target`; `work` keeps traces and checkpoints between runs."""
    console = console or Console(stderr=True)
    data = trace_corpora(
        target,
        corpus_paths,
        FeatureSpec(layers=settings.target_layers),
        work / "traces",
        held_out_share=settings.held_out_share,
        seed=settings.training.seed,
        console=console,
    )
    train = [trace for part in data for trace in part.train]
    held_out = [trace for part in data for trace in part.held_out]
    vocabulary = _mine(target, train, settings.vocabulary, console)
    config = _config(target, data, settings, command)
    examples, validation = (make_examples(side, vocabulary, target.eos_token_ids) for side in (train, held_out))
    embedding = EmbeddingTable.of(torch.cat([examples.tokens, validation.tokens]), target.embed)
    trainer = Trainer(examples, embedding, vocabulary, settings.training)
    everything = [answer for part in data for answer in part.recorded()]
    judged = everything[:: math.ceil(len(everything) / settings.max_replayed_answers)]
    budget = DraftBudget(num_draft_tokens=settings.replayed_draft_tokens[0], max_depth=vocabulary.max_tokens)

    def replayed(scorer: PhraseScorer) -> DecodingStats:
        return replay(PhraseHead(scorer=scorer, vocabulary=vocabulary, config=config), judged, budget, embedding)

    key = run_key(asdict(config), vocabulary.fingerprint)
    scorer, history = run_epochs(trainer, replayed, work / "checkpoint.pt", key, console)
    temperature = calibrate(scorer, trainer.normaliser, validation, embedding)
    console.print(f"temperature: {temperature}")
    config = replace(config, temperature=temperature)
    head = PhraseHead(scorer=scorer, vocabulary=vocabulary, config=config)
    tables = {part.corpus.name: _replay_all(head, part, settings, embedding) for part in data if part.held_out}
    results = {name: {str(nodes): summary(stats) for nodes, stats in table.items()} for name, table in tables.items()}
    head.config = replace(config, provenance={**config.provenance, "epochs": history, "held_out": results})
    head.save_pretrained(output)
    write_card(output, head)
    return FitResult(head=head, replayed=tables, history=history)


def summary(stats: DecodingStats) -> dict[str, float | int]:
    """The figures of a replay that reports show."""
    return {
        "tokens_per_pass": round(stats.mean_acceptance_length, 4),
        "landing": round(stats.landing, 4),
        "banked": round(stats.banked, 4),
        "passes": stats.num_passes,
    }


def _mine(
    target: FitTarget, traces: Sequence[Trace], settings: PrefixMiningSettings, console: Console
) -> PhraseVocabulary:
    """The phrases of the answers trained on."""
    if target.tokenizer is None:
        raise OptionError("the target was given without a tokenizer, which mining needs to see words")
    pieces = TokenPieces.from_tokenizer(target.tokenizer, target.identity.vocab_size)
    vocabulary = mine_prefixes([trace.tokens for trace in traces], pieces, settings)
    console.print(f"vocabulary: {len(vocabulary):,} phrases of up to {vocabulary.max_tokens} tokens", soft_wrap=True)
    return vocabulary


def _replay_all(
    head: PhraseHead, part: TracedCorpus, settings: FitSettings, embedding: EmbeddingTable
) -> dict[int, DecodingStats]:
    """All held-out answers of one corpus at each node count."""
    depth = head.vocabulary.max_tokens
    return {
        nodes: replay(head, part.recorded(), DraftBudget(num_draft_tokens=nodes, max_depth=depth), embedding)
        for nodes in sorted(settings.replayed_draft_tokens)
    }


def _config(target: FitTarget, data: Sequence[TracedCorpus], settings: FitSettings, command: str) -> HeadConfig:
    """What the head is made for and from; the temperature is found later."""
    identity = target.identity
    return HeadConfig(
        target_name=identity.name,
        target_hidden_size=identity.hidden_size,
        target_vocab_size=identity.vocab_size,
        tokenizer_fingerprint=identity.tokenizer_fingerprint(identity.vocab_size),
        target_layers=settings.target_layers,
        trunk_width=settings.training.trunk_width,
        provenance={
            "command": command,
            "settings": asdict(settings),
            "versions": {name: version(name) for name in ("phrasedraft", "torch", "transformers", "safetensors")}
            | {"python": platform.python_version()},
            "data": [
                {
                    "name": part.corpus.name,
                    "sha256": part.corpus.sha256,
                    "answers": len(part.corpus.answers),
                    "tokens": part.corpus.num_response_tokens,
                    "held_out_answers": len(part.held_out),
                }
                for part in data
            ],
        },
    )
