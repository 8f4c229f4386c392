"""What `phrasedraft mine` does: read answers, mine them, write the phrases and describe them."""

import json
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape

from phrasedraft.cli.console import data_console, note_console, print_json
from phrasedraft.cli.inspection import show_phrases
from phrasedraft.corpus.answers import Corpus, is_held_out, read_corpora
from phrasedraft.errors import OptionError
from phrasedraft.phrases import TokenPieces, VocabularySettings, describe, mine
from phrasedraft.target.loading import load_tokenizer
from phrasedraft.training.settings import with_overrides
from phrasedraft.training.trainer import TrainingSettings
from phrasedraft.whole_file import make_folder

SEED = TrainingSettings().seed
"""What draws the answers that are held out, unless training is told another one."""


def mine_vocabulary(
    target: str,
    corpus_paths: Sequence[Path],
    output: Path,
    overrides: Sequence[str],
    *,
    num_top: int,
    held_out_share: float,
    revision: str | None,
    trust_remote_code: bool,
    as_json: bool,
) -> None:
    """Mine the answers in `corpus_paths`, save the phrases to `output` and print what they are.

    The answers that `train` will hold out, at the same share and seed, are not mined.
    """
    settings = with_overrides(VocabularySettings(), overrides)
    _refuse_unwritable(output)
    corpora = read_corpora(corpus_paths)
    tokenizer, vocab_size = load_tokenizer(target, revision=revision, trust_remote_code=trust_remote_code)
    pieces = TokenPieces.from_tokenizer(tokenizer, vocab_size)
    kept = [each for corpus in corpora for each in corpus.answers if not is_held_out(each, held_out_share, SEED)]
    if not kept:
        raise OptionError(
            f"all answers are held out at a share of {held_out_share}", hint="`--held-out-share 0` mines all of them"
        )
    answers = [answer.response for answer in kept]
    num_tokens = sum(map(len, answers))
    begin = time.perf_counter()
    with note_console().status(f"mining {len(answers):,} answers of {num_tokens:,} tokens ..."):
        vocabulary = mine(answers, pieces, settings)
    seconds = time.perf_counter() - begin
    vocabulary.save(output, _provenance(target, corpora, settings, held_out_share))
    report = describe(vocabulary, pieces, tokenizer, num_top=num_top)
    if as_json:
        facts = {"output": str(output), "settings": asdict(settings), "fingerprint": vocabulary.fingerprint}
        print_json({**facts, "seconds": round(seconds, 3), **asdict(report)})
        return
    console = data_console()
    lines = {
        "file": str(output),
        "method": settings.method,
        "phrases": f"{len(vocabulary):,} of up to {vocabulary.max_tokens} tokens, {report.mean_tokens:.2f} on average",
        "mined from": f"{len(answers):,} answers, {num_tokens:,} tokens, in {seconds:.1f} s",
    }
    for name, line in lines.items():
        console.print(f"[bold]{name:<12}[/] {escape(line)}")
    show_phrases(console, report)


def _refuse_unwritable(output: Path) -> None:
    """Say before the work, not after it, that the phrases cannot be written."""
    if output.is_dir():
        raise OptionError(f"output `{output}` is a folder, the phrases are one file", hint="name a file in it")
    make_folder(output.parent)


def _provenance(
    target: str, corpora: Sequence[Corpus], settings: VocabularySettings, held_out_share: float
) -> dict[str, str]:
    """What is written beside the phrases: how to make them again."""
    return {
        "command": shlex.join(["phrasedraft", *sys.argv[1:]]),
        "target": target,
        "settings": json.dumps(asdict(settings)),
        "held_out_share": str(held_out_share),
        "data": json.dumps([{"name": corpus.name, "sha256": corpus.sha256} for corpus in corpora]),
    }
