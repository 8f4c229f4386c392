import importlib.util
import struct
from dataclasses import replace

import pytest

from bench_rows import make_provenance, make_rows, makers
from phrasedraft.evaluation.bench.plots import PICTURES, draw_plots
from phrasedraft.evaluation.bench.plots.canvas import drafter_styles, methods_in_order, panels
from phrasedraft.evaluation.bench.result import LOOKUP, PLAIN
from phrasedraft.evaluation.bench.summary import summarize

pytest.importorskip("matplotlib")


def draw(folder, rows, provenance=None):
    provenance = provenance or make_provenance()
    return draw_plots(folder, rows, summarize(rows, (), provenance.drafters), provenance)


def size(path):
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG")
    return struct.unpack(">II", data[16:24])


@pytest.fixture(scope="module")
def rows():
    return make_rows(["gsm8k_test", "mt_bench"], 2, [*makers()[:3], *makers((4, 16))[3:7]])


def test_five_pictures_are_written_whole(tmp_path, rows):
    assert draw(tmp_path, rows) == list(PICTURES)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(PICTURES)
    assert {size(tmp_path / name)[0] for name in PICTURES} == {1350}


def test_other_dtypes_and_batches_get_panels_of_their_own(rows):
    other = make_rows(["gsm8k_test", "mt_bench"], 1, makers((4,)), dtype="bfloat16")
    found = panels(summarize([*rows, *other, *make_rows(["gsm8k_test"], 1, makers((4,)), batch_size=2)]))
    assert list(found) == [
        "gsm8k_test",
        "mt_bench",
        "all sets",
        "gsm8k_test\nfloat32, batch size 2",
        "all sets\nbfloat16, batch size 1",
    ]
    assert {each.dtype for each in found["all sets\nbfloat16, batch size 1"]} == {"bfloat16"}


def test_methods_have_one_order_under_all_conditions(rows):
    other = make_rows(["gsm8k_test"], 1, makers((8,)), dtype="bfloat16")
    found = methods_in_order(summarize([*rows, *other], (), make_provenance().drafters))
    assert found[1:6] == [LOOKUP, PLAIN, *(f"phrase-head, {nodes} nodes" for nodes in (4, 8, 16))]


def test_each_drafter_has_one_look_and_no_two_the_same():
    rows = [
        each
        for i in range(14)
        for each in make_rows(["a"], 1, [replace(makers((4,))[3], drafter=str(i), method=str(i))])
    ]
    styles = drafter_styles(summarize(rows))
    assert len(set(styles.values())) == 15


def test_what_there_is_nothing_to_draw_for_is_left_out_and_an_old_picture_removed(tmp_path, rows):
    draw(tmp_path, rows)
    baselines = [each for each in rows if not each.drafter]
    assert draw(tmp_path, baselines, make_provenance(costs={})) == ["speedup.png"]
    assert [path.name for path in tmp_path.iterdir()] == ["speedup.png"]


def test_a_single_method_at_one_node_count_on_one_prompt_can_be_drawn(tmp_path):
    rows = make_rows(["gsm8k_test"], 1, [makers((8,))[0], makers((8,))[3]])
    assert draw(tmp_path, rows) == list(PICTURES)


def test_without_matplotlib_nothing_is_drawn(tmp_path, rows, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert draw(tmp_path, rows) == []
    assert not list(tmp_path.iterdir())
