"""`phrasedraft bench` on tiny targets, from the command line to the files it writes."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bench_runs import SHORT, lines_of
from phrasedraft.evaluation.bench.result import GENERATE, LOOKUP, PLAIN
from phrasedraft.evaluation.bench.table import read_results

BASELINES = [GENERATE, LOOKUP, PLAIN]
MAIN = "from phrasedraft.cli import main; main()"


@pytest.fixture(autouse=True)
def _few_pictures(request, monkeypatch):
    """Drawing takes longer than all the rest; the tests that look for pictures have them."""
    if "pictures" not in request.keywords:
        monkeypatch.setattr("phrasedraft.evaluation.bench.report.draw_plots", lambda *_: [])


def methods_of(found: dict) -> list[str]:
    return [each["method"] for each in found["summaries"]]


@pytest.mark.pictures
def test_every_method_answers_every_prompt_and_the_report_is_written(run, llama, head):
    result = run("bench", "--target", llama, "--head", head, *SHORT, "-o", "out")
    assert result.exit_code == 0
    lines = lines_of()
    assert len(lines) == 2 * 5
    assert len({line["sha256"] for line in lines if line["answer_id"] == "gsm8k-test-0"}) == 1
    report = Path("out/report.md").read_text()
    for name in (*BASELINES, "phrase-head, 8 nodes", "Warm-up took", "landing", "banked", "versions", "speedup.png"):
        assert name in report
    assert "phrase-head, 4 nodes" in result.stdout
    assert "warm-up took" in result.stderr
    results, provenance = read_results(Path("out"))
    assert [each.tokens for each in results if each.method == GENERATE] == [
        line["tokens"] for line in lines if line["method"] == GENERATE
    ]
    assert provenance.drafters["phrase-head"]["parameters"] > 0
    assert {time["num_draft_tokens"] for time in provenance.costs["float32"]["times"]} >= {0, 4, 8, 46}
    assert [line["text"] for line in provenance.fertility][:2] == ["english", "german"]


def test_finished_answers_are_not_measured_again(run, answer_of, llama, head):
    arguments = ("bench", "--target", llama, "--head", head, *SHORT, "-o", "out")
    first = answer_of(*arguments)
    results = Path("out/results.jsonl")
    whole = results.read_text()
    results.write_text(whole[:-40])  # killed while the last line was being written
    again = run(*arguments)
    assert "\n1 answers to measure" in again.stderr
    lines = results.read_text().splitlines()
    assert lines[:-1] == whole.splitlines()[:-1]
    assert json.loads(lines[-1])["tokens"] == json.loads(whole.splitlines()[-1])["tokens"]
    assert methods_of(first)[:3] == BASELINES


def test_a_benchmark_that_is_terminated_keeps_what_it_has_and_goes_on(llama, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = [sys.executable, "-c", MAIN, "bench", "--target", llama, "--head", "none", "--limit", "40"]
    arguments += ["--max-new-tokens", "16", "-o", "out"]
    with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True) as process:
        while not Path("out/results.jsonl").exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
    assert process.returncode == 130, errors
    assert errors.splitlines()[-1] == "interrupted"
    kept = len(lines_of())
    assert 0 < kept <= 120
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert f"{120 - kept} answers to measure" in done.stderr


def test_json_holds_every_figure(answer_of, llama, head):
    found = answer_of("bench", "--target", llama, "--head", head, *SHORT, "-o", "out")
    drafted = found["summaries"][-1]
    assert drafted["num_identical"] == drafted["num_same_finish_reason"] == drafted["num_answers"] == 2
    assert drafted["stats"]["num_drafts"] > 0
    assert drafted["over_plain"]["ratio"] > 0
    assert drafted["peak_megabytes"] > 10
    assert sum(drafted["phase_shares"].values()) == pytest.approx(1)
    assert found["facts"]["machine"]["versions"]["torch"]
    assert found["differences"] == []


def test_several_sets_drafters_dtypes_and_batch_sizes_in_one_run(answer_of, llama, head):
    found = answer_of(
        *("bench", "--target", llama, "--head", head, "--prompts", "gsm8k_test", "--prompts", "mt_bench"),
        *("--drafter", "suffix-automaton@2,4", "--drafter", "token-recycling", "--drafter-limit", "1", "--twice"),
        *("--dtype", "float32,bfloat16", "--batch-sizes", "1,2", "--limit", "2", "--nodes", "3"),
        *("--max-new-tokens", "8", "-o", "out", "--paper"),
    )
    methods = [*BASELINES, "plain loop, again", "phrase-head, 3 nodes", "suffix-automaton, 2 nodes"]
    methods += ["suffix-automaton, 4 nodes", "token-recycling, 3 nodes"]
    conditions = {(each["prompt_set"], each["dtype"], each["batch_size"]) for each in found["summaries"]}
    assert len(conditions) == 3 * 2 * 2
    for condition in conditions:
        rows = [s for s in found["summaries"] if (s["prompt_set"], s["dtype"], s["batch_size"]) == condition]
        assert {each["method"] for each in rows} == set(methods)
        if condition[1] == "float32":
            assert all(each["num_identical"] == each["num_compared"] for each in rows)
    by_method = {each["method"]: each for each in found["summaries"] if each["prompt_set"] == "mt_bench"}
    assert by_method[GENERATE]["num_answers"] == 4
    assert by_method["token-recycling, 3 nodes"]["num_answers"] in {2, 4}  # a batch is answered whole
    assert "2.391" in Path("out/paper.md").read_text()


def test_the_head_in_a_folder_is_a_drafter_too(answer_of, llama, head):
    arguments = ("bench", "--target", llama, "--head", "none", "--limit", "2", "--max-new-tokens", "12")
    found = answer_of(*arguments, "--drafter", f"{head}@4", "-o", "out")
    name = Path(head).name
    assert methods_of(found) == [*BASELINES, f"{name}, 4 nodes"]
    assert found["summaries"][-1]["num_parameters"] > 0


def test_the_head_is_measured_on_fewer_prompts_at_other_node_counts(answer_of, run, llama, head):
    arguments = ("--nodes", "4", "--drafter", "head@2,6", "--drafter-limit", "1", "--limit", "2")
    found = answer_of("bench", "--target", llama, "--head", head, *arguments, "--max-new-tokens", "8", "-o", "out")
    counts = {each["method"]: each["num_answers"] for each in found["summaries"] if each["drafter"] == "phrase-head"}
    assert counts == {"phrase-head, 2 nodes": 1, "phrase-head, 4 nodes": 2, "phrase-head, 6 nodes": 1}
    assert found["facts"]["drafters"]["phrase-head"]["entries"] > 0
    refused = run("bench", "--target", llama, "--head", "none", *arguments, "-o", "other")
    assert refused.exit_code == 2
    assert "there is no head to measure" in refused.stderr


def test_what_is_grown_from_the_head_is_measured_like_it(answer_of, llama, head):
    arguments = ("--drafter", "head+suffix-automaton@3,auto", "--drafter", "suffix-automaton", "--drafter-limit", "1")
    more = ("--nodes", "4", "--limit", "2", "--max-new-tokens", "24", "-o", "out")
    found = answer_of("bench", "--target", llama, "--head", head, *arguments, *more)
    counts = {each["method"]: each["num_answers"] for each in found["summaries"] if each["drafter"]}
    grown = [name for name in counts if name.startswith("head+suffix-automaton")]
    assert len(grown) == 2
    assert all(counts[name] == 2 for name in grown)
    assert counts["suffix-automaton, 4 nodes"] == 1
    assert all(each["num_identical"] == each["num_compared"] for each in found["summaries"])
    assert found["facts"]["drafters"]["head+suffix-automaton"]["parameters"] > 0


@pytest.mark.pictures
def test_a_report_is_built_again_from_the_parquet_alone(run, llama, head):
    assert run("bench", "--target", llama, "--head", head, *SHORT, "-o", "out").exit_code == 0
    report = Path("out/report.md").read_bytes()
    for path in Path("out").iterdir():
        if path.name != "results.parquet":
            path.unlink()
    result = run("bench", "--rebuild", "-o", "out")
    assert result.exit_code == 0
    assert Path("out/report.md").read_bytes() == report
    assert Path("out/speedup.png").exists()


def test_two_reports_are_compared_and_a_slower_one_fails(run, llama, head):
    import pyarrow.parquet as pq

    assert run("bench", "--target", llama, "--head", head, *SHORT, "-o", "out").exit_code == 0
    same = run("bench", "--compare", "out", "out")
    assert same.exit_code == 0
    table = pq.read_table("out/results.parquet")
    place = table.schema.get_field_index("seconds")
    seconds = [
        each * (2 if method == "phrase-head, 8 nodes" else 1)
        for each, method in zip(table["seconds"].to_pylist(), table["method"].to_pylist(), strict=True)
    ]
    import pyarrow as pa

    slower = table.set_column(place, table.schema.field(place), pa.array(seconds))
    Path("slow").mkdir()
    pq.write_table(slower, "slow/results.parquet")
    worse = run("bench", "--compare", "out", "slow")
    assert worse.exit_code == 1
    assert "phrase-head, 8 nodes" in worse.output
    assert run("bench", "--compare", "out", "slow", "--tolerance", "0.6").exit_code == 0
    assert run("bench", "--compare", "slow", "out").exit_code == 0


def test_a_folder_of_another_run_is_refused_and_left_alone(run, llama, head):
    arguments = ("bench", "--target", llama, "--head", head, "--limit", "1", "--nodes", "4", "-o", "out")
    assert run(*arguments, "--max-new-tokens", "8").exit_code == 0
    before = {path.name: path.read_bytes() for path in Path("out").iterdir()}
    result = run(*arguments, "--max-new-tokens", "9")
    assert result.exit_code == 2
    assert "`max_new_tokens` = `8`, this run has `9`" in result.stderr
    assert {path.name: path.read_bytes() for path in Path("out").iterdir()} == before


def test_own_prompts_are_read_from_a_file(answer_of, llama):
    Path("mine.jsonl").write_text('{"id": "a", "turns": ["hello"]}\n{"id": "b", "turns": ["you"]}\n')
    found = answer_of("bench", "--target", llama, "--head", "none", "--prompts", "mine.jsonl", *SHORT, "-o", "out")
    assert methods_of(found) == BASELINES
    assert found["summaries"][0]["num_answers"] == 2
    assert found["summaries"][0]["prompt_set"] == "mine"


def test_a_wrong_line_of_a_prompt_file_is_named(run, llama):
    Path("mine.jsonl").write_text('{"id": "a", "turns": ["hello"]}\n{"id": "b"}\n')
    result = run("bench", "--target", llama, "--head", "none", "--prompts", "mine.jsonl", "-o", "out")
    assert result.exit_code == 2
    assert "`mine.jsonl` line 2: has none of `turns`" in result.stderr
    assert not Path("out").exists()


@pytest.mark.parametrize("nodes", ["0", "4,x", "4,4", ","])
def test_numbers_that_cannot_be_are_refused(run, llama, head, nodes):
    arguments = ("bench", "--target", llama, "--head", head, "-o", "out")
    for option, value in (("--nodes", nodes), ("--batch-sizes", nodes), ("--drafter", f"prompt-lookup@{nodes}")):
        result = run(*arguments, option, value)
        assert result.exit_code == 2
        assert f"`{option}{' prompt-lookup@' if '@' in value else ''}` is `{nodes}`" in result.stderr
    assert not Path("out").exists()


def test_drafters_that_cannot_be_are_refused(run, llama, head):
    arguments = ("bench", "--target", llama, "--head", head, "-o", "out")
    for drafters, words in (
        (["nothing"], "the drafter is `nothing`, it may be `prompt-lookup`"),
        (["prompt-lookup@4", "prompt-lookup@8"], "two drafters are called `prompt-lookup`"),
    ):
        result = run(*arguments, *(part for each in drafters for part in ("--drafter", each)))
        assert result.exit_code == 2
        assert words in result.stderr
    assert not Path("out").exists()


def test_a_drafter_that_learns_starts_anew_at_every_batch_size(answer_of, llama):
    arguments = ("bench", "--target", llama, "--head", "none", "--limit", "3", "--max-new-tokens", "8")
    passes = {}
    for sizes in ("2", "1,2"):
        found = answer_of(*arguments, "--drafter", "token-recycling@4", "--batch-sizes", sizes, "-o", f"out{sizes}")
        passes[sizes] = [each["tokens_per_pass"] for each in found["summaries"] if each["drafter"]]
    assert passes["1,2"] == passes["2"] * 2


def test_another_prompt_of_the_same_name_is_refused(run, llama):
    arguments = ("bench", "--target", llama, "--head", "none", "--prompts", "mine.jsonl", *SHORT, "-o", "out")
    Path("mine.jsonl").write_text('{"id": "a", "prompt": "hello"}\n')
    assert run(*arguments).exit_code == 0
    Path("mine.jsonl").write_text('{"id": "a", "prompt": "hello"}\n{"id": "b", "prompt": "you"}\n')
    assert run(*arguments).exit_code == 0
    Path("mine.jsonl").write_text('{"id": "a", "prompt": "something else"}\n')
    result = run(*arguments)
    assert result.exit_code == 2
    assert "answers to another prompt `a` of `mine`" in result.stderr


def test_a_prompt_the_target_cannot_be_asked_is_named_before_anything_is_measured(run, llama):
    arguments = ("bench", "--target", llama, "--head", "none", "--prompts", "mine.jsonl", *SHORT, "-o", "out")
    cases = {
        "x" * 3000: "prompt `b` of `mine` has 3,",
        "\ud800": "`mine.jsonl` line 2: `prompt` holds half of a character",
    }
    for text, words in cases.items():
        lines = [{"id": "a", "prompt": "hello"}, {"id": "b", "prompt": text}]
        Path("mine.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        result = run(*arguments)
        assert result.exit_code == 2
        assert words in result.stderr
        assert not Path("out").exists()


def test_places_and_dtypes_that_cannot_be_are_refused_before_anything_is_loaded(run):
    Path("file").write_text("")
    for output in ("file", "file/below"):
        result = run("bench", "--target", "nowhere", "--head", "none", "-o", output)
        assert result.exit_code == 2
        assert "is a file" in result.stderr
    for dtype in ("bfloat16,foo", "float32,float32"):
        result = run("bench", "--target", "nowhere", "--head", "none", "--dtype", dtype, "-o", "out")
        assert result.exit_code == 2
        assert f"`--dtype` is `{dtype}`, it may be" in result.stderr


def test_a_narrower_run_in_the_same_folder_says_what_it_leaves_out(run, llama):
    arguments = ("bench", "--target", llama, "--head", "none", "--max-new-tokens", "8", "-o", "out")
    assert run(*arguments, "--limit", "2", "--paper").exit_code == 0
    assert Path("out/paper.md").exists()
    result = run(*arguments, "--limit", "1")
    assert "3 answers measured before, with other options" in result.stderr
    assert not Path("out/paper.md").exists()


def test_sets_of_one_name_are_refused(run, llama):
    Path("other").mkdir()
    for path in (Path("mine.jsonl"), Path("other/mine.jsonl")):
        path.write_text('{"prompt": "hello"}\n')
    arguments = ("bench", "--target", llama, "--head", "none", "--prompts", "mine.jsonl")
    result = run(*arguments, "--prompts", "other/mine.jsonl", "-o", "out")
    assert result.exit_code == 2
    assert "two prompt sets are called `mine`" in result.stderr


def test_every_turn_of_a_conversation_is_answered_and_told_apart(answer_of, run, llama, head, bloom):
    Path("mine.jsonl").write_text('{"id": "a", "turns": ["hello", "and you?"]}\n{"id": "b", "turns": ["you"]}\n')
    found = answer_of("bench", "--target", llama, "--head", head, "--prompts", "mine.jsonl", *SHORT, "-o", "out")
    lines = lines_of()
    assert {(line["answer_id"], line["turn"]) for line in lines} == {("a", 1), ("a#2", 2), ("b", 1)}
    assert len(lines) == 3 * 5
    for name in ("a", "a#2", "b"):
        assert len({line["sha256"] for line in lines if line["answer_id"] == name}) == 1
    for method in found["summaries"]:
        assert method["num_identical"] == method["num_answers"] == 3
    assert found["summaries"][-1]["over_generate"]["num_prompts"] == 2
    refused = run("bench", "--target", bloom, "--head", "none", "--prompts", "mine.jsonl", *SHORT, "-o", "other")
    assert refused.exit_code == 2
    assert "prompt `a` is a conversation" in refused.stderr
    assert not Path("other").exists()


def test_turns_beyond_the_context_are_left_out_and_the_report_says_so(run, llama):
    Path("mine.jsonl").write_text(json.dumps({"id": "a", "turns": ["hello", "x" * 1100]}) + "\n")
    result = run("bench", "--target", llama, "--head", "none", "--prompts", "mine.jsonl", *SHORT, "-o", "out")
    assert result.exit_code == 0
    assert "a#2: left out for plain loop, the conversation fills the target's context of 1024 tokens" in result.stderr
    assert "a#2: left out for generate()" in Path("out/report.md").read_text()
