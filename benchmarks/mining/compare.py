"""Compares the ways of mining phrases on answers they have not seen: `.venv/bin/python benchmarks/mining/compare.py`.

One answer in eight, by position in its file, is held out. The longest match is the mean length of the longest phrase
that fits, over every position of the held-out answers; a position where none fits counts 1. A perfect head always
drafts that phrase, so a pass gives its tokens and the target's own. It says what a vocabulary allows, not what a head
learns.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from phrasedraft.corpus.answers import read_corpora
from phrasedraft.phrases import PhraseMatcher, PhraseVocabulary, TokenPieces, VocabularySettings, mine
from phrasedraft.target.loading import load_tokenizer

CORPORA = [
    Path("data/corpus/gsm8k_train.max200.jsonl.gz"),
    Path("data/corpus/chat_train.max256.jsonl.gz"),
]
WAYS = [("prefixes", True), ("spans", True), ("spans", False), ("merges", True), ("merges", False)]
HOLD_OUT_EVERY = 8
COLUMNS = [
    "method",
    "prefixes kept",
    "wanted",
    "phrases",
    "of two tokens or more",
    "mean tokens",
    "longest match per position",
    "tokens per pass with a perfect head",
    "seconds",
]


def worth(vocabulary: PhraseVocabulary, answers: Sequence[Sequence[int]]) -> tuple[float, float]:
    """The longest match per position and the tokens per pass of a perfect head."""
    tokens = np.concatenate([np.asarray(answer, dtype=np.int64) for answer in answers])
    bounds = np.cumsum([0, *map(len, answers)])
    longest = PhraseMatcher(vocabulary).longest_at_each(tokens, bounds)
    lengths = np.where(longest >= 0, vocabulary.lengths[longest], 0)
    num_tokens, num_passes = 0, 0
    for start, end in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        position = start + 1  # the first token comes with the prompt
        while position < end:
            position += int(lengths[position]) + 1
            num_passes += 1
        num_tokens += end - start - 1
    return float(np.maximum(lengths, 1).mean()), num_tokens / num_passes


def say(line: str) -> None:
    """Print one line at once."""
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    """Print a table, one line a way and size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="smollm2-135m", help="whose tokenizer the answers are in")
    parser.add_argument("--corpus", type=Path, action="append", help="answers; those in data/corpus unless given")
    parser.add_argument("--sizes", type=int, nargs="+", default=[1000, 8000, 32000])
    parser.add_argument("--max-words", type=int, default=3)
    arguments = parser.parse_args()
    corpora = [[answer.response for answer in corpus.answers] for corpus in read_corpora(arguments.corpus or CORPORA)]
    pieces = TokenPieces.from_tokenizer(*load_tokenizer(arguments.target))
    mined = [answer for part in corpora for place, answer in enumerate(part) if place % HOLD_OUT_EVERY]
    held_out = [part[::HOLD_OUT_EVERY] for part in corpora]
    say(f"mined from {sum(map(len, mined)):,} tokens, held out {[sum(map(len, part)) for part in held_out]}\n")
    say("| " + " | ".join(COLUMNS) + " |")
    say("|---" * len(COLUMNS) + "|")
    for size in arguments.sizes:
        for method, close in WAYS:
            settings = VocabularySettings(
                method=method, num_phrases=size, close_prefixes=close, max_words=arguments.max_words
            )
            begin = time.perf_counter()
            vocabulary = mine(mined, pieces, settings)
            seconds = time.perf_counter() - begin
            matches, passes = zip(*(worth(vocabulary, part) for part in held_out), strict=True)
            cells = [
                method,
                "yes" if close else "no",
                f"{size:,}",
                f"{len(vocabulary):,}",
                f"{(vocabulary.lengths > 1).sum():,}",
                f"{vocabulary.lengths.mean():.2f}",
                " / ".join(f"{value:.3f}" for value in matches),
                " / ".join(f"{value:.3f}" for value in passes),
                f"{seconds:.1f}",
            ]
            say("| " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
