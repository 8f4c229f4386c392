"""The comparison itself: who answers what when, and what is written down of it."""

import pytest

import kit
from answering import ending_target
from phrasedraft import Decoder, FinishReason
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.bench.folder import ResultsFolder
from phrasedraft.evaluation.bench.result import GENERATE, LOOKUP, PLAIN, Result
from phrasedraft.evaluation.bench.run import Conditions, Entrant, make_groups, run_benchmark, warm_up
from phrasedraft.evaluation.dialogue import Dialogue
from phrasedraft.evaluation.methods import Answer, BatchedGenerate, Drafting, PlainLoop, TransformersLookup
from phrasedraft.evaluation.statistics import paired_speedup
from phrasedraft.phrases.inspection import PhraseCategory
from phrasedraft.phrases.pieces import TokenPieces
from texts import VOCAB_SIZE, byte_level_tokenizer

TOKENS = {"a": [5, 17, 3, 44, 9], "b": [7, 7, 1], "c": [9, 2, 4, 4]}
SETTINGS = {"target": "tiny"}


def asked_once(name: str, tokens: list[int]) -> Dialogue:
    return Dialogue(answer_ids=(name,), tokens=lambda answers: tokens)


PROMPTS = [asked_once(name, tokens) for name, tokens in TOKENS.items()]


def conditions(**changes) -> Conditions:
    return Conditions(**{"dtype": "float32", "batch_size": 1, "max_new_tokens": 3, **changes})


def run(prompts, methods, folder, **changes) -> list[Result]:
    under = conditions(**changes)
    sets = prompts if isinstance(prompts, dict) else {"set": prompts}
    entrants = [method if isinstance(method, Entrant) else Entrant(method=method) for method in methods]
    return run_benchmark(make_groups(sets, under.batch_size), entrants, folder, under)


def methods_of(target) -> list:
    answer = kit.greedy_answer()
    return [
        BatchedGenerate(target),
        TransformersLookup(target),
        PlainLoop(Decoder(target, kit.WrongDrafter(answer), num_draft_tokens=0)),
        Drafting(Decoder(target, kit.RandomTreeDrafter(answer), num_draft_tokens=6), "stub, 6 nodes", drafter="stub"),
    ]


class Recording:
    drafter, num_draft_tokens = "", 0

    def __init__(self, name: str, log: list) -> None:
        self.name, self.log = name, log

    def answer(self, prompt, max_new_tokens) -> Answer:
        self.log.append((tuple(prompt), self.name))
        return Answer(tokens=(1, 2, 3), finish_reason=FinishReason.LENGTH, seconds=1.0, stats=None)


@pytest.mark.parametrize("batch_size", [1, 2, 3])
def test_every_method_gives_the_text_of_generate_at_every_batch_size(tmp_path, batch_size):
    known = asked_once("known", list(kit.PROMPT))
    results = run(
        [*PROMPTS, known],
        methods_of(kit.target_of()),
        ResultsFolder(tmp_path, SETTINGS),
        batch_size=batch_size,
        max_new_tokens=24,
    )
    assert len(results) == 4 * 4
    for name in (*TOKENS, "known"):
        mine = [result for result in results if result.answer_id == name]
        assert {result.method for result in mine} == {GENERATE, LOOKUP, PLAIN, "stub, 6 nodes"}
        assert len({(result.sha256, result.finish_reason) for result in mine}) == 1
    drafted = next(result for result in results if result.drafter == "stub" and result.answer_id == "known")
    assert drafted.counts.num_accepted_tokens > 0
    groups = {result.group for result in results}
    assert len(groups) == -(-4 // batch_size)


def test_passes_say_what_the_statistics_count(tmp_path):
    prompt = asked_once("known", list(kit.PROMPT))
    results = run([prompt], methods_of(kit.target_of()), ResultsFolder(tmp_path, SETTINGS), max_new_tokens=30)
    generate, lookup, plain, drafted = results
    assert generate.pass_lengths == lookup.pass_lengths == []
    assert generate.stats is lookup.stats is None
    assert plain.pass_lengths == [1] * 29
    stats = drafted.counts
    assert len(drafted.pass_lengths) == stats.num_passes
    assert sum(drafted.pass_lengths) - stats.num_passes == stats.num_accepted_tokens > 0
    assert drafted.pass_lengths.count(1) == stats.num_passes - stats.num_landings
    assert [0 < result.first_token_seconds < result.seconds for result in results] == [True] * 4
    assert drafted.peak_bytes > 1e7


def test_a_text_that_ends_on_a_drafted_token_has_it_as_its_pass_own(tmp_path):
    target = ending_target()
    prompts = {name: target.encode_chat([{"role": "user", "content": name}]) for name in "abcdefghijkl"}
    answers = {name: kit.plain(target, prompt=prompt) for name, prompt in prompts.items()}
    name = next(
        name for name, each in answers.items() if each.finish_reason is FinishReason.EOS and len(each.tokens) > 6
    )
    drafter = kit.RightDrafter(answers[name].tokens, VOCAB_SIZE)
    method = Drafting(Decoder(target, drafter, num_draft_tokens=4), "right", drafter="right")
    folder = ResultsFolder(tmp_path, SETTINGS)
    (result,) = run([asked_once(name, prompts[name])], [method], folder, max_new_tokens=40)
    assert result.tokens == list(answers[name].tokens)
    counts = result.counts
    assert sum(result.pass_lengths) - counts.num_passes == counts.num_accepted_tokens > 0


def test_accepted_tokens_are_counted_by_the_kind_of_phrase_they_came_in(tmp_path):
    pieces = TokenPieces.from_tokenizer(byte_level_tokenizer(), VOCAB_SIZE)
    prompt = asked_once("known", list(kit.PROMPT))
    target = kit.target_of()
    drafting = methods_of(target)[-1:]
    (result,) = run([prompt], drafting, ResultsFolder(tmp_path, SETTINGS), max_new_tokens=30, pieces=pieces)
    assert set(result.categories) <= set(PhraseCategory)
    assert sum(result.categories.values()) == result.counts.num_accepted_tokens > 0


def test_methods_alternate_prompt_by_prompt_in_an_order_drawn_from_the_seed(tmp_path):
    def order(seed: int, folder: str) -> list:
        log: list = []
        prompts = [asked_once(str(index), [index]) for index in range(12)]
        results = run(
            prompts, [Recording(name, log) for name in "xyz"], ResultsFolder(tmp_path / folder, {}), seed=seed
        )
        placed = {(result.answer_id, result.rank): result.method for result in results}
        assert [name for _, name in log] == [placed[str(index), rank] for index in range(12) for rank in range(3)]
        return log

    first = order(1, "first")
    assert [prompt for prompt, _ in first] == [(index,) for index in range(12) for _ in range(3)]
    assert len({tuple(name for _, name in first[start : start + 3]) for start in range(0, 36, 3)}) > 1
    assert first == order(1, "again") != order(2, "other")


def test_sets_take_turns_so_that_a_run_cut_short_has_of_all(tmp_path):
    log: list = []
    sets = {"one": [asked_once(f"a{index}", [1, index]) for index in range(3)], "two": [asked_once("b0", [2, 0])]}
    results = run(sets, [Recording("x", log)], ResultsFolder(tmp_path, {}))
    assert [prompt for prompt, _ in log] == [(1, 0), (2, 0), (1, 1), (1, 2)]
    assert [result.prompt_set for result in results] == ["one", "two", "one", "one"]


def test_a_limited_method_answers_the_first_prompts_of_each_set(tmp_path):
    log: list = []
    methods = [Recording("x", log), Entrant(method=Recording("y", log), limit=2)]
    sets = {name: [asked_once(f"{name}{index}", [index]) for index in range(5)] for name in ("one", "two")}
    results = run(sets, methods, ResultsFolder(tmp_path, {}))
    assert [result.answer_id for result in results if result.method == "y"] == ["one0", "two0", "one1", "two1"]
    assert sum(result.method == "x" for result in results) == 10
    paired = run(sets, methods, ResultsFolder(tmp_path / "pairs", {}), batch_size=2)
    assert {result.answer_id for result in paired if result.method == "y"} == {"one0", "two0", "one1", "two1"}
    limited = [Entrant(method=Recording("z", log), limit=3)]
    fourth = run(sets, limited, ResultsFolder(tmp_path / "short", {}), batch_size=2)  # the last batch of each has one
    assert {result.answer_id for result in fourth} == {f"{name}{index}" for name in sets for index in range(4)}


def test_a_warm_up_leaves_no_result():
    log: list = []
    assert warm_up([[1, 2]], [Recording("x", log)]) >= 0
    assert log == [((1, 2), "x")]


def test_a_run_goes_on_after_it_was_killed_in_the_middle_of_a_line(tmp_path):
    log: list = []
    methods = [Recording("x", log), Recording("y", log)]
    run(PROMPTS, methods, ResultsFolder(tmp_path, SETTINGS))
    path = tmp_path / "results.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    again = ResultsFolder(tmp_path, SETTINGS)
    assert len(again.results) == 5
    log.clear()
    assert len(run(PROMPTS, methods, again)) == 6
    assert len(log) == 1
    assert len(path.read_text().splitlines()) == 6


def test_what_was_found_out_once_is_kept(tmp_path):
    folder = ResultsFolder(tmp_path, SETTINGS)
    folder.note("costs", {"float32": [1, 2]})
    run(PROMPTS, [Recording("x", [])], folder)
    assert ResultsFolder(tmp_path, SETTINGS).notes["costs"] == {"float32": [1, 2]}


def test_a_folder_of_another_run_or_with_a_broken_line_is_refused(tmp_path):
    run(PROMPTS, [Recording("x", [])], ResultsFolder(tmp_path, SETTINGS))
    with pytest.raises(OptionError, match="`target` = `tiny`, this run has `large`"):
        ResultsFolder(tmp_path, {"target": "large"})
    path = tmp_path / "results.jsonl"
    path.write_text("{}\n" + path.read_text())
    with pytest.raises(DataError, match="line 1 of"):
        ResultsFolder(tmp_path, SETTINGS)
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(DataError, match="no benchmark's"):
        ResultsFolder(tmp_path, SETTINGS)


class Echo:
    """Answers with the length of its prompt, so that a text shows what the method was asked."""

    drafter, num_draft_tokens = "", 0

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
    results = run([asked_again("a", 3)], methods, ResultsFolder(tmp_path, {}))
    assert [(each.answer_id, each.turn, each.method, each.tokens) for each in results] == [
        ("a", 1, "x", [1, 1]), ("a", 1, "y", [1, 2]),
        ("a#2", 2, "x", [4, 1]), ("a#2", 2, "y", [4, 2]),
        ("a#3", 3, "x", [7, 1]), ("a#3", 3, "y", [7, 2]),
    ]  # fmt: skip
    assert methods[1].asked == [[7], [7, 1, 2, 7], [7, 1, 2, 7, 4, 2, 7]]
    assert {each.group for each in results} == {"a"}


def test_dialogues_of_a_batch_go_on_as_long_as_they_have_turns(tmp_path):
    method = Echo("x")
    prompts = [asked_again("a", 3), asked_again("b", 1), asked_again("c", 2)]
    results = run(prompts, [method], ResultsFolder(tmp_path, {}), batch_size=3)
    assert sorted(each.answer_id for each in results) == ["a", "a#2", "a#3", "b", "c", "c#2"]
    assert method.asked == [[7], [7], [7], [7, 1, 0, 7], [7, 1, 0, 7], [7, 1, 0, 7, 4, 0, 7]]
    assert {each.group for each in results} == {"a"}


def test_a_killed_conversation_goes_on_with_the_answers_it_has(tmp_path):
    run([asked_again("a", 3)], [Echo("x")], ResultsFolder(tmp_path, {}))
    path = tmp_path / "results.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:2]))
    method = Echo("x")
    results = run([asked_again("a", 3)], [method], ResultsFolder(tmp_path, {}))
    assert method.asked == [[7, 1, 0, 7, 4, 0, 7]]
    assert len(results) == 3


def test_turns_without_room_are_left_out(tmp_path):
    method = Echo("x")
    results = run([asked_again("a", 3, room=6), asked_again("b", 1)], [method], ResultsFolder(tmp_path, {}))
    assert [each.answer_id for each in results] == ["a", "a#2", "b"]
    assert len(method.asked) == 3


def test_a_method_measured_against_itself_is_as_fast_as_itself(tmp_path):
    """The noise of the harness: of five intervals at 95 %, most hold 1; a bias by order would move them all."""
    target = kit.target_of()
    methods = [
        Drafting(Decoder(target, kit.WrongDrafter(()), num_draft_tokens=0), f"plain {number}") for number in range(6)
    ]
    prompts = [asked_once(str(index), [5 + index, 17, 3]) for index in range(16)]
    warm_up([[5, 17, 3]], methods)
    results = run(prompts, methods, ResultsFolder(tmp_path, {}), max_new_tokens=24)
    timings = [[result.timing for result in results if result.method == method.name] for method in methods]
    ratios = [paired_speedup(timings[0], other) for other in timings[1:]]
    assert sum(ratio.low <= 1 <= ratio.high for ratio in ratios) >= 3, ratios


def test_groups_of_a_batch_are_named_by_their_first_dialogue():
    groups = make_groups({"set": PROMPTS}, 2)
    assert [(group.name, group.start, len(group.dialogues)) for group in groups] == [("a", 0, 2), ("c", 2, 1)]
