from __future__ import annotations

import itertools
import pickle

import numpy as np
import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.format.types.schema import TableSchema, assign_field_ids
from lakelog.options.values import TableOptions
from lakelog.storage.write.row_normalizer import KindSource, RowNormalizer

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("v", pa.string(), nullable=False)])
KEYED = TableSchema(0, assign_field_ids(COLUMNS), ("id",))


def take(kinds: list[str], options: dict[str, str]) -> tuple[list[int], list[int] | None]:
    ids = list(range(len(kinds)))
    rows = pa.record_batch({"_row_kind": kinds, "v": ["x"] * len(ids), "id": ids})
    table, codes = RowNormalizer("db.t", KEYED, TableOptions(options)).take(rows, KindSource.COLUMN)
    assert table.schema.names == ["id", "v"]
    return table.column("id").to_pylist(), None if codes is None else codes.tolist()


@pytest.mark.parametrize(
    ("options", "ids", "codes"),
    [
        ({}, [0, 1, 2, 3], [0, 1, 2, 3]),
        ({"ignore-delete": "true"}, [0, 2], [0, 2]),
        ({"ignore-update-before": "true"}, [0, 2, 3], [0, 2, 3]),
        ({"ignore-delete": "true", "ignore-update-before": "true"}, [0, 2], [0, 2]),
    ],
)
def test_ignored_kinds_are_dropped_before_anything_else(
    options: dict[str, str], ids: list[int], codes: list[int]
) -> None:
    assert take(["+I", "-U", "+U", "-D"], options) == (ids, codes)


def test_inserts_alone_need_no_kinds() -> None:
    assert take(["+I", "+I"], {}) == ([0, 1], None)
    assert take(["+I", "-D"], {"ignore-delete": "true"}) == ([0], None)


def test_not_null_holds_for_rows_that_are_added_only() -> None:
    row_normalizer = RowNormalizer("db.t", KEYED, TableOptions({}))
    rows = pa.table({"id": [1, 2], "v": pa.array([None, "x"]), "_row_kind": ["-D", "+I"]})
    _, codes = row_normalizer.take(rows, KindSource.COLUMN)
    assert codes is not None
    assert codes.tolist() == [3, 0]
    with pytest.raises(InvalidArgument, match=r"'v' of db\.t is NOT NULL, but row 0"):
        row_normalizer.take(rows.set_column(2, "_row_kind", pa.array(["+U", "-D"])), KindSource.COLUMN)
    table, codes = row_normalizer.take(pa.table({"id": np.arange(3)}), KindSource.DELETES)
    assert table.column("v").null_count == 3
    assert codes is not None
    assert set(codes.tolist()) == {3}


@pytest.mark.parametrize(
    ("rows", "source", "refused"),
    [
        ({"id": [1]}, KindSource.INSERTS, True),
        ({"id": [1]}, KindSource.DELETES, False),
        ({"id": [1, 2], "_row_kind": ["-D", "-U"]}, KindSource.COLUMN, False),
        ({"id": [1, 2], "_row_kind": ["-D", "+U"]}, KindSource.COLUMN, True),
    ],
)
def test_rows_that_add_name_every_column(rows: dict[str, list[object]], source: KindSource, refused: bool) -> None:
    schema = TableSchema(0, assign_field_ids(pa.schema([COLUMNS[0], ("a", pa.string()), ("b", pa.int64())])), ("id",))
    row_normalizer = RowNormalizer("db.t", schema, TableOptions({}))
    data = pa.table(rows)
    if refused:
        with pytest.raises(
            InvalidArgument, match=r"(?s)a: expected string, got nothing.*fill_missing.*b: expected int64"
        ):
            row_normalizer.take(data, source)
    filled, _ = row_normalizer.take(data, source, fill_missing=refused)
    assert filled.column("a").null_count == filled.column("b").null_count == data.num_rows


def test_a_field_of_kinds_says_whether_columns_may_be_left_out() -> None:
    columns = pa.schema([COLUMNS[0], ("op", pa.string()), ("a", pa.string())])
    row_normalizer = RowNormalizer(
        "db.t", TableSchema(0, assign_field_ids(columns), ("id",)), TableOptions({"rowkind.field": "op"})
    )
    taken, _ = row_normalizer.take(pa.table({"id": [1], "op": ["-D"]}), KindSource.INSERTS)
    assert taken.column("a").null_count == 1
    with pytest.raises(InvalidArgument, match="a: expected string, got nothing"):
        row_normalizer.take(pa.table({"id": [1, 2], "op": ["-D", "+I"]}), KindSource.INSERTS)
    for source, fills in itertools.product((KindSource.INSERTS, KindSource.COLUMN), (False, True)):
        with pytest.raises(
            InvalidArgument, match=r"rows written to db\.t have no column 'op' of .*rowkind\.field.*Add it"
        ):
            row_normalizer.take(pa.table({"id": [1], "a": ["x"]}), source, fill_missing=fills)


@pytest.mark.parametrize("fill_missing", [False, True])
def test_a_delete_by_its_kind_does_not_leave_its_sequence_out(fill_missing: bool) -> None:
    """It would lose against every row: it would delete nothing."""
    schema = TableSchema(0, assign_field_ids(pa.schema([COLUMNS[0], ("seq", pa.int64())])), ("id",))
    row_normalizer = RowNormalizer("db.t", schema, TableOptions({"sequence.field": "seq"}))
    rows = pa.table({"id": [1], "_row_kind": ["-D"]})
    with pytest.raises(InvalidArgument, match=r"keys to delete from db\.t has no value for 'seq'.*latest=True"):
        row_normalizer.take(rows, KindSource.COLUMN, fill_missing=fill_missing)
    ignoring = RowNormalizer("db.t", schema, TableOptions({"sequence.field": "seq", "ignore-delete": "true"}))
    assert ignoring.take(rows, KindSource.COLUMN)[0].num_rows == 0
    given = rows.append_column("seq", pa.nulls(1, pa.int64()))
    assert row_normalizer.take(given, KindSource.COLUMN)[0].num_rows == 1


def test_two_kind_columns_are_refused() -> None:
    rows = pa.Table.from_arrays([pa.array([1]), pa.array(["+I"]), pa.array(["+I"])], ["id", "_row_kind", "_row_kind"])
    with pytest.raises(InvalidArgument, match="more than once"):
        RowNormalizer("db.t", KEYED, TableOptions({})).take(rows, KindSource.COLUMN)


def test_it_pickles() -> None:
    row_normalizer = RowNormalizer("db.t", KEYED, TableOptions({"ignore-delete": "true"}))
    assert pickle.loads(pickle.dumps(row_normalizer)) == row_normalizer
