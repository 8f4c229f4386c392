"""Up to which batch size drafting pays: a batch fills the machine by itself, and leaves drafts less to gain."""

from collections.abc import Sequence

from phrasedraft.evaluation.bench.summary import Summary


def crossovers(summaries: Sequence[Summary]) -> list[str]:
    """For each drafting method measured at several batch sizes, its speed-up over the plain loop at each, in words.

    The plain loop decodes a batch together. "off above 2" says that at every larger size measured the ratio is below 1.
    """
    lines = []
    tables: dict[tuple[str, str, str], dict[int, float]] = {}
    for each in summaries:
        if each.drafter and each.over_plain is not None:
            key = each.prompt_set, each.dtype, each.method
            tables.setdefault(key, {})[each.batch_size] = each.over_plain.ratio
    for (prompt_set, dtype, method), ratios in tables.items():
        if len(ratios) < 2:
            continue
        at = ", ".join(f"{ratio:.2f} at {size}" for size, ratio in sorted(ratios.items()))
        lines.append(f"{prompt_set}, {dtype}: {method} over the plain loop by batch size: {at}; {_verdict(ratios)}")
    return lines


def _verdict(ratios: dict[int, float]) -> str:
    paying = [size for size, ratio in ratios.items() if ratio >= 1]
    if not paying:
        return "off at every size"
    largest = max(paying)
    return "on at every size" if largest == max(ratios) else f"off above {largest}"
