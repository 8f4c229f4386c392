"""Results of a benchmark that nobody ran: rows and provenance as realistic as tests and pictures need."""

import hashlib
import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.evaluation.bench.result import GENERATE, LOOKUP, PLAIN, Difference, Provenance, Result
from phrasedraft.phrases.inspection import PhraseCategory

SETS = ("gsm8k_test", "math500", "mt_bench", "humaneval")
_PASS_MILLISECONDS = {0: 55.0, 4: 58.0, 8: 64.0, 16: 80.0, 46: 128.0}
_OURS = "own loop"
_SHARES = (0.34, 0.2, 0.12, 0.12, 0.06, 0.14, 0.02)


@dataclass(frozen=True, kw_only=True)
class Maker:
    """A method to make rows of: a landing pass accepts `banked` tokens on average."""

    method: str
    drafter: str = ""
    num_draft_tokens: int = 0
    landing: float = 0.0
    banked: float = 1.0
    draft_milliseconds: float = 0.0
    kind: str = _OURS


def makers(node_counts: Sequence[int] = (4, 8, 16, 46)) -> list[Maker]:
    """The baselines, and five drafters at each number of nodes."""
    made = [Maker(method=GENERATE, kind=GENERATE), Maker(method=LOOKUP, kind=LOOKUP), Maker(method=PLAIN)]
    drafters = {
        "phrase-head": (0.62, 1.9, 5.0),
        "token-chain": (0.66, 2.0, 6.0),
        "words-head": (0.58, 1.4, 4.5),
        "suffix-automaton": (0.28, 2.9, 0.3),
        "token-recycling": (0.5, 1.5, 0.8),
    }
    for name, (landing, banked, draft) in drafters.items():
        for count in node_counts:
            gain = 1 + 0.12 * (count.bit_length() - 3)
            made.append(
                Maker(
                    method=f"{name}, {count} nodes",
                    drafter=name,
                    num_draft_tokens=count,
                    landing=min(0.95, landing * gain),
                    banked=banked * gain**0.5,
                    draft_milliseconds=draft,
                )
            )
    return made


def make_row(
    prompt_set: str = "gsm8k_test",
    prompt: int = 0,
    turn: int = 1,
    maker: Maker | None = None,
    *,
    tokens: Sequence[int] | None = None,
    pass_milliseconds: float | None = None,
    **changes: Any,
) -> Result:
    """One result; its text depends on the prompt only, its passes and times on the method too."""
    maker = maker or Maker(method=GENERATE, kind=GENERATE)
    text = random.Random(f"text {prompt_set} {prompt} {turn}")
    dice = random.Random(
        f"{prompt_set} {prompt} {turn} {maker.method} {changes.get('dtype')} {changes.get('batch_size')}"
    )
    ids = list(tokens) if tokens is not None else [text.randrange(49152) for _ in range(text.randint(60, 256))]
    lengths = _pass_lengths(len(ids), maker, dice, prompt_set)
    each = (pass_milliseconds or _cost(maker.num_draft_tokens)) / 1e3 * dice.uniform(0.95, 1.05)
    prefill, own = 0.15 * dice.uniform(0.9, 1.1), maker.kind == _OURS
    stats = _stats(lengths, maker, each, prefill) if own else None
    if stats is not None:
        seconds = prefill + stats.decode_seconds
    else:
        seconds = prefill + each * 0.9 * len(ids) / (1.25 if maker.kind == LOOKUP else 1.0)
    accepted = sum(length - 1 for length in lengths) if maker.drafter.endswith(("head", "chain")) else 0
    answer_id = f"{prompt_set}-{prompt}" if turn == 1 else f"{prompt_set}-{prompt}#{turn}"
    values = {
        "prompt_set": prompt_set,
        "answer_id": answer_id,
        "turn": turn,
        "group": f"{prompt_set}-{prompt}",
        "method": maker.method,
        "drafter": maker.drafter,
        "num_draft_tokens": maker.num_draft_tokens,
        "dtype": "float32",
        "batch_size": 1,
        "num_prompt_tokens": 40 + 7 * prompt,
        "tokens": ids,
        "sha256": hashlib.sha256(json.dumps(ids).encode()).hexdigest(),
        "finish_reason": "eos" if len(ids) < 256 else "length",
        "seconds": seconds,
        "first_token_seconds": prefill if own else None,
        "pass_lengths": lengths if own else [],
        "categories": _categories(accepted, dice),
        "stats": stats.as_dict() if stats is not None else None,
        "rank": dice.randrange(12),
        "started_at": 1.7e9 + 100.0 * prompt + 10 * turn,
        "load_average": 1.0 + dice.random(),
        "other_load": 0.5 if dice.random() < 0.03 else dice.uniform(0, 0.1),
        "peak_bytes": 1_600_000_000 + 1000 * prompt,
        "energy_joules": None,
    }
    return Result(**{**values, **changes})


def make_rows(
    sets: Sequence[str] = SETS, num_prompts: int = 10, methods: Sequence[Maker] | None = None, **changes: Any
) -> list[Result]:
    """Every method's answers to every prompt; `mt_bench` has two turns."""
    return [
        make_row(name, prompt, turn, maker, **changes)
        for name in sets
        for prompt in range(num_prompts)
        for turn in range(1, 3 if name == "mt_bench" else 2)
        for maker in (methods if methods is not None else makers())
    ]


def make_provenance(**changes: Any) -> Provenance:
    """Where such rows could come from."""
    times = [
        {
            "num_draft_tokens": count,
            "context_tokens": 128,
            "milliseconds": value,
            "low_milliseconds": value * 0.96,
            "high_milliseconds": value * 1.07,
        }
        for count, value in _PASS_MILLISECONDS.items()
    ]
    heads = dict.fromkeys(("phrase-head", "token-chain", "words-head"), 3434000)
    values: dict[str, Any] = {
        "command": "phrasedraft bench --prompts gsm8k_test,math500 --nodes 4,8,16,46 --seed 0",
        "started": "2026-11-30T10:00:00+00:00",
        "finished": "2026-11-30T12:41:07+00:00",
        "target": "smollm2-135m",
        "target_parameters": 134_515_008,
        "settings": {"max_new_tokens": 256, "seed": 0, "nodes": [4, 8, 16, 46], "packed": True},
        "machine": {"processor": "a processor", "torch_threads": 2, "versions": {"torch": "2.13.0", "numpy": "2.4.6"}},
        "drafters": {
            **{
                name: {"parameters": count, "target_share": count / 134_515_008, "source": f"heads/{name}"}
                for name, count in heads.items()
            },
            **{
                name: {"parameters": 0, "target_share": 0.0, "source": "built in"}
                for name in ("suffix-automaton", "token-recycling")
            },
        },
        "warm_up_seconds": 12.5,
        "costs": {"float32": {"target": "smollm2-135m", "repeats": 5, "times": times}},
        "fertility": [
            {"text": "english", "words": 310, "tokens": 402, "tokens_per_word": 402 / 310, "tokens_per_pass": 1.62},
            {"text": "telugu", "words": 180, "tokens": 2107, "tokens_per_word": 2107 / 180},
        ],
    }
    return Provenance(**{**values, **changes})


def make_difference(result: Result, position: int | None = 3, top_two_gap: float | None = 0.01) -> Difference:
    """That `result` is not what `generate()` wrote."""
    return Difference(
        prompt_set=result.prompt_set,
        answer_id=result.answer_id,
        method=result.method,
        dtype=result.dtype,
        batch_size=result.batch_size,
        position=position,
        top_two_gap=top_two_gap,
    )


def _cost(num_draft_tokens: int) -> float:
    return _PASS_MILLISECONDS.get(num_draft_tokens, 55.0 + 1.5 * num_draft_tokens)


def _pass_lengths(num_tokens: int, maker: Maker, dice: random.Random, prompt_set: str) -> list[int]:
    left, lengths = num_tokens - 1, []
    landing = maker.landing * (0.8 if prompt_set in ("mt_bench", "humaneval") else 1.0)
    while left > 0:
        accepted = 0
        if dice.random() < landing:
            accepted = 1
            while accepted < max(1, maker.num_draft_tokens) and dice.random() < 1 - 1 / max(maker.banked, 1.0):
                accepted += 1
        lengths.append(min(left, accepted + 1))
        left -= lengths[-1]
    return lengths


def _stats(lengths: Sequence[int], maker: Maker, pass_seconds: float, prefill_seconds: float) -> DecodingStats:
    stats = DecodingStats(num_generated_tokens=1 + sum(lengths), prefill_seconds=prefill_seconds)
    for length in lengths:
        accepted, drafted = length - 1, maker.num_draft_tokens
        stats.num_passes += 1
        stats.num_drafts += drafted > 0
        stats.num_draft_tokens += drafted
        stats.num_accepted_tokens += accepted
        stats.num_landings += accepted > 0
        missing = accepted - len(stats.num_accepted_tokens_per_pos)
        stats.num_accepted_tokens_per_pos += [0] * missing
        for position in range(accepted):
            stats.num_accepted_tokens_per_pos[position] += 1
    stats.verify_seconds = pass_seconds * len(lengths)
    stats.draft_seconds = maker.draft_milliseconds / 1e3 * len(lengths)
    stats.keep_seconds, stats.other_seconds = 0.0006 * len(lengths), 0.0012 * len(lengths)
    return stats


def _categories(num_accepted: int, dice: random.Random) -> dict[str, int]:
    kinds = [kind.value for kind in PhraseCategory]
    counts: Mapping[str, int] = dict.fromkeys(kinds, 0)
    drawn = dice.choices(kinds, _SHARES, k=num_accepted)
    return {kind: drawn.count(kind) for kind in counts if kind in drawn}
