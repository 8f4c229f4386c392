"""What `phrasedraft demo` does: pairs of answers, the drafted one on screen while it is made, and a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from phrasedraft.budget import NumDraftTokens
from phrasedraft.cli.console import compact_table, data_console, note_console, print_json, show_stage
from phrasedraft.cli.drafted_text import DraftedText
from phrasedraft.cli.loading import Loaded, encode_turn, load
from phrasedraft.cli.options import DraftingOptions
from phrasedraft.corpus.prompts import TrainingPrompt
from phrasedraft.decoding import DecodingStats, first_divergence
from phrasedraft.errors import OptionError
from phrasedraft.evaluation.methods import Answer, Drafting, TransformersGenerate
from phrasedraft.evaluation.prompts import load_prompts
from phrasedraft.evaluation.statistics import SpeedUp, Timing, paired_speedup

NUM_WARM_UP_TOKENS = 16


@dataclass(frozen=True, kw_only=True)
class Pair:
    """Both answers to one prompt."""

    prompt: TrainingPrompt
    tokens: Sequence[int]
    generated: Answer
    drafted: Answer

    @property
    def is_identical(self) -> bool:
        """Whether not one token differs, nor the reason to stop."""
        first, second = self.generated, self.drafted
        return (first.tokens, first.finish_reason) == (second.tokens, second.finish_reason)

    @property
    def speedup(self) -> float:
        """How many times as fast the drafted answer came, per token."""
        return paired_speedup([timing(self.generated)], [timing(self.drafted)]).ratio


def timing(answer: Answer) -> Timing:
    """What an answer took."""
    return Timing(seconds=answer.seconds, num_tokens=len(answer.tokens))


def compare(
    options: DraftingOptions, *, num_prompts: int, nodes: NumDraftTokens, max_new_tokens: int, as_json: bool
) -> bool:
    """Run the demo and print it; whether every text was identical where it has to be."""
    prompts = load_prompts("gsm8k_test", num_prompts)
    if len(prompts) < num_prompts:
        raise OptionError(f"`--prompts` is `{num_prompts}`, it may be 1 to {len(prompts)}")
    notes, console = note_console(), data_console()
    loaded = load(options)
    shown = None if as_json else DraftedText(console)
    method = Drafting(loaded.decoder(nodes), "phrase drafting", show=shown.write if shown else None)
    baseline = TransformersGenerate(loaded.target)
    warm_up = encode_turn(loaded.target, prompts[0].opening[-1].content)
    for warmed in (baseline, Drafting(loaded.decoder(nodes), "warm-up")):
        warmed.answer(warm_up, NUM_WARM_UP_TOKENS)
    if shown:
        console.print(f"{escape(shown.legend)}; the rest is the target's own choice\n")
    pairs = []
    for index, prompt in enumerate(prompts):
        if shown:
            _show_question(console, prompt)
        else:
            show_stage(f"question {index + 1} of {len(prompts)}")
        pairs.append(_answer_both(loaded, prompt, baseline, method, max_new_tokens, drafts_first=bool(index % 2)))
        if shown:
            shown.end()
            _show_pair(console, pairs[-1])
    report = _report(loaded, options, pairs, nodes, max_new_tokens)
    if as_json:
        print_json(report)
    else:
        _show_total(console, pairs)
    _explain_differences(loaded, pairs, notes)
    return all(pair.is_identical for pair in pairs) or bool(loaded.target.model.dtype != torch.float32)


def _answer_both(
    loaded: Loaded,
    prompt: TrainingPrompt,
    baseline: TransformersGenerate,
    method: Drafting,
    max_new_tokens: int,
    *,
    drafts_first: bool,
) -> Pair:
    tokens = encode_turn(loaded.target, prompt.opening[-1].content)
    if drafts_first:
        drafted = method.answer(tokens, max_new_tokens)
        generated = baseline.answer(tokens, max_new_tokens)
    else:
        generated = baseline.answer(tokens, max_new_tokens)
        drafted = method.answer(tokens, max_new_tokens)
    return Pair(prompt=prompt, tokens=tokens, generated=generated, drafted=drafted)


def _stats(pairs: Sequence[Pair]) -> DecodingStats:
    stats = DecodingStats()
    for pair in pairs:
        assert pair.drafted.stats is not None
        stats.add(pair.drafted.stats)
    return stats


def _total(pairs: Sequence[Pair]) -> SpeedUp:
    return paired_speedup([timing(pair.generated) for pair in pairs], [timing(pair.drafted) for pair in pairs])


def _report(
    loaded: Loaded, options: DraftingOptions, pairs: Sequence[Pair], nodes: NumDraftTokens, max_new_tokens: int
) -> dict[str, Any]:
    stats, speedup = _stats(pairs), _total(pairs)
    return {
        "target": options.target,
        "head": loaded.head_name,
        "sources": list(loaded.sources),
        "num_draft_tokens": nodes,
        "max_new_tokens": max_new_tokens,
        "prompts": len(pairs),
        "identical": sum(pair.is_identical for pair in pairs),
        "mean_acceptance_length": stats.mean_acceptance_length,
        "speedup": speedup.ratio,
        "speedup_low": speedup.low,
        "speedup_high": speedup.high,
        "generate_seconds": sum(pair.generated.seconds for pair in pairs),
        "drafted_seconds": sum(pair.drafted.seconds for pair in pairs),
        "stats": stats.as_dict(),
        "results": [
            {
                "id": pair.prompt.id,
                "num_tokens": len(pair.drafted.tokens),
                "finish_reason": pair.drafted.finish_reason.value,
                "identical": pair.is_identical,
                "mean_acceptance_length": _stats([pair]).mean_acceptance_length,
                "generate_seconds": pair.generated.seconds,
                "drafted_seconds": pair.drafted.seconds,
                "speedup": pair.speedup,
            }
            for pair in pairs
        ],
    }


def _show_question(console: Console, prompt: TrainingPrompt) -> None:
    console.print(f"[bold]{escape(prompt.id)}[/] [dim]{escape(prompt.opening[-1].content)}[/]")


def _show_pair(console: Console, pair: Pair) -> None:
    console.print(
        f"[dim]generate() {pair.generated.seconds:.1f} s, drafted {pair.drafted.seconds:.1f} s, "
        f"{'identical' if pair.is_identical else 'DIFFERENT'}[/]\n"
    )


def _show_total(console: Console, pairs: Sequence[Pair]) -> None:
    speedup = _total(pairs)
    console.print(_table(pairs, speedup))
    interval = "" if speedup.low is None else f", 95 % interval {speedup.low:.2f} to {speedup.high:.2f}"
    console.print(f"{speedup.ratio:.2f} times as fast as generate(){interval} ({len(pairs)} questions)")


def _table(pairs: Sequence[Pair], speedup: SpeedUp) -> Table:
    num_tokens = sum(len(pair.drafted.tokens) for pair in pairs)
    columns = {
        "question": "all",
        "tokens": f"{num_tokens}",
        "tokens a pass": f"{_stats(pairs).mean_acceptance_length:.2f}",
        "generate() s": f"{sum(pair.generated.seconds for pair in pairs):.1f}",
        "drafted s": f"{sum(pair.drafted.seconds for pair in pairs):.1f}",
        "speed-up": f"{speedup.ratio:.2f}",
        "identical": f"{sum(pair.is_identical for pair in pairs)}/{len(pairs)}",
    }
    table = compact_table(tuple(columns), tuple(columns.values()))
    for pair in pairs:
        table.add_row(
            pair.prompt.id,
            f"{len(pair.drafted.tokens)}",
            f"{_stats([pair]).mean_acceptance_length:.2f}",
            f"{pair.generated.seconds:.1f}",
            f"{pair.drafted.seconds:.1f}",
            f"{pair.speedup:.2f}",
            "yes" if pair.is_identical else "no",
        )
    return table


def _explain_differences(loaded: Loaded, pairs: Sequence[Pair], notes: Console) -> None:
    for pair in pairs:
        parting = first_divergence(loaded.target, pair.tokens, pair.generated.tokens, pair.drafted.tokens)
        if parting is not None:
            notes.print(
                f"{escape(pair.prompt.id)}: the texts part at token {parting.position}, where the target's two largest "
                f"logits differ by {parting.top_two_gap:.2e}"
            )
