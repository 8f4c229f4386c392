"""Cases that the benchmark answers: what batches do to drafting, and acceptance over all prompts and by set."""

import re

import pytest

from kit import PROMPT, RandomTreeDrafter, WrongDrafter, greedy_answer, target_of
from phrasedraft import Decoder
from phrasedraft.drafters import load_drafter
from phrasedraft.evaluation.bench.crossover import crossovers
from phrasedraft.evaluation.bench.folder import ResultsFolder
from phrasedraft.evaluation.bench.run import Conditions, Entrant, make_groups, run_benchmark
from phrasedraft.evaluation.bench.summary import POOLED, summarize
from phrasedraft.evaluation.dialogue import Dialogue
from phrasedraft.evaluation.methods import BatchedGenerate, Drafting, PlainLoop


def measured(folder, drafter, sizes, *, sets=("set",)):
    target = target_of()
    methods = [
        BatchedGenerate(target),
        PlainLoop(Decoder(target, WrongDrafter(()), num_draft_tokens=0)),
        Drafting(Decoder(target, drafter, num_draft_tokens=6), "drafts", drafter=drafter.name),
    ]
    dialogues = {
        name: [
            Dialogue(answer_ids=(f"{name}{number}",), tokens=lambda answers, n=number: [*PROMPT[: n % 3], *PROMPT])
            for number in range(8)
        ]
        for name in sets
    }
    results = []
    for size in sizes:
        conditions = Conditions(dtype="float32", batch_size=size, max_new_tokens=24)
        entrants = [Entrant(method=method) for method in methods]
        results += run_benchmark(make_groups(dialogues, size), entrants, ResultsFolder(folder, {}), conditions)
    return summarize(results)


def check_crossover(summaries, sizes):
    (line,) = crossovers(summaries)
    ratios = {int(size): float(ratio) for ratio, size in re.findall(r"([\d.]+) at (\d+)", line)}
    assert set(ratios) == set(sizes)
    by_size = {each.batch_size: each for each in summaries if each.method == "drafts"}
    for size, ratio in ratios.items():
        assert ratio == round(by_size[size].over_plain.ratio, 2)
        assert by_size[size].num_identical == by_size[size].num_compared == 8
    paying = [size for size in sizes if by_size[size].over_plain.ratio >= 1]
    wanted = "off at every size" if not paying else f"off above {max(paying)}"
    assert line.endswith("on at every size" if max(paying, default=0) == max(sizes) else wanted)


def test_batch_slowdown_the_benchmark_says_above_which_batch_size_drafting_does_not_pay(tmp_path):
    """`batch-slowdown`: speculation slower than none from some batch size on; the crossover is to be seen."""
    drafter = RandomTreeDrafter(greedy_answer())
    summaries = measured(tmp_path, drafter, (1, 2, 4))
    check_crossover(summaries, (1, 2, 4))
    assert sum(each.stats.num_accepted_tokens for each in summaries if each.method == "drafts") > 0


def test_batch_ngram_highconc_lookup_is_measured_at_every_batch_size_too(tmp_path):
    """`batch-ngram-highconc`: prompt lookup slower than nothing at higher concurrency."""
    check_crossover(measured(tmp_path, load_drafter("prompt-lookup"), (1, 4)), (1, 4))


def test_batch_slowdown_a_drafter_that_is_never_right_is_off_at_every_large_size(tmp_path):
    """`batch-slowdown`: drafts that are all wrong never pay in a batch."""
    (line,) = crossovers(measured(tmp_path, WrongDrafter(greedy_answer()), (1, 8)))
    assert line.endswith(("off at every size", "off above 1"))


def test_conv_acceptance_script_acceptance_is_there_over_all_prompts_and_by_set(tmp_path):
    """`conv-acceptance-script`: acceptance only question by question, nothing over all."""
    summaries = measured(tmp_path, RandomTreeDrafter(greedy_answer()), (1,), sets=("one", "two"))
    rates = {each.prompt_set: each for each in summaries if each.method == "drafts"}
    assert set(rates) == {"one", "two", POOLED}
    one, two, every = (rates[name].stats for name in ("one", "two", POOLED))
    assert every.num_accepted_tokens == one.num_accepted_tokens + two.num_accepted_tokens > 0
    share = every.num_accepted_tokens / (one.num_draft_tokens + two.num_draft_tokens)
    assert rates[POOLED].acceptance_rate == pytest.approx(share)
