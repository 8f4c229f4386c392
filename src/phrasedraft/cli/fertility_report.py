"""What `phrasedraft fertility` does: load what is needed, count, replay where a head is given, show the table."""

import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, fields

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from phrasedraft.cli.console import compact_table, data_console, note_console, print_json
from phrasedraft.cli.loading import NO_HEAD, load_target_quietly
from phrasedraft.cli.options import LoadOptions
from phrasedraft.drafters import Head, load_head
from phrasedraft.evaluation.fertility import Fertility, ForcedReplay, bundled_texts, fertility, replay_text
from phrasedraft.phrases.pieces import TokenPieces
from phrasedraft.target import TransformersTarget
from phrasedraft.target.loading import load_tokenizer

NUM_NODES = 8
"""Most draft tokens a pass, unless given."""
OF_THE_TOKENIZER = ("revision", "trust_remote_code")
"""The options of loading that a tokenizer heeds too."""


def report_fertility(name: str, head: str | None, load: LoadOptions, *, nodes: int | None, as_json: bool) -> None:
    """Print the account of target `name` on the bundled texts, with a replay where there is a head."""
    replayed: dict[str, ForcedReplay | None] = {}
    texts = bundled_texts()
    if head is None or head == NO_HEAD:
        _warn_unused(load, nodes)
        tokenizer, vocab_size = load_tokenizer(name, revision=load.revision, trust_remote_code=load.trust_remote_code)
    else:
        drafter = load_head(head)
        target = load_target_quietly(name, load)
        drafter.check(target.identity)
        assert target.tokenizer is not None  # `load_target` brings one
        tokenizer, vocab_size = target.tokenizer, target.identity.vocab_size
        replayed = _replay(drafter, target, texts, nodes or NUM_NODES, note_console())
    pieces = TokenPieces.from_tokenizer(tokenizer, max(vocab_size, len(tokenizer)))
    counted = {language: fertility(tokenizer, pieces, text) for language, text in texts.items()}
    if as_json:
        print_json(
            {
                "target": name,
                "vocab_size": vocab_size,
                "head": head if replayed else None,
                "num_nodes": (nodes or NUM_NODES) if replayed else None,
                "texts": {
                    language: {
                        **each.as_dict(),
                        "forced_replay": asdict(one) if (one := replayed.get(language)) is not None else None,
                    }
                    for language, each in counted.items()
                },
            }
        )
        return
    _show(data_console(), counted, replayed)


def _warn_unused(load: LoadOptions, nodes: int | None) -> None:
    """Without a head the target's weights are not loaded and nothing is drafted."""
    defaults = LoadOptions()
    names = [field.name for field in fields(LoadOptions) if field.name not in OF_THE_TOKENIZER]
    unused = [f"--{name.replace('_', '-')}" for name in names if getattr(load, name) != getattr(defaults, name)]
    unused = [{"--packed": "--no-packed"}.get(name, name) for name in unused]
    if nodes is not None:
        unused.append("--nodes")
    if unused:
        warnings.warn(f"without `--head`, {', '.join(unused)} has no effect", stacklevel=1)


def _replay(
    head: Head, target: TransformersTarget, texts: Mapping[str, str], nodes: int, notes: Console
) -> dict[str, ForcedReplay | None]:
    """The replay of each text, with a bar that shows tokens a second."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"))
    replayed: dict[str, ForcedReplay | None] = {}
    with Progress(
        *columns, TimeElapsedColumn(), TimeRemainingColumn(), console=notes, disable=not notes.is_terminal
    ) as progress:
        task = progress.add_task("replayed texts", total=len(texts), rate="")
        started, num_tokens = time.perf_counter(), 0
        for language, text in texts.items():
            replayed[language] = one = replay_text(head, target, text, num_draft_tokens=nodes)
            num_tokens += one.num_tokens if one is not None else 0
            rate = num_tokens / max(time.perf_counter() - started, 1e-9)
            progress.update(task, advance=1, rate=f"{rate:,.0f} tokens/s")
    return replayed


def _show(console: Console, counted: Mapping[str, Fertility], replayed: Mapping[str, ForcedReplay | None]) -> None:
    header = ["text", "words", "tokens", "tokens/word", "tokens/char", "one-token words"]
    if replayed:
        header += ["tokens/pass", "landing"]
    table = compact_table(header)
    for language, each in counted.items():
        share = each.one_token_share
        row = [
            language,
            f"{each.num_words:,}",
            f"{each.num_tokens:,}",
            f"{each.tokens_per_word:.2f}",
            f"{each.tokens_per_character:.2f}",
            f"{share:.0%}" if share is not None else "",
        ]
        if replayed:
            one = replayed[language]
            row += [f"{one.tokens_per_pass:.3f}", f"{one.landing:.3f}"] if one is not None else ["", ""]
        table.add_row(*row)
    console.print(table)
    rewritten = [language for language, each in counted.items() if not each.spells_text]
    if rewritten:
        console.print(f"the tokens do not spell the text of {', '.join(rewritten)}: some of it is lost or rewritten")
    if replayed:
        console.print("tokens/pass and landing: by replay, as if the target had written these texts, which it has not")
