"""The paper's figures beside ours: every figure is quoted, every verdict is earned, the page holds them all."""

import re
from pathlib import Path

import pytest

from bench_rows import make_rows
from paper_rows import METHODS, NOT_MEASURED, SMALL, heads, one, phrase, provenance, rows, tables
from phrasedraft.evaluation.bench.paper import PAGE, write_paper
from phrasedraft.evaluation.bench.paper.figures import phrase_paper
from phrasedraft.evaluation.bench.summary import summarize

PAPER = phrase_paper()
SEEDS = Path(__file__).parents[3] / "shared" / "seeds"
DASH = "\N{EN DASH}"


@pytest.fixture(scope="module")
def results():
    return make_rows(("gsm8k_test", "math500", "mt_bench"), 6, METHODS)


@pytest.fixture(scope="module")
def made(results):
    return tables(results)


def figure_in(text):
    """The number that a printed figure begins with."""
    found = re.match(r"[\d.,]+", text)
    assert found
    return float(found[0].replace(",", ""))


SCALES = {"M": 1e6, "%": 1e-2}


@pytest.mark.parametrize("name", PAPER.figures)
def test_a_figure_is_what_its_quotation_says(name):
    figure = PAPER[name]
    assert figure.printed in figure.wording
    low, _, high = figure.printed.partition(DASH)
    scale = SCALES.get(figure.printed[-1], 1)
    assert figure.value == pytest.approx(figure_in(low) * scale)
    assert figure.high == (pytest.approx(figure_in(high) * scale) if high else None)


@pytest.mark.skipif(not SEEDS.is_dir(), reason="the documents the figures are from lie beside the project, not in it")
@pytest.mark.parametrize("name", PAPER.figures)
def test_a_quotation_stands_in_every_document_it_is_said_to_be_from(name):
    figure = PAPER[name]
    documents = re.findall(r"seeds/(\S+?\.txt)", figure.source)
    assert documents
    for document in documents:
        assert figure.wording in (SEEDS / document).read_text(encoding="utf-8")


def test_the_headline_shows_the_measured_speedup_with_its_interval(results, made):
    summaries = {(each.prompt_set, each.method): each for each in summarize(results)}
    for name, prompt_set in (("GSM8K", "gsm8k_test"), ("MATH-500", "math500"), ("MT-Bench", "mt_bench")):
        found = rows(made["speed"], name)
        assert [row.here for row in found] == [
            str(summaries[prompt_set, f"phrase, {nodes} nodes"].over_generate) for nodes in (8, 46)
        ]
        assert all("[" in row.here for row in found)
    assert [row.paper.split()[0] for row in rows(made["speed"], "G")] == ["2.391x"] * 2


def test_a_verdict_names_everything_that_differs(results, made):
    far, near = rows(made["speed"], "GSM8K")
    assert far.verdict == "other target, other hardware, other number of positions"
    assert near.verdict == "other target, other hardware"
    same = provenance(target="Qwen/Qwen3-4B", machine={"accelerator": "NVIDIA RTX A5000"})
    found = tables(results, same)
    assert [row.verdict for row in rows(found["speed"], "GSM8K")] == ["other number of positions", "comparable"]
    assert rows(found["passes"], "GSM8K: tokens")[-1].verdict == "comparable"
    assert one(found["words"], "English").verdict == "other text"
    other = tables(results, provenance(target="Qwen/Qwen3-4B-Instruct-2507"))
    assert rows(other["passes"], "GSM8K: tokens")[-1].verdict == "other target"


def test_only_answers_at_batch_size_1_count():
    batched = make_rows(("gsm8k_test",), 3, METHODS, batch_size=4)
    assert one(tables(batched)["speed"], "GSM8K").verdict == NOT_MEASURED
    alone = make_rows(("gsm8k_test",), 3, METHODS)
    assert tables([*alone, *batched]) == tables(alone)


def test_a_prompt_file_counts_as_the_set_of_its_name():
    path = "/data/prompts/gsm8k_test.jsonl"
    here = [row.here for row in rows(tables(make_rows((path,), 3, METHODS))["passes"], "GSM8K: tokens")]
    assert all(here)


@pytest.mark.parametrize("sets", [(), ("humaneval",)])
def test_every_row_that_needs_answers_says_so_where_there_are_none(sets):
    bare = provenance(drafters={}, costs={}, fertility=[])
    found = tables(make_rows(sets, 2, METHODS), bare)
    for table in found.values():
        for row in table.rows:
            assert (row.verdict == NOT_MEASURED) != (row.verdict == "the paper's own figures"), row
            assert not row.here or row.verdict == "the paper's own figures"
        assert table.findings


def test_a_drafter_without_weights_and_the_token_chain_do_not_stand_for_the_phrase_head():
    methods = (*METHODS[:2], phrase(drafter="suffix-automaton"), phrase(drafter="token-chain"))
    known = provenance(drafters={**heads(token_chain=SMALL), **heads(suffix_automaton=0)})
    assert one(tables(make_rows(("gsm8k_test",), 2, methods), known)["speed"], "GSM8K").verdict == NOT_MEASURED
    kinds = heads(mine=SMALL, yours=SMALL)
    kinds["mine"]["kind"], kinds["yours"]["kind"] = "phrase-head", "token-chain"
    methods = (*METHODS[:2], phrase(drafter="mine"), phrase(drafter="yours"))
    found = tables(make_rows(("gsm8k_test",), 2, methods), provenance(drafters=kinds))
    assert one(found["speed"], "GSM8K").measured == "mine, 46 nodes, float32, 2 prompts"


def test_the_page_has_every_table_row_and_quotation(results, tmp_path):
    write_paper(tmp_path / "new" / "folder", results, provenance())
    page = (tmp_path / "new" / "folder" / PAGE).read_text(encoding="utf-8")
    for table in tables(results).values():
        assert table.markdown() in page
    assert all(figure.wording in page for figure in PAPER.figures.values())
    lines = [line for line in page.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", line)) for line in lines} == {6}
    write_paper(tmp_path, results, provenance())
    assert (tmp_path / PAGE).read_text(encoding="utf-8") == page
