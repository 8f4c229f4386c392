import json

import pytest

import kit
from phrasedraft import Decoder, DecodingStats, FinishReason
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.benchmark import Result, ResultsFolder, run_benchmark, warm_up
from phrasedraft.evaluation.dialogue import Dialogue
from phrasedraft.evaluation.methods import GENERATE, PLAIN, Answer, Drafting, TransformersGenerate
from phrasedraft.evaluation.report import draft_rows, summarize, tables, write_report

TOKENS = {"a": [5, 17, 3, 44, 9], "b": [7, 7, 1], "c": [9, 2, 4, 4]}


def asked_once(name: str, tokens: list[int]) -> Dialogue:
    return Dialogue(answer_ids=(name,), tokens=lambda answers: tokens)


PROMPTS = [asked_once(name, tokens) for name, tokens in TOKENS.items()]
SETTINGS = {"target": "tiny"}


def methods_of(target) -> list:
    answer = kit.greedy_answer()
    return [
        TransformersGenerate(target),
        Drafting(Decoder(target, kit.WrongDrafter(answer), num_draft_tokens=0), PLAIN),
        Drafting(Decoder(target, kit.RandomTreeDrafter(answer), num_draft_tokens=6), "stub, 6 nodes"),
    ]


class Recording:
    def __init__(self, name: str, log: list) -> None:
        self.name, self.log = name, log

    def answer(self, prompt, max_new_tokens) -> Answer:
        self.log.append((tuple(prompt), self.name))
        return Answer(tokens=(1, 2, 3), finish_reason=FinishReason.LENGTH, seconds=1.0, stats=None)


def test_every_method_gives_the_text_of_generate(tmp_path):
    results = run_benchmark(PROMPTS, methods_of(kit.target_of()), ResultsFolder(tmp_path, SETTINGS), max_new_tokens=24)
    for summary in summarize(results):
        assert summary.exact_token_parity == summary.same_finish_reason == summary.num_prompts == 3
        assert summary.differences == ()
    assert len({result.sha256 for result in results if result.prompt_id == "a"}) == 1


def test_methods_alternate_prompt_by_prompt_in_an_order_drawn_from_the_seed(tmp_path):
    def order(seed: int, folder: str) -> list:
        log: list = []
        methods = [Recording(name, log) for name in "xyz"]
        prompts = [asked_once(str(index), [index]) for index in range(12)]
        run_benchmark(prompts, methods, ResultsFolder(tmp_path / folder, {}), max_new_tokens=3, seed=seed)
        return log

    first = order(1, "first")
    assert [prompt for prompt, _ in first] == [(index,) for index in range(12) for _ in range(3)]
    assert len({tuple(name for _, name in first[start : start + 3]) for start in range(0, 36, 3)}) > 1
    assert first == order(1, "again") != order(2, "other")


def test_a_warm_up_leaves_no_result(tmp_path):
    log: list = []
    assert warm_up([1, 2], [Recording("x", log)]) >= 0
    assert log == [((1, 2), "x")]


def test_a_run_goes_on_after_it_was_killed_in_the_middle_of_a_line(tmp_path):
    log: list = []
    methods = [Recording("x", log), Recording("y", log)]
    run_benchmark(PROMPTS, methods, ResultsFolder(tmp_path, SETTINGS), max_new_tokens=3)
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    again = ResultsFolder(tmp_path, SETTINGS)
    assert len(again.results) == 5
    log.clear()
    assert len(run_benchmark(PROMPTS, methods, again, max_new_tokens=3)) == 6
    assert len(log) == 1
    assert len(path.read_text().splitlines()) == 6


def test_a_folder_of_another_run_or_with_a_broken_line_is_refused(tmp_path):
    run_benchmark(PROMPTS, [Recording("x", [])], ResultsFolder(tmp_path, SETTINGS), max_new_tokens=3)
    with pytest.raises(OptionError, match="`target` = `tiny`, this run has `large`"):
        ResultsFolder(tmp_path, {"target": "large"})
    path = tmp_path / "results.jsonl"
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(DataError, match="line 1 of"):
        ResultsFolder(tmp_path, SETTINGS)


def result(prompt_id: str, method: str, tokens: list[int], seconds: float, **changes) -> Result:
    values = {"sha256": "", "finish_reason": "length", "load_average": 0.0, "stats": None, **changes}
    return Result(prompt_id=prompt_id, method=method, tokens=tokens, seconds=seconds, **values)


def test_summaries_have_known_answers():
    stats = DecodingStats(num_passes=4, num_accepted_tokens=6, num_landings=3, num_draft_tokens=12)
    stats.draft_seconds, stats.verify_seconds = 0.25, 0.75
    results = [
        result("a", GENERATE, [1, 2, 3], 3.0),
        result("a", PLAIN, [1, 2, 3], 2.0, stats=DecodingStats(num_passes=2).as_dict()),
        result("a", "phrase", [1, 2, 4], 1.0, stats=stats.as_dict()),
        result("b", GENERATE, [5], 1.0, finish_reason="eos"),
        result("b", PLAIN, [5], 1.0, finish_reason="eos", stats=DecodingStats().as_dict()),
        result("b", "phrase", [5], 1.0, stats=DecodingStats().as_dict()),
    ]
    generated, plain, phrase = summarize(results)
    assert (generated.num_tokens, generated.seconds, generated.tokens_per_second) == (4, 4.0, 1.0)
    assert generated.over_generate is None
    assert plain.over_plain is None
    assert (plain.over_generate.ratio, phrase.over_generate.ratio, phrase.over_plain.ratio) == (4 / 3, 2.0, 1.5)
    assert (phrase.exact_token_parity, phrase.same_finish_reason) == (1, 1)
    assert [(each.prompt_id, each.position) for each in phrase.differences] == [("a", 2), ("b", None)]
    assert phrase.milliseconds_per_pass == 250.0
    assert phrase.stats.outside_share == 0.25
    assert json.loads(json.dumps(phrase.as_dict()))["stats"]["banked"] == 2.0


def test_prompts_that_not_all_methods_answered_are_left_out():
    results = [result("a", GENERATE, [1], 1.0), result("b", GENERATE, [1], 1.0), result("a", "phrase", [1], 1.0)]
    assert [summary.num_prompts for summary in summarize(results)] == [1, 1]


def test_the_report_shows_the_tables_and_where_they_come_from(tmp_path):
    results = run_benchmark(PROMPTS, methods_of(kit.target_of()), ResultsFolder(tmp_path, SETTINGS), max_new_tokens=12)
    summaries = summarize(results)
    write_report(tmp_path / "report.md", summaries, {"command": "phrasedraft bench"}, ["something to remark"])
    text = (tmp_path / "report.md").read_text()
    assert "- something to remark" in text
    assert "- command: phrasedraft bench" in text
    for header, rows in tables(summaries):
        assert all(f"| {' | '.join(row)} |" in text for row in (header, *rows))
    assert len(draft_rows(summaries)) == 2


class Echo:
    """Answers with the length of its prompt, so that a text shows what the method was asked."""

    def __init__(self, name: str, extra: int = 0) -> None:
        self.name, self.extra, self.asked = name, extra, []

    def answer(self, prompt, max_new_tokens) -> Answer:
        self.asked.append(list(prompt))
        tokens = (len(prompt), self.extra)
        return Answer(tokens=tokens, finish_reason=FinishReason.LENGTH, seconds=1.0, stats=None)


def asked_again(name: str, num_turns: int, *, room: int = 1000) -> Dialogue:
    """Every turn asks with one 7, behind all answers so far."""

    def tokens(answers):
        prompt = [token for answer in answers for token in (7, *answer)]
        return [*prompt, 7] if len(prompt) < room else None

    return Dialogue(answer_ids=(name, *(f"{name}#{turn}" for turn in range(2, num_turns + 1))), tokens=tokens)


def test_each_turn_follows_the_methods_own_earlier_answers_and_is_a_line_of_its_own(tmp_path):
    methods = [Echo("x", extra=1), Echo("y", extra=2)]
    results = run_benchmark([asked_again("a", 3)], methods, ResultsFolder(tmp_path, {}), max_new_tokens=9)
    assert [(each.prompt_id, each.turn, each.method, each.tokens) for each in results] == [
        ("a", 1, "x", [1, 1]), ("a", 1, "y", [1, 2]),
        ("a#2", 2, "x", [4, 1]), ("a#2", 2, "y", [4, 2]),
        ("a#3", 3, "x", [7, 1]), ("a#3", 3, "y", [7, 2]),
    ]  # fmt: skip
    assert methods[1].asked == [[7], [7, 1, 2, 7], [7, 1, 2, 7, 4, 2, 7]]
    assert {each.conversation for each in results} == {"a"}


def test_a_killed_conversation_goes_on_with_the_answers_it_has(tmp_path):
    run_benchmark([asked_again("a", 3)], [Echo("x")], ResultsFolder(tmp_path, {}), max_new_tokens=9)
    path = tmp_path / "results.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    method = Echo("x")
    results = run_benchmark([asked_again("a", 3)], [method], ResultsFolder(tmp_path, {}), max_new_tokens=9)
    assert method.asked == [[7, 1, 0, 7, 4, 0, 7]]
    assert len(results) == 3


def test_turns_without_room_are_left_out(tmp_path):
    prompts = [asked_again("a", 3, room=6), asked_again("b", 1)]
    method = Echo("x")
    results = run_benchmark(prompts, [method], ResultsFolder(tmp_path, {}), max_new_tokens=9)
    assert [each.prompt_id for each in results] == ["a", "a#2", "b"]
    assert len(method.asked) == 3


def test_speed_ups_are_paired_over_conversations():
    def answers(method: str, seconds: list[float]) -> list[Result]:
        names = [("a", 1), ("a#2", 2), ("b", 1), ("c#2", 1)]
        return [
            result(name, method, [1, 2], each, turn=turn) for (name, turn), each in zip(names, seconds, strict=True)
        ]

    summaries = summarize([*answers(GENERATE, [2.0, 4.0, 2.0, 2.0]), *answers("phrase", [1.0, 2.0, 1.0, 1.0])])
    assert summaries[1].num_prompts == 4
    assert summaries[1].over_generate.ratio == 2.0
    assert summaries[1].over_generate.num_prompts == 3


def test_lines_from_before_there_were_turns_are_read(tmp_path):
    run_benchmark(PROMPTS, [Recording("x", [])], ResultsFolder(tmp_path, SETTINGS), max_new_tokens=3)
    path = tmp_path / "results.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "turn"}) + "\n" for line in lines))
    assert [each.turn for each in ResultsFolder(tmp_path, SETTINGS).results.values()] == [1, 1, 1]
