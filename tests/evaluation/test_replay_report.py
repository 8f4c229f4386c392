"""Every figure of a report, counted by hand on the example of docs/evaluation.md."""

import json

import pytest

from phrasedraft.drafters.protocol import DraftBudget
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.replay import replay, replay_answer
from phrasedraft.evaluation.replay_report import CategoryLine, PositionLine, ReplayTally, WholePhrases
from phrasedraft.evaluation.replay_sets import ReplaySettings, replay_sets
from phrasedraft.phrases.inspection import PhraseCategory
from worked_example import CUT, CUT_DRAFTER, PIECES, STORY, STORY_DRAFTER, embed

BUDGET = DraftBudget(num_draft_tokens=8, max_depth=50)


def tally_of(*pairs):
    tally = ReplayTally(PIECES)
    for drafter, answer in pairs:
        tally.add(replay_answer(drafter, answer, BUDGET, embed))
    return tally


@pytest.fixture
def story():
    return tally_of((STORY_DRAFTER, STORY)).report()


@pytest.fixture
def together():
    return tally_of((STORY_DRAFTER, STORY), (CUT_DRAFTER, CUT)).report()


def test_each_node_is_right_wrong_or_beyond_the_answer():
    first, second, last = replay_answer(STORY_DRAFTER, STORY, BUDGET, embed).passes
    assert first.outcomes == (True, True, True, False, False)
    assert second.outcomes == (True, True, True, False)
    assert last.outcomes == (True, True, None)
    assert [each.num_accepted_tokens for each in (first, second, last)] == [2, 2, 0]


def test_the_account_of_the_passes_and_the_counts_agree():
    for drafter, answer in ((STORY_DRAFTER, STORY), (CUT_DRAFTER, CUT)):
        assert replay_answer(drafter, answer, BUDGET, embed).stats == replay(drafter, [answer], BUDGET, embed)


def test_tokens_per_pass_landing_and_banked_are_those_counted_by_hand(story, together):
    assert story.stats.mean_acceptance_length == pytest.approx(7 / 3)  # 4 accepted in 3 passes, and 3 bonus tokens
    assert story.stats.landing == pytest.approx(2 / 3)
    assert story.stats.banked == 2
    assert (together.stats.mean_acceptance_length, together.stats.landing) == (2.25, 0.75)
    assert together.stats.banked == pytest.approx(5 / 3)
    assert (story.num_answers, together.num_answers) == (1, 2)


def test_accepted_lengths_count_every_pass_those_that_accept_nothing_too(story, together):
    assert story.accepted_lengths == {0: 1, 1: 0, 2: 2}
    assert together.accepted_lengths == {0: 1, 1: 1, 2: 2}


def test_positions_say_how_many_passes_got_so_far(story):
    assert story.positions == (
        PositionLine(position=1, num_drafted=3, num_accepted=2, share=2 / 3, share_after_previous=2 / 3),
        PositionLine(position=2, num_drafted=3, num_accepted=2, share=2 / 3, share_after_previous=1.0),
        PositionLine(position=3, num_drafted=1, num_accepted=0, share=0.0, share_after_previous=0.0),
    )


def line(drafted, accepted, landings, saved):
    return CategoryLine(
        num_draft_tokens=drafted, num_accepted_tokens=accepted, num_landings=landings, num_saved_tokens=saved
    )


def test_a_node_counts_under_its_own_path_and_saved_tokens_under_the_whole_accepted_path(story):
    assert story.categories == {
        PhraseCategory.WORDS: line(1, 0, 0, 0),  # ` the` after ` cat`
        PhraseCategory.PUNCTUATION: line(1, 1, 0, 0),  # `.`, accepted as the beginning of `. the`
        PhraseCategory.DIGITS: line(3, 2, 1, 2),  # `3` twice and `33`
        PhraseCategory.MIXED: line(2, 1, 1, 2),  # `. the` and `. the sat`
        PhraseCategory.SPECIAL: line(2, 0, 0, 0),  # the end and what was drafted after it
    }


def test_kinds_of_phrases_add_up_to_the_whole(story, together):
    for report in (story, together):
        sums = {
            name: sum(getattr(each, name) for each in report.categories.values())
            for name in ("num_draft_tokens", "num_accepted_tokens", "num_landings", "num_saved_tokens")
        }
        stats = report.stats
        assert list(sums.values()) == [
            stats.num_draft_tokens, stats.num_accepted_tokens, stats.num_landings, stats.num_accepted_tokens
        ]  # fmt: skip


def test_a_phrase_is_whole_where_a_leaf_of_the_tree_was_right(story, together):
    # `. the` of `. the sat` is not whole, `33` is, and so is ` cat`, after which nothing could be drafted
    assert story.whole_phrases == WholePhrases(num_landings=2, num_whole=1, num_open_landings=2, num_open_whole=1)
    assert together.whole_phrases == WholePhrases(num_landings=3, num_whole=2, num_open_landings=2, num_open_whole=1)
    assert together.whole_phrases.share == pytest.approx(2 / 3)
    assert together.whole_phrases.open_share == 0.5


def test_calibration_leaves_out_what_lies_beyond_the_answer(story):
    curve = story.calibration
    assert curve.num_nodes == 8  # nine were drafted
    assert curve.share_right == pytest.approx(5 / 8)
    assert curve.mean_value == pytest.approx(0.475)
    assert curve.ece == pytest.approx(0.3)  # (.2 + .4 + .2 + .1 + .5 + .6 + .3 + .1) / 8
    assert story.uncalibrated is None


def test_the_report_is_one_json_object(together):
    found = json.loads(json.dumps(together.as_dict(), allow_nan=False))
    assert found["tokens_per_pass"] == 2.25
    assert found["accepted_lengths"] == {"0": 1, "1": 1, "2": 2}
    assert found["categories"]["mixed"]["num_saved_tokens"] == 2
    assert found["whole_phrases"]["share"] == pytest.approx(2 / 3)
    assert found["positions"][0]["num_accepted"] == 3
    assert found["calibration"]["bins"][0]["num_nodes"] == 1


def test_a_report_of_no_answers_has_no_figures_and_no_fault():
    found = ReplayTally(PIECES).report().as_dict()
    assert (found["num_passes"], found["tokens_per_pass"], found["accepted_lengths"]) == (0, 1.0, {})


def test_a_report_does_not_change_when_more_is_counted():
    tally = tally_of((STORY_DRAFTER, STORY))
    before = tally.report()
    tally.add(replay_answer(CUT_DRAFTER, CUT, BUDGET, embed))
    assert before == tally_of((STORY_DRAFTER, STORY)).report()


def test_sets_are_told_apart_and_counted_together():
    heard = []
    (report,) = replay_sets(
        STORY_DRAFTER,
        {"one": [STORY], "two": [STORY, STORY]},
        ReplaySettings(node_counts=(8,)),
        embed,
        PIECES,
        on_answer=heard.append,
    )
    assert {name: each.num_answers for name, each in report.by_set.items()} == {"one": 1, "two": 2}
    assert report.together.stats.num_passes == 9
    assert report.by_set["two"].stats.num_passes == 6
    assert report.together.calibration.ece == pytest.approx(0.3)
    assert heard == [3, 3, 3]


@pytest.mark.parametrize("counts", [(), (0, 4), (4, 4)])
def test_node_counts_that_cannot_be_are_refused(counts):
    with pytest.raises(OptionError, match="node_counts"):
        ReplaySettings(node_counts=counts)


def test_nothing_to_replay_is_an_error():
    with pytest.raises(DataError, match="no answers"):
        replay_sets(STORY_DRAFTER, {"empty": []}, ReplaySettings(), embed, PIECES)
