"""Runs of a benchmark to set beside the paper, and the tables made of them."""

from dataclasses import replace

from bench_rows import Maker, make_provenance, make_row
from phrasedraft.evaluation.bench.paper import paper_tables
from phrasedraft.evaluation.bench.result import GENERATE, PLAIN
from phrasedraft.evaluation.bench.summary import summarize

TITLES = (
    "Headline speed-ups",
    "8,000 entries against 80,000",
    "Tokens per pass",
    "What a pass costs",
    "Where the accepted tokens come from",
    "The parameter budget",
    "Tokens per word",
    "Words against phrases",
)
SMALL, LARGE = 3_013_000, 19_250_000
NOT_MEASURED = "not measured in this run"


def phrase(nodes=46, drafter="phrase", landing=0.75, banked=2.2, draft_milliseconds=5.0):
    return Maker(
        method=f"{drafter}, {nodes} nodes",
        drafter=drafter,
        num_draft_tokens=nodes,
        landing=landing,
        banked=banked,
        draft_milliseconds=draft_milliseconds,
    )


METHODS = (Maker(method=GENERATE, kind=GENERATE), Maker(method=PLAIN), phrase(8), phrase(46))


def heads(**counts):
    """What a run says of drafters with so many parameters."""
    return {
        name.replace("_", "-"): {"parameters": count, "target_share": count / 134_515_008, "source": "nowhere"}
        for name, count in counts.items()
    }


def provenance(**changes):
    return make_provenance(**{"drafters": heads(phrase=SMALL, words_head=SMALL), **changes})


def tables(results, known=None):
    known = known or provenance()
    made = paper_tables(results, known, summarize(results, known.differences))
    assert tuple(table.title for table in made) == TITLES
    return dict(zip(("speed", "heads", "passes", "cost", "kinds", "budget", "words", "unit"), made, strict=True))


def rows(table, start):
    """The rows whose `what` begins like that."""
    found = [row for row in table.rows if row.what.startswith(start)]
    assert found
    return found


def one(table, start):
    (found,) = rows(table, start)
    return found


def with_passes(lengths, **changes):
    """A row whose passes are these, counted as the loop counts them."""
    row = make_row(maker=phrase(), **changes)
    accepted = [length - 1 for length in lengths]
    stats = {
        **row.stats,
        "num_passes": len(lengths),
        "num_landings": sum(each > 0 for each in accepted),
        "num_accepted_tokens": sum(accepted),
    }
    return replace(row, pass_lengths=list(lengths), stats=stats)


def costs(**milliseconds):
    times = [
        {
            "num_draft_tokens": int(count.strip("_")),
            "context_tokens": 128,
            "milliseconds": value,
            "low_milliseconds": value - 1,
            "high_milliseconds": value + 1,
        }
        for count, value in milliseconds.items()
    ]
    return {"target": "smollm2-135m", "repeats": 5, "times": times}
