"""The README beside a head: what it is for, where it comes from, what it does."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from phrasedraft.drafters.head import Head
from phrasedraft.drafters.head_config import PHRASE, PHRASE_CHAIN, TOKEN_CHAIN
from phrasedraft.training.overlap import NUM_TOKENS
from phrasedraft.whole_file import replace_file

TITLES: dict[str, str] = {PHRASE: "Phrase head", TOKEN_CHAIN: "Token chain", PHRASE_CHAIN: "Phrase chain"}
ENTRIES: dict[str, Callable[[Head], str]] = {
    PHRASE: lambda head: f"{len(head.vocabulary):,} phrases of up to {head.vocabulary.max_tokens} tokens",
    TOKEN_CHAIN: lambda head: f"{len(head.vocabulary):,} single tokens, {head.config.num_steps} steps a draft",
    PHRASE_CHAIN: lambda head: (
        f"{len(head.vocabulary):,} phrases of up to {head.vocabulary.max_tokens} tokens, {head.config.num_steps} steps "
        "a draft"
    ),
}


def write_card(folder: Path, head: Head) -> None:
    """Write `README.md` beside the head's two files."""
    replace_file(folder / "README.md", card(head).encode())


def card(head: Head) -> str:
    """The text of a head's README, from its config alone."""
    config, provenance = head.config, head.config.provenance
    files = "\n".join(
        f"| `{line['name']}` | {line['answers']:,} | {line['tokens']:,} | {line['held_out_answers']:,} | "
        f"`{line['sha256']}` |"
        for line in provenance.get("data", [])
    )
    versions = ", ".join(f"{name} {number}" for name, number in provenance.get("versions", {}).items())
    return f"""---
library_name: phrasedraft
base_model: {config.target_name}
---

# {TITLES[config.kind]} for `{config.target_name}`

A draft head for phrasedraft: {ENTRIES[config.kind](head)},
{head.num_parameters:,} parameters, stored in fp16. It reads the target's hidden states of layers
{list(config.target_layers)} and the embedding of the last token, and proposes what the target may say
next; the target decides every token. It works with this target only (hidden size
{config.target_hidden_size}, {config.target_vocab_size:,} tokens).

The training data are the answers in the files below{_overlap(provenance)}.

## Made with

    {provenance.get("command", "unknown")}

{versions}; temperature {config.temperature}. All settings are in `config.json` under `provenance`.

| corpus | answers | tokens | held out | sha256 of the file |
|---|---|---|---|---|
{files}

## Held-out replay

Answers to training prompts that were neither mined nor trained on. Tokens per pass count the target's own
token; landing is the share of passes that accept a draft, banked the tokens accepted when one does.

| corpus | draft tokens | tokens per pass | landing | banked | passes |
|---|---|---|---|---|---|
{_figures(head)}
"""


def _figures(head: Head) -> str:
    return "\n".join(
        f"| `{name}` | {nodes} | {line['tokens_per_pass']:.3f} | {line['landing']:.3f} | {line['banked']:.2f} | "
        f"{line['passes']:,} |"
        for name, table in head.config.provenance.get("held_out", {}).items()
        for nodes, line in table.items()
    )


def _overlap(provenance: Mapping[str, Any]) -> str:
    """How many prompts they were given to share text with the bundled evaluation prompts, where that was counted."""
    found = provenance.get("overlap")
    if found is None:
        return ""
    shared = ", ".join(f"{count:,} with one of `{name}`" for name, count in found.items() if count)
    if not shared:
        return f"; none of their prompts shares {NUM_TOKENS} tokens in a row with a bundled evaluation prompt"
    return f"; some of their prompts share {NUM_TOKENS} tokens in a row with a bundled evaluation prompt: {shared}"
