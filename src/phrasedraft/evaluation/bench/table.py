"""`results.parquet`: every result of a benchmark in a row, and where they come from in its metadata."""

import importlib.util
import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from phrasedraft.decoding.stats import DecodingStats
from phrasedraft.errors import DataError, OptionError
from phrasedraft.evaluation.bench.result import Provenance, Result
from phrasedraft.whole_file import replace_file

RESULTS_FILE = "results.parquet"
FORMAT = 1
_KEY = b"phrasedraft"
_UNCOUNTED = "num_passes_per_size"
"""A counter that files of version 0.1.0 do not have."""
_HINT = "give a `results.parquet` that `phrasedraft bench` wrote, or the folder it is in"


def require_pyarrow() -> None:
    """Refuse to read or write results where pyarrow is missing, with the command that installs it."""
    if importlib.util.find_spec("pyarrow") is None:
        raise OptionError(
            "`results.parquet` needs pyarrow, which is not installed", hint="pip install 'phrasedraft[bench]'"
        )


def write_results(path: Path, results: Sequence[Result], provenance: Provenance) -> None:
    """Write `results.parquet` in one step; its folder must exist.

    Of `stats` only what `DecodingStats` counts is kept; the ratios that `as_dict` puts beside it are worked out again.
    """
    require_pyarrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    envelope = json.dumps({"format": FORMAT, "provenance": provenance.as_dict()})
    schema = _schema().with_metadata({_KEY: envelope.encode()})
    columns = {name: [_stored(name, getattr(each, name)) for each in results] for name in schema.names}
    data = io.BytesIO()
    pq.write_table(
        pa.table(columns, schema=schema), data, compression="zstd", write_page_checksum=True, store_schema=True
    )
    replace_file(path, data.getvalue())


def read_results(path: Path) -> tuple[list[Result], Provenance]:
    """What `write_results` wrote to `path`, or to `results.parquet` in the folder `path`.

    `DataError` for a file that is missing, damaged, no benchmark's, or of another format.
    """
    require_pyarrow()
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = path / RESULTS_FILE if path.is_dir() else path
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read `{path}`: {error.strerror}", hint=_HINT) from error
    try:
        table = pq.read_table(pa.BufferReader(data), use_threads=False, page_checksum_verification=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise DataError(f"`{path}` is damaged or no parquet file: {error}", hint=_HINT) from error
    provenance = _provenance(path, table.schema.metadata or {})
    if not any(table.schema.equals(known, check_metadata=False) for known in (_schema(), _schema(_UNCOUNTED))):
        raise DataError(f"`{path}` has other columns than a benchmark's results", hint=_HINT)
    columns = table.to_pydict()
    rows = (dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True))
    return [Result(**{name: _restored(name, value) for name, value in row.items()}) for row in rows], provenance


def _schema(without: str | None = None) -> Any:  # a pyarrow.Schema, which is imported where it is used
    """One column for each field of `Result`, of the type its annotation says; `stats` is a struct of its counters.

    `without` names a counter to leave out, as in files from before there was one.
    """
    import pyarrow as pa

    simple = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        list[int]: pa.list_(pa.int64()),
        dict[str, int]: pa.map_(pa.string(), pa.int64()),
        float | None: pa.float64(),
        int | None: pa.int64(),
    }
    counters = get_type_hints(DecodingStats)
    names = [each.name for each in fields(DecodingStats) if each.name != without]
    stats = pa.struct([pa.field(name, simple[counters[name]]) for name in names])
    types = {**simple, dict[str, Any] | None: stats}
    hints = get_type_hints(Result)
    return pa.schema([pa.field(each.name, types[hints[each.name]]) for each in fields(Result)])


def _stored(name: str, value: Any) -> Any:
    if name == "stats" and value is not None:
        return vars(DecodingStats.from_dict(value))
    return list(value.items()) if name == "categories" else value


def _restored(name: str, value: Any) -> Any:
    if name == "stats" and value is not None:
        return DecodingStats.from_dict(value).as_dict()
    return dict(value) if name == "categories" else value


def _provenance(path: Path, metadata: Mapping[bytes, bytes]) -> Provenance:
    if _KEY not in metadata:
        raise DataError(f"`{path}` is a parquet file, but no benchmark's", hint=_HINT)
    try:
        envelope = json.loads(metadata[_KEY])
        found = envelope["format"]
        if found == FORMAT:
            return Provenance.from_dict(envelope["provenance"])
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"the provenance in `{path}` is damaged: {error!r}", hint=_HINT) from error
    raise DataError(
        f"`{path}` has format {found}, this version of phrasedraft reads format {FORMAT}",
        hint="install the version that wrote it, or run the benchmark again",
    )
