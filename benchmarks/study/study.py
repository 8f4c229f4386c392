"""Vocabulary size x trunk width x data size, jointly: what each is worth in held-out tokens per pass.

    python benchmarks/study/study.py --corpus data/corpus/gsm8k_train.max200.jsonl.gz --work runs/study

Every point is one training by the recipe of `phrasedraft fit`, judged by replay on the same held-out answers. Points
that are in `results.jsonl` are not made again. `--shard 0/2` and `--shard 1/2` share the work between two processes.
"""

import argparse
import json
from itertools import product
from pathlib import Path

import torch
from rich.console import Console

from phrasedraft import DraftBudget, FeatureSpec, PhraseHead, load_target
from phrasedraft.drafters.head_config import HeadConfig
from phrasedraft.evaluation.replay import replay
from phrasedraft.phrases import TokenPieces, VocabularySettings, mine
from phrasedraft.training.calibration import calibrate
from phrasedraft.training.checkpoint import RunKey
from phrasedraft.training.data import trace_corpora
from phrasedraft.training.embedding_table import EmbeddingTable
from phrasedraft.training.examples import make_examples
from phrasedraft.training.run import run_epochs
from phrasedraft.training.trainer import Trainer, TrainingSettings

VOCABULARIES = (1_000, 8_000, 32_000)
WIDTHS = (128, 256)
SHARES = (0.25, 0.5, 1.0)
CHOSEN = (8_000, 256, 1.0)
SEEDS = (0, 1, 2)
NODES = 8
JUDGED = 30  # answers replayed after each epoch


def points():
    """Every point of the grid once, then the chosen one with further seeds."""
    yield from ((*point, SEEDS[0]) for point in product(VOCABULARIES, WIDTHS, SHARES))
    yield from ((*CHOSEN, seed) for seed in SEEDS[1:])


class Study:
    """The data, traced once, and a training for each point."""

    def __init__(self, corpora, work, layers, num_epochs):
        self.work, self.layers, self.num_epochs, self.console = work, layers, num_epochs, Console(stderr=True)
        self.target = load_target("smollm2-135m")
        features = FeatureSpec(layers=layers)
        self.data = trace_corpora(
            self.target, corpora, features, work / "traces", held_out_share=0.05, seed=0, console=self.console
        )
        self.pieces = TokenPieces.from_tokenizer(self.target.tokenizer, self.target.identity.vocab_size)
        self.held_out = [trace for part in self.data for trace in part.held_out]
        self.recorded = [answer for part in self.data for answer in part.recorded()]

    def run(self, num_phrases, width, share, seed):
        """One training; its figures, and tokens and passes of every held-out answer."""
        train = [trace for part in self.data for trace in part.train[: int(len(part.train) * share)]]
        vocabulary = mine([t.tokens for t in train], self.pieces, VocabularySettings(num_phrases=num_phrases))
        eos = self.target.eos_token_ids
        examples, validation = (make_examples(side, vocabulary, eos) for side in (train, self.held_out))
        embedding = EmbeddingTable.of(torch.cat([examples.tokens, validation.tokens]), self.target.embed)
        settings = TrainingSettings(num_epochs=self.num_epochs, trunk_width=width, seed=seed)
        trainer = Trainer(examples, embedding, vocabulary, settings)
        identity = self.target.identity
        config = HeadConfig(
            target_name=identity.name,
            target_hidden_size=identity.hidden_size,
            target_vocab_size=identity.vocab_size,
            target_layers=self.layers,
            trunk_width=width,
        )
        budget = DraftBudget(num_draft_tokens=NODES, max_depth=vocabulary.max_tokens)

        def judged(scorer):
            head = PhraseHead(scorer=scorer, vocabulary=vocabulary, config=config)
            return replay(head, self.recorded[:: max(len(self.recorded) // JUDGED, 1)], budget, embedding)

        name = f"{num_phrases}-{width}-{share}-{seed}"
        key = RunKey({"name": name, "epochs": str(self.num_epochs), "layers": str(self.layers)})
        scorer, history = run_epochs(trainer, judged, self.work / f"{name}.pt", key, self.console)
        temperature = calibrate(scorer, trainer.normaliser, validation, embedding)
        config = HeadConfig(**{**vars(config), "temperature": temperature})
        head = PhraseHead(scorer=scorer, vocabulary=vocabulary, config=config)
        each = [replay(head, [answer], budget, embedding) for answer in self.recorded]
        (self.work / f"{name}.pt").unlink(missing_ok=True)
        return {
            "num_phrases": num_phrases,
            "trunk_width": width,
            "share": share,
            "seed": seed,
            "train_tokens": sum(len(trace.tokens) for trace in train),
            "parameters": head.num_parameters,
            "epochs": history,
            "temperature": temperature,
            "answers": [[stats.num_accepted_tokens, stats.num_passes] for stats in each],
        }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, action="append", required=True)
    parser.add_argument("--work", type=Path, default=Path("runs/study"))
    parser.add_argument("--layers", default="-1")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--shard", default="0/1")
    options = parser.parse_args()
    index, count = map(int, options.shard.split("/"))
    results = options.work / "results.jsonl"
    options.work.mkdir(parents=True, exist_ok=True)
    study = Study(options.corpus, options.work, tuple(map(int, options.layers.split(","))), options.epochs)
    for number, point in enumerate(sorted(points(), key=lambda p: -p[2])):  # long ones first
        lines = results.read_text().splitlines() if results.exists() else []
        known = [json.loads(line) for line in lines]
        if number % count != index or point in {
            (line["num_phrases"], line["trunk_width"], line["share"], line["seed"]) for line in known
        }:
            continue
        line = json.dumps(study.run(*point))
        with results.open("a") as file:
            file.write(line + "\n")


if __name__ == "__main__":
    main()
