import importlib.util
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench_rows import make_difference, make_provenance, make_row, make_rows, makers
from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.bench.result import Provenance, Result
from phrasedraft.evaluation.bench.table import RESULTS_FILE, read_results, write_results

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")

COUNTS = st.integers(0, 2**62)
NUMBERS = st.floats(allow_nan=False)
STATS = st.fixed_dictionaries(
    {
        **dict.fromkeys(("num_passes", "num_draft_tokens", "num_accepted_tokens", "num_landings"), COUNTS),
        **{name: st.floats(0, 1e6) for name in ("draft_seconds", "verify_seconds", "keep_seconds", "other_seconds")},
        "num_accepted_tokens_per_pos": st.lists(COUNTS, max_size=5),
    }
)
FIELDS = dict(
    **{name: st.text(max_size=8) for name in ("prompt_set", "answer_id", "group", "method", "drafter", "dtype")},
    **dict.fromkeys(("turn", "num_draft_tokens", "batch_size", "num_prompt_tokens", "rank"), COUNTS),
    **{name: st.lists(COUNTS, max_size=6) for name in ("tokens", "pass_lengths")},
    **dict.fromkeys(("seconds", "started_at", "load_average"), NUMBERS),
    **{name: st.none() | NUMBERS for name in ("first_token_seconds", "other_load", "energy_joules")},
    sha256=st.text(),
    finish_reason=st.text(),
    categories=st.dictionaries(st.text(max_size=8), COUNTS, max_size=4),
    stats=st.none() | STATS,
    peak_bytes=st.none() | COUNTS,
)


def built(values) -> Result:
    stats = None if values["stats"] is None else DecodingStats(**values["stats"]).as_dict()
    return Result(**{**values, "stats": stats})


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("table")


@given(rows=st.lists(st.fixed_dictionaries(FIELDS), max_size=4))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_result_comes_back_as_it_was(folder, rows):
    results = [built(row) for row in rows]
    write_results(folder / "any.parquet", results, make_provenance())
    assert read_results(folder / "any.parquet") == (results, make_provenance())


def test_a_benchmark_comes_back_with_its_provenance_and_counts(tmp_path):
    results = make_rows(["gsm8k_test", "mt_bench"], 2, makers((4,)))
    provenance = make_provenance(differences=[make_difference(results[0]), make_difference(results[1], None, None)])
    write_results(tmp_path / RESULTS_FILE, results, provenance)
    found, where = read_results(tmp_path)
    assert (found, where) == (results, provenance)
    assert [each.counts for each in found] == [each.counts for each in results]
    assert [path.name for path in tmp_path.iterdir()] == [RESULTS_FILE]


def test_there_is_a_column_for_every_field(tmp_path):
    write_results(tmp_path / RESULTS_FILE, [make_row()], make_provenance())
    assert pq.read_schema(tmp_path / RESULTS_FILE).names == list(vars(make_row()))


def test_the_provenance_can_be_read_without_this_library(tmp_path):
    write_results(tmp_path / RESULTS_FILE, [], make_provenance())
    stored = json.loads(pq.read_schema(tmp_path / RESULTS_FILE).metadata[b"phrasedraft"])
    assert stored["format"] == 1
    assert Provenance.from_dict(stored["provenance"]) == make_provenance()


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(DataError, match="No such file"):
        read_results(tmp_path / "none.parquet")
    with pytest.raises(DataError, match=r"results\.parquet"):
        read_results(tmp_path)


def test_a_file_that_is_no_parquet_is_refused(tmp_path):
    (tmp_path / RESULTS_FILE).write_text("not parquet")
    with pytest.raises(DataError, match="no parquet file"):
        read_results(tmp_path)


def test_somebody_elses_parquet_is_refused(tmp_path):
    pq.write_table(pa.table({"a": [1]}), tmp_path / RESULTS_FILE)
    with pytest.raises(DataError, match="no benchmark's"):
        read_results(tmp_path)


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"format": 2, "provenance": {}}, "has format 2, this version of phrasedraft reads format 1"),
        ({"format": 1, "provenance": {"command": "x"}}, "provenance in .* is damaged"),
        ([], "provenance in .* is damaged"),
    ],
)
def test_another_format_and_damaged_provenance_are_told_apart(tmp_path, metadata, message):
    schema = pa.schema([("a", pa.int64())], metadata={b"phrasedraft": json.dumps(metadata).encode()})
    pq.write_table(pa.table({"a": [1]}, schema=schema), tmp_path / RESULTS_FILE)
    with pytest.raises(DataError, match=message):
        read_results(tmp_path)


def test_other_columns_are_refused(tmp_path):
    write_results(tmp_path / RESULTS_FILE, [make_row()], make_provenance())
    table = pq.read_table(tmp_path / RESULTS_FILE)
    pq.write_table(table.drop_columns(["rank"]), tmp_path / RESULTS_FILE)
    with pytest.raises(DataError, match="other columns"):
        read_results(tmp_path)


def test_one_changed_byte_never_gives_other_results(tmp_path):
    path = tmp_path / RESULTS_FILE
    results = make_rows(["gsm8k_test"], 2, makers((4,))[:3])
    write_results(path, results, make_provenance())
    data, refused = path.read_bytes(), 0
    first_page = data.index(b"\x28\xb5\x2f\xfd")  # the magic number that a zstd frame begins with
    for place in range(first_page, first_page + 200, 7):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :])
        try:
            assert read_results(path)[0] == results
        except DataError:
            refused += 1
    assert refused > 10


def test_a_cut_file_is_refused(tmp_path):
    path = tmp_path / RESULTS_FILE
    write_results(path, [make_row()], make_provenance())
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(DataError, match="damaged"):
        read_results(path)


def test_without_pyarrow_the_command_that_installs_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(OptionError, match="pyarrow") as caught:
        write_results(tmp_path / RESULTS_FILE, [], make_provenance())
    assert "phrasedraft[bench]" in caught.value.hint
    assert not list(tmp_path.iterdir())
