"""What `phrasedraft doctor` does: ask the target, compare drafted with plain text, time passes, and say it all."""

from collections.abc import Mapping
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from phrasedraft.budget.cost import PassCost, measure_pass_cost
from phrasedraft.cli.console import compact_table, data_console, print_json, show_stage
from phrasedraft.cli.identity import IdentityCheck, check_identity
from phrasedraft.cli.loading import has_chat_template, load_target_quietly
from phrasedraft.cli.options import LoadOptions
from phrasedraft.drafters import Head, load_head, shipped_heads
from phrasedraft.errors import HeadFileError, HeadMismatchError
from phrasedraft.target import Support, TransformersTarget
from phrasedraft.target.probe import TOLERANCE

ASSUMED_TOKENS_PER_PASS = {4: 1.88, 8: 2.05, 16: 2.20, 46: 2.41}
"""What the embedded target's first head reached on GSM8K (docs/log.md), where no head says what it reached."""

MEANING = {
    Support.TREE: "draft trees are verified exactly",
    Support.CHAIN: "draft chains are verified exactly, trees are cut to their best path",
    Support.NOTHING: "nothing can be drafted, decoding falls back to one token a pass",
}


def check_up(
    name: str, head_folder: str | None, options: LoadOptions, *, nodes: int, repeats: int, as_json: bool
) -> bool:
    """Print what there is to know of a target; whether it, and the head if there is one, can be used."""
    target = load_target_quietly(name, options)
    head, head_report = _head(target, _folder(name, head_folder))
    show_stage("comparing drafted with plain text")
    checks = check_identity(target, head, nodes)
    show_stage("timing passes")
    cost = measure_pass_cost(target, repeats=repeats)
    known = _tokens_per_pass(head)
    is_exact = all(check.is_identical for check in checks) or target.model.dtype != torch.float32
    report = {
        "target": name,
        "usable": bool(is_exact and (head_report is None or head_report["fits"])),
        **target_facts(target),
        "head": head_report,
        "identity": [check.as_dict() for check in checks],
        "pass_cost": cost.as_dict(),
        "tokens_per_pass": {str(count): value for count, value in known.items()},
        "tokens_per_pass_from": "an assumption" if known is ASSUMED_TOKENS_PER_PASS else "the head's held-out replay",
        "best_num_draft_tokens": _best(target, cost, known),
    }
    if as_json:
        print_json(report)
    else:
        _show(data_console(), report, checks, cost, known)
    return bool(report["usable"])


def target_facts(target: TransformersTarget) -> dict[str, Any]:
    """What the target itself says, ready for JSON."""
    model = target.model
    dtype = model.dtype
    return {
        "support": target.support.value,
        "notes": list(target.notes),
        "largest_logit_difference": target.report.largest_difference,
        "tolerance": TOLERANCE.get(dtype, 1e-3),
        "architecture": type(model).__name__,
        "attention_implementation": getattr(model.config, "_attn_implementation", None),
        "dtype": str(dtype).removeprefix("torch."),
        "device": str(target.device),
        "packed": target.network is not model,
        "hidden_size": target.identity.hidden_size,
        "vocab_size": target.identity.vocab_size,
        "context_limit": target.context_limit,
        "eos_token_ids": sorted(target.eos_token_ids),
        "eos_sources": {
            "generation_config.json": getattr(model.generation_config, "eos_token_id", None),
            "config.json": getattr(model.config.get_text_config(decoder=True), "eos_token_id", None),
            "tokenizer": getattr(target.tokenizer, "eos_token_id", None),
        },
        "chat_template": has_chat_template(target),
    }


def _folder(name: str, head: str | None) -> str | None:
    """The head to check: the one given, or the one the target comes with."""
    folder = shipped_heads().get(head or name)
    return str(folder) if folder is not None else head


def _head(target: TransformersTarget, folder: str | None) -> tuple[Head | None, dict[str, Any] | None]:
    """The head, if it fits, and what there is to say of it."""
    if folder is None:
        return None, None
    try:
        head = load_head(folder)
        head.check(target.identity)
    except (HeadFileError, HeadMismatchError) as error:
        return None, {"folder": folder, "fits": False, "why": str(error), "hint": error.hint}
    return head, {
        "folder": folder,
        "fits": True,
        "trained_for": head.config.target_name,
        "num_phrases": len(head.vocabulary),
        "num_parameters": head.num_parameters,
    }


def _tokens_per_pass(head: Head | None) -> Mapping[int, float]:
    """Tokens a pass by draft tokens: what the head reached on its first held-out corpus, or the usual."""
    for table in (head.config.provenance.get("held_out", {}) if head is not None else {}).values():
        return {int(count): float(line["tokens_per_pass"]) for count, line in table.items()}
    return ASSUMED_TOKENS_PER_PASS


def _best(target: TransformersTarget, cost: PassCost, tokens_per_pass: Mapping[int, float]) -> int:
    """The measured number of draft tokens with the highest expected speed; 0 where drafting does not pay."""
    counts = sorted({time.num_draft_tokens for time in cost.times})
    if target.support is Support.NOTHING:
        return 0
    return max(counts, key=lambda count: (cost.speedup(count, tokens_per_pass), -count))


def _show(
    console: Console,
    report: Mapping[str, Any],
    checks: list[IdentityCheck],
    cost: PassCost,
    tokens_per_pass: Mapping[int, float],
) -> None:
    sources = ", ".join(f"{name}: {ids}" for name, ids in report["eos_sources"].items() if ids is not None)
    eos = f"{report['eos_token_ids']} ({sources})" if sources else "none: answers end at the length limit only"
    head = report["head"]
    lines = {
        "target": f"{report['target']} ({report['architecture']}, {report['dtype']} on {report['device']})",
        "support": f"{report['support']}: {MEANING[Support(report['support'])]}",
        "logits": _logits_line(report),
        "attention": str(report["attention_implementation"]),
        "linears": "packed" if report["packed"] else "as they are",
        "end of text": eos,
        "context limit": str(report["context_limit"] or "none named"),
        "chat template": "yes" if report["chat_template"] else "no: prompts are plain text",
        "head": "none given" if head is None else _head_line(head),
    }
    for name, text in lines.items():
        console.print(f"[bold]{name:<14}[/] {escape(text)}")
    for note in report["notes"]:
        console.print(f"[bold]{'note':<14}[/] {escape(note)}")
    for check in checks:
        console.print(f"[bold]{'text':<14}[/] {escape(str(check))}")
    console.print(_cost_table(cost, tokens_per_pass))
    origin = report["tokens_per_pass_from"]
    console.print(f"with tokens a pass from {origin}, {report['best_num_draft_tokens']} draft tokens pay best")
    console.print("[bold green]usable[/]" if report["usable"] else "[bold red]not usable[/]")


def _logits_line(report: Mapping[str, Any]) -> str:
    if report["support"] == Support.NOTHING.value:
        return f"differ by more than the {report['tolerance']:.0e} that is allowed, see below"
    return f"differ by {report['largest_logit_difference']:.1e} at most, {report['tolerance']:.0e} is allowed"


def _head_line(head: Mapping[str, Any]) -> str:
    if not head["fits"]:
        return f"{head['folder']} does not fit: {head['why']} (hint: {head['hint']})"
    return f"{head['folder']} fits: {head['num_phrases']:,} phrases, {head['num_parameters']:,} parameters"


def _cost_table(cost: PassCost, tokens_per_pass: Mapping[int, float]) -> Table:
    table = compact_table(
        ("draft tokens", "context", "ms a pass", "quartiles", "pays above tokens a pass", "expected speed-up")
    )
    for time in cost.times:
        count, context = time.num_draft_tokens, time.context_tokens
        table.add_row(
            f"{count}",
            f"{context}",
            f"{time.milliseconds:.1f}",
            f"{time.low_milliseconds:.1f} to {time.high_milliseconds:.1f}",
            f"{cost.ratio(count, context):.2f}",
            f"{cost.speedup(count, tokens_per_pass):.2f}",
        )
    return table
