"""From a corpus of the target's answers to a head for that target: traces, phrases, training, calibration, replay."""

import math
import platform
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.metadata import version
from pathlib import Path

import torch
from rich.console import Console

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.drafters.head import Head
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.drafters.phrase_scorer import PhraseScorer
from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.errors import OptionError
from phrasedraft.evaluation.replay import replay
from phrasedraft.phrases import PhraseVocabulary
from phrasedraft.target.features import FeatureSpec
from phrasedraft.target.protocol import Target
from phrasedraft.training.card import write_card
from phrasedraft.training.checkpoint import finish_checkpoint, run_key
from phrasedraft.training.data import TracedCorpus, trace_corpora
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.fit_settings import FitSettings, ReplaySettings
from phrasedraft.training.fit_target import FitTarget
from phrasedraft.training.guards import check_phrases, check_served
from phrasedraft.training.kinds import kind_of
from phrasedraft.training.learner import Learner
from phrasedraft.training.origin import trained_template
from phrasedraft.training.overlap import overlap
from phrasedraft.training.run import run_epochs
from phrasedraft.training.stages import Stages
from phrasedraft.training.traces import Trace
from phrasedraft.training.trainer import Trainer

PHRASES = "phrases.safetensors"
CHECKPOINT = "checkpoint.pt"


@dataclass(frozen=True, kw_only=True)
class FitResult:
    """The head, its held-out replay by corpus and number of draft tokens, and what each epoch and stage came to."""

    head: Head
    replayed: dict[str, dict[int, DecodingStats]]
    history: list[dict[str, float]]
    stages: Stages


def fit(
    target: FitTarget,
    corpus_paths: Sequence[Path],
    output: Path,
    settings: FitSettings,
    *,
    work: Path,
    command: str,
    vocabulary: PhraseVocabulary | None = None,
    stages: Stages | None = None,
    console: Console | None = None,
) -> FitResult:
    """Trace, mine (unless given a `vocabulary`), train, calibrate, replay and save a head for `target`.

    `work` keeps traces, phrases and checkpoints between runs: the same call after a kill goes on and gives the same
    head, bit for bit on the same machine.
    """
    if output.exists() and not output.is_dir():
        raise OptionError(f"`{output}` is a file, a head is a folder", hint="give another `--output`")
    console = console or Console(stderr=True)
    stages = stages or Stages()
    kind, features = kind_of(settings), FeatureSpec(layers=settings.traces.layers)
    with stages("traces"):
        data = trace_corpora(
            target,
            corpus_paths,
            features,
            work / "traces",
            held_out_share=settings.replay.held_out_share,
            seed=settings.training.seed,
            console=console,
        )
    train = _flat(part.train for part in data)
    if isinstance(target, Target):
        for part in data:
            share = check_served(target, part.train or part.held_out, features)
            console.print(
                f"answers of `{part.corpus.name}` checked: {share:.0%} of the tokens are the target's first choice",
                soft_wrap=True,
            )
    shared = shared_prompts(target, data, console)
    with stages("mining"):
        vocabulary = (
            kind.choose(vocabulary, console) if vocabulary else kind.mine(target, train, settings.vocabulary, console)
        )
        check_phrases(vocabulary, target.identity)
        vocabulary.save(work / PHRASES)
    config = _config(target, data, corpus_paths, settings, command, shared)
    with stages("training"):
        learner = kind.learner(vocabulary, settings)
        run = _Training(target, data, learner, config, settings)
        scorer, history = run_epochs(run.trainer, run.replayed, work / CHECKPOINT, run.key, console)
    with stages("calibration"):
        temperature = learner.calibrate(scorer, run.validation, run.embedding)
        console.print(f"temperature: {temperature}")
    head = learner.head(scorer, replace(config, temperature=temperature))
    with stages("replay"):
        tables = {
            part.corpus.name: _replay_all(head, learner.max_depth, part, settings.replay, run.embedding)
            for part in data
            if part.held_out
        }
    results = {name: {str(nodes): summary(stats) for nodes, stats in table.items()} for name, table in tables.items()}
    head.config = replace(head.config, provenance={**config.provenance, "epochs": history, "held_out": results})
    head.save_pretrained(output)
    write_card(output, head)
    finish_checkpoint(work / CHECKPOINT)
    return FitResult(head=head, replayed=tables, history=history, stages=stages)


def shared_prompts(target: FitTarget, data: Sequence[TracedCorpus], console: Console) -> dict[str, int] | None:
    """How many training prompts share text with each bundled evaluation set; None for a target without tokenizer."""
    if target.tokenizer is None:
        return None
    counts = overlap(target.tokenizer, [answer.prompt for part in data for answer in part.corpus.answers])
    for name, count in counts.items():
        if count:
            console.print(
                f"{count:,} prompts share text with the evaluation set `{name}`: a head that learnt them may look too "
                "good there",
                soft_wrap=True,
            )
    return counts


class _Training:
    """What a training run is made of: the examples, the trainer, and the replay that judges each epoch."""

    def __init__(
        self,
        target: FitTarget,
        data: Sequence[TracedCorpus],
        learner: Learner,
        config: HeadConfig,
        settings: FitSettings,
    ) -> None:
        train, held_out = _flat(part.train for part in data), _flat(part.held_out for part in data)
        examples, self.validation = (learner.examples(side, target.eos_token_ids) for side in (train, held_out))
        entries = learner.vocabulary.to_tensor().flatten().long()
        read = _tokens_read([*train, *held_out]) if learner.text_window else []
        tokens = torch.cat([examples.tokens, self.validation.tokens, entries[entries >= 0], *read])
        self.embedding = EmbeddingTable.of(tokens, target.embed)
        self.trainer = Trainer(examples, self.embedding, learner.vocabulary, settings.training, learner)
        self.key = run_key(asdict(config), learner.vocabulary.fingerprint)
        self._learner, self._config = learner, config
        everything = [answer for part in data for answer in part.recorded()]
        self._judged = everything[:: math.ceil(len(everything) / settings.replay.max_answers)]
        self._budget = DraftBudget(num_draft_tokens=settings.replay.num_draft_tokens[0], max_depth=learner.max_depth)

    def replayed(self, scorer: PhraseScorer) -> DecodingStats:
        """What a head of this scorer would have accepted on some held-out answers."""
        head = self._learner.head(scorer, self._config)
        return replay(head, self._judged, self._budget, self.embedding)


def _tokens_read(traces: Sequence[Trace]) -> list[torch.Tensor]:
    """Every token a head that reads may meet, those of answers too short to learn from too: they are replayed."""
    return [torch.tensor(sorted({token for each in traces for token in (*each.answer.prompt, *each.tokens)}))]


def _flat(parts: Iterable[Sequence[Trace]]) -> list[Trace]:
    return [trace for part in parts for trace in part]


def summary(stats: DecodingStats) -> dict[str, float | int]:
    """The figures of a replay that reports show."""
    return {
        "tokens_per_pass": round(stats.mean_acceptance_length, 4),
        "landing": round(stats.landing, 4),
        "banked": round(stats.banked, 4),
        "passes": stats.num_passes,
    }


def _replay_all(
    head: Head, depth: int, part: TracedCorpus, settings: ReplaySettings, embedding: EmbeddingTable
) -> dict[int, DecodingStats]:
    """All held-out answers of one corpus at each node count."""
    return {
        nodes: replay(head, part.recorded(), DraftBudget(num_draft_tokens=nodes, max_depth=depth), embedding)
        for nodes in sorted(settings.num_draft_tokens)
    }


def _config(
    target: FitTarget,
    data: Sequence[TracedCorpus],
    paths: Sequence[Path],
    settings: FitSettings,
    command: str,
    shared: dict[str, int] | None,
) -> HeadConfig:
    """What the head is made for and from; the temperature is found later."""
    identity = target.identity
    return HeadConfig(
        target_name=identity.name,
        target_hidden_size=identity.hidden_size,
        target_vocab_size=identity.vocab_size,
        tokenizer_fingerprint=identity.tokenizer_fingerprint(identity.vocab_size),
        state_fingerprint=identity.state_fingerprint(),
        template=trained_template(target, identity, [part.corpus for part in data], paths),
        target_layers=settings.traces.layers,
        trunk_width=settings.training.trunk_width,
        output=settings.head.row_settings,
        text_window=settings.head.text_window,
        provenance={
            "command": command,
            "settings": asdict(settings),
            "versions": {name: version(name) for name in ("phrasedraft", "torch", "transformers", "safetensors")}
            | {"python": platform.python_version()},
            **({"overlap": shared} if shared is not None else {}),
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
