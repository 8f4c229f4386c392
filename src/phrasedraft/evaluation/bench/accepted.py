"""What was accepted: how much in a pass, and in which kind of phrase."""

from collections.abc import Sequence

from phrasedraft.evaluation.bench.result import Result


def accepted_lengths(results: Sequence[Result]) -> dict[str, dict[int, int]]:
    """For each method the number of passes that accepted 0, 1, 2, ... draft tokens."""
    passes: dict[str, dict[int, int]] = {}
    for result in results:
        for length in result.pass_lengths:
            mine = passes.setdefault(result.method, {})
            mine[length - 1] = mine.get(length - 1, 0) + 1
    return {method: dict(sorted(counts.items())) for method, counts in passes.items()}


def category_shares(results: Sequence[Result]) -> dict[str, dict[str, float]]:
    """For each method whose accepted tokens are told apart, the share of each kind of phrase among them."""
    counts: dict[str, dict[str, int]] = {}
    for result in results:
        for kind, count in result.categories.items():
            mine = counts.setdefault(result.method, {})
            mine[kind] = mine.get(kind, 0) + count
    totals = {method: sum(mine.values()) for method, mine in counts.items()}
    return {
        method: {kind: count / totals[method] for kind, count in mine.items()}
        for method, mine in counts.items()
        if totals[method]
    }
