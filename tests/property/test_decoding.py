"""Random files read within any budget: the same rows as an ordinary reader finds, in parts that keep to it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.storage.objects.memory import MemoryStore
from lakelog.storage.parquet import reader as reading
from lakelog.storage.parquet.live_file import LiveFile
from lakelog.storage.parquet.pages import decoding
from lakelog.storage.parquet.reader import DataFileReader

PATH = "data/0/f.parquet"

texts = st.one_of(
    st.none(), st.text(max_size=8), st.sampled_from(["x" * 3000, "y" * 20_000, "", "common"]), st.just("common")
)
numbers = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))
VALUES: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "number": (pa.int64(), numbers),
    "flag": (pa.bool_(), st.one_of(st.none(), st.booleans())),
    "text": (pa.string(), texts),
    "bytes": (pa.binary(), st.one_of(st.none(), st.binary(max_size=5), st.just(b"z" * 9000))),
    "price": (pa.decimal128(20, 2), st.one_of(st.none(), st.decimals(-(10**9), 10**9, places=2))),
    "list": (pa.list_(pa.field("element", pa.string())), st.one_of(st.none(), st.lists(texts, max_size=4))),
    "lists": (
        pa.list_(pa.field("element", pa.list_(pa.field("element", pa.int64())))),
        st.one_of(st.none(), st.lists(st.one_of(st.none(), st.lists(numbers, max_size=3)), max_size=3)),
    ),
    "struct": (
        pa.struct([pa.field("a", pa.int64()), pa.field("b", pa.string())]),
        st.one_of(st.none(), st.fixed_dictionaries({"a": numbers, "b": texts})),
    ),
    "map": (
        pa.map_(pa.string(), pa.string()),
        st.one_of(st.none(), st.lists(st.tuples(st.text(max_size=3), texts), max_size=3)),
    ),
    "deep": (
        pa.list_(pa.field("element", pa.struct([pa.field("b", pa.list_(pa.field("element", pa.string())))]))),
        st.one_of(
            st.none(),
            st.lists(st.one_of(st.none(), st.fixed_dictionaries({"b": st.lists(texts, max_size=2)})), max_size=3),
        ),
    ),
}


@st.composite
def files(draw: st.DrawFn) -> tuple[pa.Table, dict[str, Any]]:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=4, unique=True))
    few = draw(st.lists(st.tuples(*(VALUES[name][1] for name in names)), min_size=1, max_size=12))
    rows = [few[place] for place in draw(st.lists(st.integers(0, len(few) - 1), max_size=150))]
    schema = assign_field_ids(pa.schema([pa.field(name, VALUES[name][0]) for name in names]))
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(schema)]
    options: dict[str, Any] = {
        "row_group_size": draw(st.sampled_from([1, 7, 50, 1000])),
        "use_dictionary": draw(st.booleans()),
        "dictionary_pagesize_limit": draw(st.sampled_from([1, 5000, 1 << 20])),
        "data_page_size": draw(st.sampled_from([300, 5000, 1 << 20])),
        "write_batch_size": draw(st.sampled_from([3, 10, 1024])),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "compression": draw(st.sampled_from(["none", "snappy", "zstd"])),
    }
    if not options["use_dictionary"] and draw(st.booleans()):
        options["column_encoding"] = {name: "DELTA_BYTE_ARRAY" for name in names if name in ("text", "bytes")}
    return pa.table(columns, schema=schema), options


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(file=files(), budget_bytes=st.sampled_from([1, 100, 5000, 60_000, 64 << 20]), data=st.data())
def test_any_file_is_read_alike_within_any_budget(
    file: tuple[pa.Table, dict[str, Any]], budget_bytes: int, data: st.DataObject
) -> None:
    table, options = file
    store = MemoryStore()
    live = _write(store, table, options)
    # pyarrow writes pages without values at times, and then reads no row of them.
    assume(pq.ParquetFile(store.open_input(PATH)).read().num_rows == table.num_rows)
    schema = TableSchema(0, table.schema)
    with DataFileReader(store, live) as reader:
        mapping = reader.map_columns(list(schema.arrow))
        groups = range(reader.metadata.num_row_groups)
        batches = list(reader.read_batches(groups, mapping, budget_bytes))
        found = pa.Table.from_batches(batches, mapping.schema)
        found.validate(full=True)
        assert found.to_pylist() == table.to_pylist()
        # The other half of it is what each row of a part has beside its texts.
        assert all(batch.num_rows == 1 or _text_bytes(batch) <= max(budget_bytes, 80_000) for batch in batches)
        if table.num_rows:
            group = data.draw(st.sampled_from(list(groups)))
            first, last = (int(bound) for bound in reader.row_group_starts[group : group + 2])
            start = data.draw(st.integers(0, last - first))
            end = data.draw(st.integers(start, last - first))
            part = pa.Table.from_batches(
                list(reader.read_slice(group, start, end, mapping, budget_bytes)), mapping.schema
            )
            assert part.to_pylist() == table.slice(first + start, end - start).to_pylist()


@pytest.mark.parametrize("mixes", [False, True], ids=["protected", "control"])
def test_parts_that_had_their_rows_in_another_order_would_be_noticed(
    monkeypatch: pytest.MonkeyPatch, mixes: bool
) -> None:
    """One that had more or fewer rows is an error by itself."""
    if mixes:
        parts = decoding.split_decoded
        monkeypatch.setattr(reading, "split_decoded", lambda *args: map(_reverse, parts(*args)))
    values = pa.array(["x" * 3000, "y"] * 20)
    table = pa.table([values], schema=assign_field_ids(pa.schema([pa.field("text", pa.string())])))
    store = MemoryStore()
    with DataFileReader(store, _write(store, table, {})) as reader:
        mapping = reader.map_columns(list(table.schema))
        found = [pa.Table.from_batches(reader.read_batches(range(1), mapping, size)) for size in (5000, 64 << 20)]
    assert len(found[0].column(0).chunks) > 5
    assert (found == [table, table]) is not mixes
    assert found[0].num_rows == table.num_rows


def _reverse(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.take(pa.array(range(batch.num_rows)[::-1], pa.int64()))


def _write(store: MemoryStore, table: pa.Table, options: dict[str, Any]) -> LiveFile:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, store_schema=False, **options)
    writer = store.create(PATH)
    writer.sink.write(sink.getvalue())
    size_bytes = writer.commit()
    return LiveFile(1, PATH, b"", 0, 0, table.num_rows, 0, size_bytes, None, None, 0, 1, 1, 0, 0)


def _text_bytes(batch: pa.RecordBatch) -> int:
    return sum(batch.column(name).nbytes for name in ("text", "bytes") if name in batch.schema.names)


def test_sizes_of_rows_are_those_of_their_values() -> None:
    values = ["a" * 10, "b" * 1000, None, "c"]
    indices = np.array([0, 1, 1, 3, 2, 0], np.int32)
    named = pa.DictionaryArray.from_arrays(pa.array([0, 1, None, 3, 2, 0], pa.int32()), values)
    batch = pa.record_batch(
        [
            named,
            pa.ListArray.from_arrays(pa.array([0, 2, None, 2, 5, 5, 6], pa.int32()), named),
            pa.StructArray.from_arrays([named, pa.array(indices)], ["x", "y"]),
        ],
        names=["flat", "list", "struct"],
    )
    flat = [10, 1000, 0, 1, 0, 10]
    listed = [1010, 0, 0, 1, 0, 10]
    assert [decoding._row_bytes(column).tolist() for column in batch.columns] == [flat, listed, flat]
    parts = list(decoding.split_decoded(batch, 2010))
    assert [part.num_rows for part in parts] == [1, 4, 1]
    assert pa.Table.from_batches(parts) == pa.Table.from_batches([batch])
