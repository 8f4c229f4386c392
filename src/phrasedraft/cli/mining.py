"""What `phrasedraft mine` does: read answers, mine them, write the phrases and describe them."""

import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.markup import escape

from phrasedraft.cli.console import data_console, note_console, print_json
from phrasedraft.cli.inspection import show_phrases
from phrasedraft.corpus.answers import Corpus, read_corpora
from phrasedraft.errors import OptionError
from phrasedraft.phrases import TokenPieces, VocabularySettings, describe, mine
from phrasedraft.target.loading import load_tokenizer
from phrasedraft.training.settings import with_overrides


def mine_vocabulary(
    target: str,
    corpus_paths: Sequence[Path],
    output: Path,
    overrides: Sequence[str],
    *,
    num_top: int,
    revision: str | None,
    trust_remote_code: bool,
    as_json: bool,
) -> None:
    """Mine the answers in `corpus_paths`, save the phrases to `output` and print what they are."""
    settings = with_overrides(VocabularySettings(), overrides)
    _refuse_unwritable(output)
    corpora = read_corpora(corpus_paths)
    tokenizer, vocab_size = load_tokenizer(target, revision=revision, trust_remote_code=trust_remote_code)
    pieces = TokenPieces.from_tokenizer(tokenizer, vocab_size)
    answers = [answer.response for corpus in corpora for answer in corpus.answers]
    num_tokens = sum(corpus.num_response_tokens for corpus in corpora)
    begin = time.perf_counter()
    with note_console().status(f"mining {len(answers):,} answers of {num_tokens:,} tokens ..."):
        vocabulary = mine(answers, pieces, settings)
    seconds = time.perf_counter() - begin
    vocabulary.save(output, _provenance(target, corpora, settings))
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
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OptionError(f"output `{output}` cannot be written: {error.strerror}", hint="check the path") from error
    if not os.access(output.parent, os.W_OK):
        raise OptionError(f"output `{output}` cannot be written: no permission", hint="name another folder")


def _provenance(target: str, corpora: Sequence[Corpus], settings: VocabularySettings) -> dict[str, str]:
    """What is written beside the phrases: how to make them again."""
    return {
        "command": shlex.join(["phrasedraft", *sys.argv[1:]]),
        "target": target,
        "settings": json.dumps(asdict(settings)),
        "data": json.dumps([{"name": corpus.name, "sha256": corpus.sha256} for corpus in corpora]),
    }
