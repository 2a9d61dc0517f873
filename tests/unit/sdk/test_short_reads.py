"""count, head, to_pandas and what notebooks show; conditions with parameters wherever one is taken."""

from __future__ import annotations

import datetime as dt
import time
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakelog.errors import InvalidArgument, NotFound
from lakelog.reads.scan import Scan
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.parquet import reader as parquet_reader


def _make(catalog: Catalog, keyed: bool = False, **options: str) -> Table:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("name", pa.string())])
    return catalog.create_table("shop.t", schema, primary_key=["id"] if keyed else [], options=options)


def _rows(first: int, last: int, name: str = "a") -> pa.Table:
    return pa.table({"id": range(first, last), "name": [name] * (last - first)})


def test_an_append_table_is_counted_without_opening_a_file(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    table = _make(catalog)
    assert table.count() == 0
    table.append(_rows(0, 5))
    table.append(_rows(5, 7))
    monkeypatch.setattr(parquet_reader.DataFileReader, "__init__", _fail)
    assert table.count() == 7


def _fail(*arguments: object, **named: object) -> None:
    raise AssertionError("a file was opened")


def test_a_keyed_table_counts_its_rows_after_merging(catalog: Catalog) -> None:
    table = _make(catalog, keyed=True, bucket="2")
    table.upsert(_rows(0, 10))
    table.upsert(_rows(5, 12, "b"))
    table.delete(pa.table({"id": [0, 100]}))
    assert table.count() == 11 == table.scan().to_arrow().num_rows
    assert table.count("name = :n", params={"n": "b"}) == 7
    assert table.count(pc.field("id") < 3) == 2
    with pytest.raises(InvalidArgument, match="There is no column 'nam'"):
        table.count("nam = 1")


def test_a_count_with_a_filter_reads_only_the_columns_it_names(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = catalog.create_table("shop.t", pa.schema([("n", pa.int64()), ("wide", pa.string())]))
    table.append(pa.table({"n": range(1000), "wide": [f"{n:0500d}" for n in range(1000)]}))
    all_read = table.scan(filter="n < 10")
    all_read.to_arrow()
    scans: list[Scan] = []
    count = Scan.count

    def note(scan: Scan) -> int:
        scans.append(scan)
        return count(scan)

    monkeypatch.setattr(Scan, "count", note)
    assert table.count("n < 10") == 10
    (counted,) = scans
    assert 0 < counted.metrics.bytes_read * 2 < all_read.metrics.bytes_read


def test_head_ends_reading_when_there_are_enough(catalog: Catalog) -> None:
    table = _make(catalog)
    for start in range(40):
        table.append(_rows(start * 10, start * 10 + 10))
    assert table.head().num_rows == 10
    assert table.head(3, columns=["name"]).to_pydict() == {"name": ["a"] * 3}
    assert table.head(100, "id = :id", params={"id": 7}).column("id").to_pylist() == [7]
    scan = table.scan(limit=3)
    scan.to_arrow()
    assert scan.metrics.files_opened < 30
    with pytest.raises(InvalidArgument, match="n=-1 is no number of rows"):
        table.head(-1)


def test_a_table_is_a_data_frame_and_a_stream(catalog: Catalog) -> None:
    table = _make(catalog)
    table.append(_rows(0, 3))
    frame = table.to_pandas(["id"], "id > :low", params={"low": 0})
    assert list(frame["id"]) == [1, 2]
    assert pl.DataFrame(table).height == pa.RecordBatchReader.from_stream(table).read_all().num_rows == 3


def test_notebooks_show_values_as_text_and_not_too_many(catalog: Catalog) -> None:
    fields = [(f"c{n}<b>", pa.string()) for n in range(40)]
    table = catalog.create_table("shop.t", pa.schema(fields))
    row = {name: "<script>alert(1)</script>" + "&" * 1000 for name, _ in fields}
    table.append([row] * 50)
    shown = table._repr_html_()
    assert "<script" not in shown
    assert "<b>" not in shown
    assert "&lt;script&gt;" in shown
    assert shown.count("<tr>") == 11
    assert shown.count("<th>") == 30
    assert "10 rows shown; 30 of 40 columns shown" in shown
    assert len(shown) < 400_000
    catalog.drop_table("shop.t")
    gone = table._repr_html_()
    assert "was dropped" in gone
    assert "<table>" not in gone


def test_notebooks_show_scans_and_system_tables(catalog: Catalog) -> None:
    table = _make(catalog)
    table.append(_rows(0, 25, "<script>"), properties={"version": "1.9"})
    for shown in (
        table.scan()._repr_html_(),
        table.changes(after=0)._repr_html_(),
        table.system_table("changelog")._repr_html_(),
        table.system_table("changelog").scan()._repr_html_(),
    ):
        assert shown.count("<tr>") == 11
        assert "10 rows shown" in shown
        assert "&lt;script&gt;" in shown
        assert "<script>" not in shown
    scan = table.scan(limit=30)
    assert "scan of shop.t at snapshot 1" in scan._repr_html_()
    assert scan.count() == 25
    # A map, as people write it.
    assert "{&#x27;version&#x27;: &#x27;1.9&#x27;}" in table.system_table("snapshots")._repr_html_()
    catalog.drop_table("shop.t")
    assert "was dropped" in table.system_table("files")._repr_html_()


def test_results_of_sql_become_data_frames_as_scans_do(catalog: Catalog) -> None:
    _make(catalog).append(_rows(0, 2))
    result = catalog.sql("SELECT id, name FROM shop.t ORDER BY id")
    assert result.to_arrow() is result.rows
    assert result.to_pandas().equals(pd.DataFrame({"id": [0, 1], "name": ["a", "a"]}))
    assert result.to_polars().rows() == [(0, "a"), (1, "a")]
    done = catalog.sql("CREATE DATABASE more")
    for read in (done.to_arrow, done.to_pandas, done.to_polars):
        with pytest.raises(InvalidArgument, match="returned no rows: Database more created"):
            read()


def test_notebooks_show_results_of_sql(catalog: Catalog) -> None:
    table = _make(catalog)
    table.append(_rows(0, 25, "<script>"))
    result = catalog.sql("SELECT * FROM shop.t")
    shown = result._repr_html_()
    assert "<script>" not in shown
    assert shown.count("<tr>") == 21
    assert "25 rows, the first 20 shown" in shown
    assert "Database more created" in catalog.sql("CREATE DATABASE more")._repr_html_()


def test_a_result_of_sql_is_a_stream_of_arrow(catalog: Catalog) -> None:
    table = _make(catalog)
    table.append(_rows(0, 3))
    result = catalog.sql("SELECT id, name FROM shop.t")
    assert pa.RecordBatchReader.from_stream(result).read_all().equals(result.rows)
    assert pl.DataFrame(result).height == 3
    table.append(result)
    assert table.count() == 6
    with pytest.raises(InvalidArgument, match="returned no rows: Database x created"):
        pa.RecordBatchReader.from_stream(catalog.sql("CREATE DATABASE x"))


def test_statements_take_parameters(catalog: Catalog) -> None:
    table = _make(catalog)
    bad = "x'); DROP TABLE shop.t; --"
    catalog.sql("INSERT INTO shop.t VALUES (:id, :name), (2, 'b'), (3, NULL)", params={"id": 1, "name": bad})
    assert table.scan(filter="id = 1").to_arrow().column("name").to_pylist() == [bad]

    def ids(condition: str, **params: Any) -> list[int]:
        rows = catalog.sql(f"SELECT id FROM shop.t WHERE {condition} ORDER BY id", params=params).rows
        assert rows is not None
        return [int(each) for each in rows.column("id").to_pylist()]

    assert ids("name = :n", n=bad) == [1]
    assert ids("id IN :ids", ids=[1, 3]) == [1, 3]
    assert ids("id < :f AND id - :m > 2", f=2.5, m=-1) == [2]
    assert ids("name = :n", n=None) == []
    assert ids("id < CAST(:d AS DOUBLE)", d=1e1) == [1, 2, 3]
    assert ids(":b", b=True) == [1, 2, 3]
    assert ids("TIMESTAMP '2020-01-01 00:00:00' < :t", t=dt.datetime(2021, 1, 1, tzinfo=dt.UTC)) == [1, 2, 3]
    assert ids("DATE '2020-01-01' < :t", t=dt.date(2021, 1, 1)) == [1, 2, 3]
    with pytest.raises(InvalidArgument, match="There is no value for :n"):
        ids("name = :n")
    with pytest.raises(InvalidArgument, match=r"Values were not provided.*: n\. Give them as params="):
        catalog.sql("SELECT id FROM shop.t WHERE name = :n")
    with pytest.raises(InvalidArgument, match="takes its value from params="):
        catalog.sql("INSERT INTO shop.t VALUES (:id, NULL)")
    with pytest.raises(InvalidArgument, match="no place for the value of :n"):
        ids("id = 1", n=1)


def test_every_condition_takes_parameters_and_expressions(catalog: Catalog) -> None:
    table = _make(catalog, keyed=True, bucket="1")
    table.upsert(_rows(0, 3))
    params = {"id": 1}
    assert table.scan(filter="id = :id", params=params).count() == 1
    assert table.changes(filter="id = :id", params=params).to_arrow().num_rows == 1
    assert table.changes(filter=pc.field("id") == 1).to_arrow().num_rows == 1
    for stream in (
        table.subscribe(filter="id = :id", params=params),
        table.subscribe(filter=pc.field("id") == 1),
        catalog.subscribe(["shop.t"], filter={"shop.t": "id = :id"}, params={"shop.t": params}),
        catalog.subscribe(["shop.t"], filter={"shop.t": pc.field("id") == 1}),
    ):
        with stream:
            batch = stream.read(5)
            assert batch is not None
            assert batch.data.column("id").to_pylist() == [1]
    with pytest.raises(InvalidArgument, match=r"There is no value for :id. Give params=\{'id': ...\}"):
        table.scan(filter="id = :id")
    with pytest.raises(InvalidArgument, match="or an expression of pyarrow, not a int"):
        table.scan(filter=5)
    for ask in (table.scan, table.changes, table.subscribe, table.count, table.head, table.to_pandas):
        with pytest.raises(InvalidArgument, match="no place for the value of :no"):
            ask(filter="id = :id", params={"id": 1, "no": 2})
    with pytest.raises(InvalidArgument, match="no place for the value of :no"):
        table.compact(where="id = 1", params={"no": 2})
    with pytest.raises(InvalidArgument, match="missing here"):
        catalog.subscribe(["shop.t"], params={"shop.t": params})
    with pytest.raises(InvalidArgument, match=r"shop\.u"):
        catalog.subscribe(["shop.t"], filter={"shop.t": "id = :id"}, params={"shop.u": params})


def test_times_are_taken_in_one_way(catalog: Catalog) -> None:
    table = _make(catalog, keyed=True)
    table.upsert(_rows(0, 1))
    table.upsert(_rows(1, 3))
    tomorrow = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)
    text = tomorrow.isoformat()
    for moment in (tomorrow, text, tomorrow.date() + dt.timedelta(days=1), int(tomorrow.timestamp() * 1000)):
        assert table.scan(timestamp=moment).count() == 3
    assert table.scan(options={"scan.timestamp-millis": text}).count() == 3
    assert table.scan(options={"scan.timestamp-millis": tomorrow}).count() == 3
    hint = f"/*+ OPTIONS('scan.timestamp-millis' = '{text}') */"
    counted = catalog.sql(f"SELECT count(*) AS n FROM shop.t {hint}").rows
    assert counted is not None
    assert counted.to_pydict() == {"n": [3]}
    with pytest.raises(NotFound):
        table.scan(timestamp="1970-01-02")
    with pytest.raises(InvalidArgument, match="Give milliseconds since 1970-01-01 UTC, or a time such as"):
        table.scan(options={"scan.timestamp-millis": "yesterday"})
    assert table.expire_snapshots("1970-01-02 00:00", dry_run=True).snapshots == 0
    assert table.expire_snapshots(text, retain_last=1, dry_run=True).snapshots == 1
    with table.subscribe("from-timestamp", options={"scan.timestamp-millis": "1970-01-02T00:00:00Z"}) as stream:
        assert sum(each.data.num_rows for each in stream.snapshots(0.5)) == 3
    table.upsert(_rows(3, 4), watermark="2024-05-01T00:00:00+02:00")
    assert table.scan().watermark_ms == 1714514400000


def test_dicts_are_rows(catalog: Catalog) -> None:
    table = _make(catalog, keyed=True)
    table.upsert([{"id": 1, "name": "a"}, {"name": None, "id": 2}])
    table.append({"id": n, "name": "g"} for n in range(10, 20_010))
    table.delete([{"id": 1}])
    table.write([{"id": 3, "name": "c", "_row_kind": "+I"}, {"id": 2, "name": None, "_row_kind": "-D"}])
    assert table.count("id < 10") == 1
    assert table.count("id >= 10") == 20_000
    with catalog.transaction() as transaction:
        transaction.table("shop.t").upsert([{"id": 4, "name": "d"}])
    table.upsert([{"id": 5}, {"id": 6, "name": "f"}], fill_missing=True)
    assert table.scan(filter="id IN (4, 5, 6)").to_arrow().sort_by("id").to_pylist() == [
        {"id": 4, "name": "d"},
        {"id": 5, "name": None},
        {"id": 6, "name": "f"},
    ]
    table.overwrite([])
    assert table.count() == 0


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([{"id": 1, "name": "a"}, {"id": 2}], "Row 1 of the data has no 'name', which row 0 has.*fill_missing=True"),
        ([{"id": 1}, {"id": 2, "name": "b"}], "Row 1 of the data has 'name', which row 0 has not"),
        ([{"id": 1}], "name: expected string, got nothing"),
        ([{"id": 1, "name": "a", "nam": 2}], "nam: expected no such column"),
        ([{"id": 1, "name": "a"}, {"id": "x", "name": "b"}], "The values of 'id' in the dicts"),
        ([{"id": 1, 5: "a"}], "Row 0 of the data has the key 5"),
        ([{"id": 1, "name": "a"}, 5], "Rows cannot be taken from a int"),
        ([None], "Rows cannot be taken from a NoneType"),
        ([{}], "Row 0 of the data is an empty dict"),
        ([{"id": 10**30, "name": "a"}], "The values of 'id' in the dicts .*: row 0 has 10+: .* 64 bits as Decimal"),
        (
            [{"id": 1, "name": "a"}, {"id": 2, "name": "\ud800"}],
            r"of 'name' .*: row 1 has '\\ud800': .* whole characters",
        ),
    ],
)
def test_dicts_that_do_not_fit_are_refused_by_key(catalog: Catalog, rows: Any, message: str) -> None:
    table = _make(catalog)
    with pytest.raises(InvalidArgument, match=message):
        table.append(rows)
    assert table.count() == 0


def test_an_unknown_key_is_refused_also_where_what_is_missing_is_filled(catalog: Catalog) -> None:
    table = _make(catalog)
    with pytest.raises(InvalidArgument, match="other: expected no such column"):
        table.append([{"id": 1}, {"id": 2, "other": 3}], fill_missing=True)


def test_numbers_of_several_types_in_dicts_become_decimals(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", pa.schema([("price", pa.decimal128(10, 2))]))
    table.append([{"price": price} for price in (Decimal("8"), 3.5, 2, None, np.float64(0.1))])
    expected = [Decimal("8.00"), Decimal("3.50"), Decimal("2.00"), None, Decimal("0.10")]
    assert table.scan().to_arrow()["price"].to_pylist() == expected
    for odd in (0.1 + 0.2, float("nan")):
        with pytest.raises(InvalidArgument, match="'price'"):
            table.append([{"price": Decimal("8")}, {"price": odd}])


def test_floats_of_pandas_and_dicts_become_decimals(catalog: Catalog) -> None:
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("price", pa.decimal128(10, 2))])
    table = catalog.create_table("shop.p", schema, primary_key=["id"])
    table.upsert(pd.DataFrame({"id": [1, 2, 3], "price": [3.5, float("nan"), 1e6]}))
    table.upsert([{"id": 4, "price": 0.1}])
    with catalog.transaction() as transaction:
        transaction.table("shop.p").append([{"id": 5, "price": 8}])
    prices = table.scan().to_arrow().sort_by("id").column("price").to_pylist()
    assert prices == [Decimal("3.50"), None, Decimal("1000000.00"), Decimal("0.10"), Decimal("8.00")]
    with pytest.raises(InvalidArgument, match=r"Column 'price' has 1\.255 in row 1: .*2 behind it; round it"):
        table.upsert(pd.DataFrame({"id": [1, 2], "price": [1.5, 1.255]}))


def test_rollbacks_and_tags_find_a_snapshot_by_its_time(catalog: Catalog) -> None:
    table = _make(catalog, keyed=True)
    table.upsert(_rows(0, 1))
    (first,) = table.snapshots().column("committed_at").to_pylist()
    time.sleep(0.005)
    table.upsert(_rows(1, 3))
    assert table.tags.create("begun", timestamp=first) == 1
    assert table.tags.create("now", timestamp=dt.datetime.now(dt.UTC) + dt.timedelta(days=1)) == 2
    with pytest.raises(InvalidArgument, match="Give one of them"):
        table.tags.create("both", 1, timestamp=first)
    with pytest.raises(NotFound, match="no snapshot at or before 1970-01-01"):
        table.rollback_to(dt.date(1970, 1, 1))
    with pytest.raises(InvalidArgument, match="has no time zone"):
        table.rollback_to(first.replace(tzinfo=None))
    with pytest.raises(NotFound, match="2024-05-01"):
        table.rollback_to("2024-05-01")
    assert table.rollback_to(first).snapshot_id == 3
    assert table.count() == 1


def test_no_empty_dict_is_lost_where_what_is_missing_is_filled(catalog: Catalog) -> None:
    table = catalog.create_table("shop.n", pa.schema([("n", pa.int64())]))
    with pytest.raises(InvalidArgument, match="Row 1 of the data is an empty dict"):
        table.append([{"n": 1}, {}], fill_missing=True)
    with pytest.raises(InvalidArgument, match="Row 0 of the data is an empty dict"):
        table.append([{}, {}], fill_missing=True)
    assert table.count() == 0
