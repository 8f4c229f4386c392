"""What `phrasedraft inspect` does: read a head's files and describe what they hold."""

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from transformers import AutoTokenizer

from phrasedraft.cli.console import compact_table, data_console, print_json
from phrasedraft.cli.loading import NO_HEAD
from phrasedraft.drafters import Head, load_head, shipped_heads
from phrasedraft.errors import TargetError, first_line
from phrasedraft.phrases.inspection import VocabularyReport, describe
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.phrases.vocabulary import PhraseVocabulary
from phrasedraft.target import EMBEDDED_NAME
from phrasedraft.target.embedded import embedded_folder

BAR_WIDTH = 30


def inspect_head(name: str, target: str | None, *, num_top: int, as_json: bool) -> None:
    """Print what is in the head `name`: a shipped one, or that in a folder."""
    path = shipped_heads().get(name, Path(name))
    head = load_head(path)
    report = _facts(path, head)
    tokenizer = _tokenizer(target, head.config.target_name)
    text = None
    if tokenizer is not None:
        pieces = TokenPieces.from_tokenizer(tokenizer, head.config.target_vocab_size)
        text = describe(head.vocabulary, pieces, tokenizer, num_top=num_top)
        report["text"] = asdict(text)
    if as_json:
        print_json(report)
        return
    _show(data_console(), report, text)


def _facts(path: Path, head: Head) -> dict[str, Any]:
    config = head.config
    rows = sum(parameter.numel() for parameter in head.scorer.output.parameters())
    return {
        "folder": str(path),
        "bytes": {file.name: file.stat().st_size for file in sorted(path.iterdir()) if file.is_file()},
        "kind": config.kind,
        "num_steps": config.num_steps,
        "target": config.target_name,
        "target_hidden_size": config.target_hidden_size,
        "target_vocab_size": config.target_vocab_size,
        "target_layers": list(config.target_layers),
        "tokenizer_fingerprint": config.tokenizer_fingerprint,
        "vocabulary_fingerprint": head.vocabulary.fingerprint,
        "num_phrases": len(head.vocabulary),
        "by_num_tokens": _by_num_tokens(head.vocabulary),
        "parameters": {"trunk": head.num_parameters - rows, "rows": rows, "all": head.num_parameters},
        "trunk_width": config.trunk_width,
        "temperature": config.temperature,
        "licence": _licence(path),
        "provenance": config.provenance,
    }


def _by_num_tokens(vocabulary: PhraseVocabulary) -> dict[int, int]:
    lengths, counts = np.unique(vocabulary.lengths, return_counts=True)
    return dict(zip(lengths.tolist(), counts.tolist(), strict=True))


def _licence(path: Path) -> str | None:
    """The licence the head's README names in its first lines."""
    try:
        lines = (path / "README.md").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return None
    return next((line.partition(":")[2].strip() for line in lines[:20] if line.startswith("license:")), None)


def _tokenizer(target: str | None, trained_for: str) -> Any:
    """The tokenizer to show text with: of the target given, else of the head's own where that is at hand, else None."""
    if target == NO_HEAD:
        return None
    name = target or trained_for
    if target is None and name != EMBEDDED_NAME and not Path(name).is_dir():
        return None
    folder = str(embedded_folder()) if name == EMBEDDED_NAME else name
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=Path(folder).is_dir())
    except (OSError, ValueError, KeyError) as error:
        raise TargetError(
            f"the tokenizer of `{name}` cannot be loaded: {first_line(error)}",
            hint="give `--target` with the target the head was trained for, or `--target none`",
        ) from error


def _show(console: Console, report: Mapping[str, Any], text: VocabularyReport | None) -> None:
    sizes, parameters = report["bytes"], report["parameters"]
    lines = {
        "folder": f"{report['folder']} ({sum(sizes.values()) / 1e6:.1f} MB)",
        "kind": f"{report['kind']}, {report['num_steps']} step(s) a draft",
        "target": f"{report['target']} (hidden size {report['target_hidden_size']}, "
        f"{report['target_vocab_size']:,} tokens, layers {report['target_layers']})",
        "parameters": f"{parameters['all']:,}: trunk {parameters['trunk']:,}, rows {parameters['rows']:,}",
        "phrases": f"{report['num_phrases']:,}",
        "licence": report["licence"] or "not named",
        "made with": str(report["provenance"].get("command", "unknown")),
    }
    for name, line in lines.items():
        console.print(f"[bold]{name:<12}[/] {escape(line)}")
    for corpus in report["provenance"].get("data", []):
        console.print(
            f"[bold]{'corpus':<12}[/] {corpus['name']}: {corpus['answers']:,} answers, {corpus['tokens']:,} tokens"
        )
    console.print(_histogram("tokens", report["by_num_tokens"]))
    if text is None:
        console.print("give `--target` with the target's name to see the phrases as text")
        return
    show_phrases(console, text)


def show_phrases(console: Console, text: VocabularyReport) -> None:
    """Print the words, categories, best phrases and spelling of a vocabulary."""
    console.print(_histogram("words", text.by_num_words))
    console.print(_histogram("category", {category.value: count for category, count in text.by_category.items()}))
    console.print("[bold]top phrases[/]  " + "  ".join(escape(repr(phrase)) for phrase in text.top))
    console.print(
        f"[bold]spelling[/]     {text.num_mismatches} of {text.num_compared} phrases are spelled unlike the tokenizer "
        "spells their text on its own"
    )
    for spelling in text.mismatches:
        console.print(f"  {escape(repr(spelling.text))}: {spelling.tokens} instead of {spelling.tokenized}")


def _histogram(name: str, counts: Mapping[Any, int]) -> Table:
    table = compact_table((name, "phrases", "share"))
    table.add_column("", justify="left")
    total, most = max(sum(counts.values()), 1), max(counts.values(), default=1)
    for value, count in counts.items():
        bar = "#" * math.ceil(BAR_WIDTH * count / most)
        table.add_row(str(value), f"{count:,}", f"{count / total:.1%}", bar)
    return table
