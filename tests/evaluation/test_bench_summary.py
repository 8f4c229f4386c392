import pytest

from bench_rows import Maker, make_difference, make_provenance, make_row, make_rows, makers
from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.evaluation.bench.accepted import accepted_lengths, category_shares
from phrasedraft.evaluation.bench.result import GENERATE, LOOKUP, PLAIN
from phrasedraft.evaluation.bench.summary import POOLED, chief_sections, main_conditions, sections, summarize

BASE = Maker(method=GENERATE, kind=GENERATE)
LOOP = Maker(method=PLAIN)
HEAD = Maker(method="head, 4 nodes", drafter="head", num_draft_tokens=4, landing=0.6, banked=2.0)


def row(maker, prompt=0, *, seconds=1.0, num_tokens=10, turn=1, prompt_set="a", **changes):
    """A row whose time and text are given, so that figures can be worked out by hand."""
    values = {"seconds": seconds, "tokens": list(range(num_tokens)), **changes}
    tokens = values.pop("tokens")
    return make_row(prompt_set, prompt, turn, maker, tokens=tokens, **values)


def only(summaries, method, prompt_set="a"):
    (found,) = [each for each in summaries if (each.method, each.prompt_set) == (method, prompt_set)]
    return found


def stats(**counts):
    return DecodingStats(**counts).as_dict()


def test_there_is_a_summary_for_each_set_and_method_and_one_over_all_sets():
    found = summarize(make_rows(["a", "b"], 2, [BASE, HEAD]))
    assert [(each.prompt_set, each.method) for each in found] == [
        (name, method) for name in ("a", "b", POOLED) for method in (GENERATE, HEAD.method)
    ]
    assert [each.num_answers for each in found] == [2, 2, 2, 2, 4, 4]


def test_one_set_is_not_pooled_with_itself_and_pooling_can_be_left_out():
    assert {each.prompt_set for each in summarize(make_rows(["a"], 2, [BASE]))} == {"a"}
    assert {each.prompt_set for each in summarize(make_rows(["a", "b"], 1, [BASE]), pooled=False)} == {"a", "b"}


def test_dtypes_and_batch_sizes_are_never_mixed():
    rows = [row(BASE, seconds=4.0), row(HEAD, seconds=2.0)]
    rows += [row(BASE, seconds=9.0, dtype="bfloat16"), row(HEAD, seconds=3.0, dtype="bfloat16")]
    rows += [row(BASE, seconds=5.0, batch_size=4), row(HEAD, seconds=1.0, batch_size=4)]
    ratios = {each.conditions: each.over_generate.ratio for each in summarize(rows) if each.over_generate}
    assert ratios == {("float32", 1): 2.0, ("bfloat16", 1): 3.0, ("float32", 4): 5.0}


def test_methods_come_baselines_first_then_by_drafter_and_nodes_whatever_the_order_of_rows():
    rows = make_rows(["a"], 1, makers((4, 16)))
    found = [each.method for each in summarize(rows[::-1], (), make_provenance().drafters)]
    assert found[:3] == [GENERATE, LOOKUP, PLAIN]
    assert found == [each.method for each in summarize(rows, (), make_provenance().drafters)]
    assert found[3:7] == [f"{name}, {nodes} nodes" for name in ("phrase-head", "token-chain") for nodes in (4, 16)]


def test_a_method_that_the_first_set_lacks_keeps_its_place():
    rows = make_rows(["a"], 1, [BASE, HEAD]) + make_rows(["b"], 1, [BASE, LOOP, HEAD])
    found = summarize(rows)
    assert [each.method for each in found if each.prompt_set == POOLED] == [GENERATE, PLAIN, HEAD.method]
    assert list(dict.fromkeys(each.prompt_set for each in found)) == ["a", "b", POOLED]


def test_the_speedup_is_that_of_all_seconds_per_token():
    rows = [row(BASE, 0, seconds=10.0), row(BASE, 1, seconds=1.0), row(HEAD, 0, seconds=5.0), row(HEAD, 1, seconds=1.0)]
    found = only(summarize(rows), HEAD.method)
    assert found.over_generate.ratio == pytest.approx(11 / 6)
    assert found.over_plain is None
    assert only(summarize(rows), GENERATE).over_generate is None


def test_a_method_with_fewer_prompts_is_paired_on_those_both_have_and_others_keep_all():
    rows = [row(BASE, i, seconds=1.0 + 9 * (i == 2)) for i in range(3)]
    rows += [row(LOOP, i, seconds=1.0) for i in range(3)] + [row(HEAD, i, seconds=0.5) for i in (0, 1)]
    found = summarize(rows)
    assert only(found, HEAD.method).over_generate.ratio == 2.0
    assert only(found, HEAD.method).over_generate.num_prompts == 2
    assert only(found, HEAD.method).over_plain.num_prompts == 2
    assert only(found, PLAIN).over_generate.ratio == 4.0
    assert only(found, PLAIN).over_generate.num_prompts == 3


def test_a_turn_that_only_one_method_has_counts_for_neither():
    rows = [row(BASE, 0, seconds=1.0), row(BASE, 0, seconds=50.0, turn=2), row(HEAD, 0, seconds=0.5)]
    assert only(summarize(rows), HEAD.method).over_generate.ratio == 2.0


def test_the_turns_of_a_prompt_are_drawn_together():
    rows = [row(maker, 0, turn=turn, seconds=float(turn)) for maker in (BASE, HEAD) for turn in (1, 2, 3)]
    found = only(summarize(rows), HEAD.method).over_generate
    assert (found.num_prompts, found.low) == (1, None)


def test_pooled_speedups_draw_within_sets():
    """Two sets with different ratios, constant within: nothing is left to vary once each set keeps its number."""
    rows = []
    for prompt in range(6):
        rows += [row(BASE, prompt, seconds=2.0), row(HEAD, prompt, seconds=1.0)]
        rows += [row(BASE, prompt, seconds=2.0, prompt_set="b"), row(HEAD, prompt, seconds=2.0, prompt_set="b")]
    found = only(summarize(rows), HEAD.method, POOLED).over_generate
    assert (found.low, found.ratio, found.high) == pytest.approx((4 / 3, 4 / 3, 4 / 3))
    assert found.num_prompts == 12


def test_answers_of_the_same_id_in_two_sets_are_two_answers():
    rows = [row(maker, 0, prompt_set=name, answer_id="1", group="1") for maker in (BASE, HEAD) for name in ("a", "b")]
    found = only(summarize(rows), HEAD.method, POOLED)
    assert (found.num_answers, found.num_compared, found.over_generate.num_prompts) == (2, 2, 2)


def test_identical_texts_and_reasons_to_stop_are_counted_against_generate():
    rows = [row(BASE, i) for i in range(4)]
    rows += [row(HEAD, 0), row(HEAD, 1, num_tokens=9), row(HEAD, 2, finish_reason="length"), row(HEAD, 7)]
    found = only(summarize(rows), HEAD.method)
    assert (found.num_answers, found.num_compared) == (4, 3)
    assert (found.num_identical, found.num_same_finish_reason) == (2, 2)


def test_the_worst_gap_is_the_largest_of_the_methods_own_differences():
    rows = [
        row(BASE),
        row(HEAD),
        row(HEAD, 1),
        row(HEAD, 2),
        row(LOOP),
        row(HEAD, prompt_set="b"),
        row(BASE, prompt_set="b"),
    ]
    gaps = zip(rows[1:6], (0.01, 0.03, None, 0.7, 0.2), strict=True)
    found = summarize(rows, [make_difference(each, top_two_gap=gap) for each, gap in gaps])
    assert only(found, HEAD.method).worst_gap == 0.03
    assert only(found, HEAD.method, "b").worst_gap == 0.2
    assert only(found, HEAD.method, POOLED).worst_gap == 0.2
    assert only(found, GENERATE).worst_gap is None


def test_counts_and_times_of_passes_are_those_of_all_answers_together():
    first = stats(num_passes=3, num_drafts=3, num_draft_tokens=12, num_accepted_tokens=4, num_landings=2,
                  draft_seconds=0.1, verify_seconds=0.6, keep_seconds=0.05, other_seconds=0.05)  # fmt: skip
    second = stats(num_passes=1, num_drafts=1, num_draft_tokens=4, verify_seconds=0.2, prefill_seconds=0.3)
    found = only(summarize([row(HEAD, 0, stats=first), row(HEAD, 1, stats=second)]), HEAD.method)
    assert (found.tokens_per_pass, found.landing, found.banked, found.acceptance_rate) == (2.0, 0.5, 2.0, 0.25)
    assert found.milliseconds_per_pass == pytest.approx(250)
    assert found.phase_milliseconds == pytest.approx({"draft": 25, "verify": 200, "keep": 12.5, "other": 12.5})
    assert sum(found.phase_shares.values()) == pytest.approx(1)
    assert found.stats.prefill_seconds == 0.3


def test_the_interval_of_tokens_per_pass_holds_the_figure_and_shrinks_with_prompts():
    few, many = (only(summarize(make_rows(["a"], count, [HEAD])), HEAD.method) for count in (5, 80))
    for each in (few, many):
        low, high = each.tokens_per_pass_interval
        assert low < each.tokens_per_pass < high
    assert (
        many.tokens_per_pass_interval[1] - many.tokens_per_pass_interval[0]
        < few.tokens_per_pass_interval[1] - few.tokens_per_pass_interval[0]
    )


def test_methods_that_are_not_our_loop_have_no_passes():
    found = only(summarize([row(BASE)]), GENERATE)
    assert found.stats is None
    assert found.tokens_per_pass is None
    assert found.phase_shares is None


def test_memory_waits_and_loads():
    rows = [
        row(HEAD, i, peak_bytes=peak, first_token_seconds=wait, other_load=load)
        for i, (peak, wait, load) in enumerate(
            [(2_000_000, 0.1, 0.0), (5_000_000, 0.3, 0.31), (None, 0.9, 0.3), (1, None, None)]
        )
    ]
    found = only(summarize(rows), HEAD.method)
    assert (found.peak_megabytes, found.median_first_token_seconds) == (5.0, 0.3)
    assert (found.median_other_load, found.disturbed_share) == (0.3, 1 / 3)


def test_energy_is_given_only_where_every_answer_has_it():
    rows = [row(HEAD, 0, energy_joules=30.0), row(HEAD, 1, energy_joules=10.0)]
    assert only(summarize(rows), HEAD.method).joules_per_token == 2.0
    assert only(summarize([*rows, row(HEAD, 2)]), HEAD.method).joules_per_token is None


def test_the_answers_of_one_batch_share_one_reading_of_energy():
    rows = [row(HEAD, i, energy_joules=40.0, batch_size=2, group="both") for i in range(2)]
    assert only(summarize(rows), HEAD.method).joules_per_token == 2.0


def test_parameters_come_from_the_provenance():
    rows = make_rows(["a"], 1, makers((4,)))
    found = summarize(rows, (), make_provenance().drafters)
    assert only(found, "phrase-head, 4 nodes").num_parameters == 3_434_000
    assert only(found, "suffix-automaton, 4 nodes").num_parameters == 0
    assert only(found, PLAIN).num_parameters is None


def test_accepted_lengths_do_not_count_the_bonus_token():
    rows = [
        row(HEAD, 0, pass_lengths=[1, 3, 3]),
        row(HEAD, 1, pass_lengths=[2]),
        row(LOOP, pass_lengths=[1]),
        row(BASE),
    ]
    assert accepted_lengths(rows) == {HEAD.method: {0: 1, 1: 1, 2: 2}, PLAIN: {0: 1}}


def test_category_shares_add_up_to_one_and_methods_without_have_none():
    rows = [
        row(HEAD, 0, categories={"words": 3}),
        row(HEAD, 1, categories={"words": 3, "code": 2}),
        row(LOOP, categories={}),
    ]
    assert category_shares(rows) == {HEAD.method: {"words": 0.75, "code": 0.25}}


def test_the_main_conditions_are_those_with_the_most_answers_and_come_first():
    rows = (
        [row(BASE, dtype="bfloat16")] + [row(BASE, i) for i in range(2)] + [row(BASE, dtype="bfloat16", prompt_set="b")]
    )
    found = summarize([*rows, row(BASE, 2)])
    assert main_conditions(found) == ("float32", 1)
    assert next(iter(sections(found))) == ("a", ("float32", 1))
    assert list(chief_sections(found)) == [("a", ("float32", 1)), (POOLED, ("bfloat16", 1))]


def test_nothing_gives_nothing():
    assert summarize([]) == []
    assert sections([]) == {}
