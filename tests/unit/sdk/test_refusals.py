"""What the SDK says to arguments that cannot be: the argument as its user knows it, its value and the remedy."""

from __future__ import annotations

import datetime as dt
import functools
import pickle
from typing import Any

import pyarrow as pa
import pyarrow.dataset
import pytest

import lakelog
from lakelog.cli.output.schema_text import parse_columns
from lakelog.clock import show_time
from lakelog.errors import CommitConflict, InvalidArgument, NotFound
from lakelog.sdk.catalog import Catalog

_SCHEMA = pa.schema([("id", pa.int64()), ("dt", pa.string())])


def test_connect_takes_texts_only() -> None:
    with pytest.raises(InvalidArgument, match=r"target is 5: give it as text, 'localhost:7450'"):
        lakelog.connect(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="tls_ca is 5"):
        lakelog.connect("a:1", tls_ca=5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument) as caught:
        lakelog.connect("a:1", token=12345)  # type: ignore[arg-type]
    assert "12345" not in caught.value.message


def test_options_and_properties_are_dicts_of_texts(catalog: Catalog) -> None:
    with pytest.raises(InvalidArgument, match=r"options=\['a'\] is a list: give a dict"):
        catalog.create_table("shop.t", _SCHEMA, options=["a"])  # type: ignore[arg-type]
    table = catalog.create_table("shop.t", _SCHEMA)
    for wrong in (["a"], [], "bucket"):
        with pytest.raises(InvalidArgument, match="give a dict"):
            table.scan(options=wrong)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgument, match="properties has 1 for 'a': keys and values are texts"):
        table.append(pa.table({"id": [1]}), properties={"a": 1})  # type: ignore[dict-item]


def test_a_write_has_no_argument_that_is_misspelt(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", _SCHEMA)
    with pytest.raises(TypeError, match=r"append\(\) got an unexpected keyword argument 'identifer'"):
        table.append(pa.table({"id": [1]}), writer="w", identifer=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"transaction\(\) got an unexpected keyword argument 'writr'"):
        catalog.transaction(writr="w")  # type: ignore[call-arg]
    assert table.scan().count() == 0


def test_a_range_is_described_in_the_words_of_changes(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", _SCHEMA)
    with pytest.raises(InvalidArgument, match=r"until=2 lies before after=5.*Swap them"):
        table.changes(after=5, until=2)


def test_names_are_called_what_they_name(catalog: Catalog) -> None:
    with pytest.raises(InvalidArgument, match="The name of the database is ''"):
        catalog.tables("")
    with pytest.raises(InvalidArgument, match="The name of the table is '1x'"):
        catalog.create_table("shop.1x", _SCHEMA)


@pytest.mark.parametrize("overwrites", [False, True])
def test_a_large_partition_value_is_refused_by_its_column(catalog: Catalog, overwrites: bool) -> None:
    table = catalog.create_table("shop.t", _SCHEMA, partition_by=["id", "dt"])
    fits, large = "x" * 2000, "x" * 1_000_000
    table.append(pa.table({"id": [1], "dt": [fits]}))
    rows = pa.table({"id": [1, 2], "dt": ["a", large]})
    write = functools.partial(table.overwrite, partition={"dt": large}) if overwrites else table.append
    with pytest.raises(InvalidArgument) as caught:
        write(rows)
    assert "Partition column 'dt' has the value 'xxxx" in caught.value.message
    assert "2048 bytes" in caught.value.message
    assert len(caught.value.message) < 500


def test_a_time_before_the_first_snapshot_is_shown_as_a_time(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", _SCHEMA)
    table.append(pa.table({"id": [1], "dt": ["a"]}))
    with pytest.raises(NotFound) as caught:
        table.scan(timestamp=dt.datetime(2013, 1, 1, tzinfo=dt.UTC))
    first = table.snapshots().column("committed_at")[0].as_py()
    assert "2013-01-01T00:00:00.000Z (1356998400000)" in caught.value.message
    assert first.strftime("%Y-%m-%dT%H:%M:%S.") in caught.value.message
    assert show_time(2**63 - 1) == f"{2**63 - 1} (milliseconds since 1970)"


def test_columns_that_are_there_twice_are_named_alone() -> None:
    with pytest.raises(InvalidArgument, match=r"at character 9 stands 'id INT', expected another name than 'id'"):
        parse_columns("id INT, id INT")


@pytest.mark.parametrize("bucket", ["x", "0", "-2", "70000"])
def test_bucket_shows_its_values(catalog: Catalog, bucket: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"from 1 to 65536, or -1"):
        catalog.create_table("shop.t", _SCHEMA, options={"bucket": bucket})


def test_a_key_that_names_a_column_twice(catalog: Catalog) -> None:
    with pytest.raises(InvalidArgument, match="The primary key names column 'id' twice"):
        catalog.create_table("shop.t", _SCHEMA, primary_key=["id", "id"])


def test_a_lazy_frame_is_to_be_collected(catalog: Catalog) -> None:
    polars = pytest.importorskip("polars")
    table = catalog.create_table("shop.t", _SCHEMA)
    with pytest.raises(InvalidArgument, match=r"LazyFrame.*call \.collect\(\)"):
        table.append(polars.LazyFrame({"id": [1]}))


def test_a_dataset_is_read_by_its_batches(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", _SCHEMA)
    data = pyarrow.dataset.dataset(pa.table({"id": [1], "dt": ["a"]}))
    with pytest.raises(InvalidArgument, match=r"InMemoryDataset.*what its to_batches\(\) returns"):
        table.append(data)
    table.append(data.to_batches())
    assert table.scan().count() == 1


def test_a_forgotten_transaction_warns(catalog: Catalog) -> None:
    catalog.create_table("shop.t", _SCHEMA)
    tx = catalog.transaction()
    tx.table("shop.t").append(pa.table({"id": [1], "dt": ["a"]}))
    with pytest.warns(ResourceWarning, match=r"wrote to shop\.t was neither committed nor given up.*call commit\(\)"):
        del tx
    # Tests fail for any warning: none of these may give one.
    untouched = catalog.transaction()
    untouched.table("shop.t")
    del untouched
    ended = catalog.transaction()
    ended.table("shop.t").append(pa.table({"id": [1], "dt": ["a"]}))
    ended.commit()
    del ended


def test_a_gap_names_the_call_that_returns_the_last_identifier(catalog: Catalog) -> None:
    table = catalog.create_table("shop.t", _SCHEMA)
    with pytest.raises(CommitConflict, match=r"catalog\.last_identifier\('w', 'shop\.t'\)"):
        table.append(pa.table({"id": [1], "dt": ["a"]}), writer="w", identifier=5, previous_identifier=4)


def test_a_query_for_a_column_that_is_not_there_names_the_columns(catalog: Catalog) -> None:
    catalog.create_table("shop.t", _SCHEMA)
    with pytest.raises(InvalidArgument, match=r'"nope" not found in FROM clause\. The columns: shop\.t has id, dt\.'):
        catalog.sql("SELECT nope FROM shop.t")


def test_results_of_statements_are_shown_in_a_line(catalog: Catalog) -> None:
    assert repr(catalog.sql("CREATE TABLE shop.t (id BIGINT, dt STRING)")) == "<sql result: Table shop.t created.>"
    catalog.sql("INSERT INTO shop.t VALUES (1, 'a')")
    assert repr(catalog.sql("SELECT * FROM shop.t")).startswith("<sql result: 1 rows, columns id, dt;")


def test_use_is_refused_where_it_would_change_nothing(catalog: Catalog) -> None:
    with pytest.raises(InvalidArgument, match=r"USE shop would end with this call .*database='shop'.*SqlSession"):
        catalog.sql("USE shop")
    with pytest.raises(InvalidArgument, match=r"no current database.*database='shop' with the statement") as caught:
        catalog.sql("SHOW TABLES")
    assert "say USE" not in caught.value.message
    assert catalog.sql("SHOW TABLES", database="shop").rows is not None


@pytest.mark.parametrize(
    ("value", "caught"),
    [
        (None, "partition has None for column 'dt', which is date32.day. NOT NULL, so that there is no such partition"),
        (1.5, "partition has 1.5 for column 'dt', which is date32.day. NOT NULL and cannot hold it"),
    ],
)
def test_a_partition_that_cannot_be_is_reported_as_the_partitions_value(
    catalog: Catalog, value: Any, caught: str
) -> None:
    schema = pa.schema([pa.field("dt", pa.date32(), nullable=False), ("v", pa.int32())])
    table = catalog.create_table("shop.days", schema, partition_by=["dt"])
    with pytest.raises(InvalidArgument, match=caught) as error:
        table.overwrite(schema.empty_table(), partition={"dt": value})
    assert "row" not in error.value.message


def test_a_table_that_was_dropped_meanwhile_is_called_by_its_name(catalog: Catalog) -> None:
    for name in ("kept", "gone"):
        catalog.create_table(f"shop.{name}", pa.schema([("v", pa.int64())]))
    transaction = catalog.transaction()
    for name in ("kept", "gone"):
        transaction.table(f"shop.{name}").append(pa.table({"v": [1]}))
    catalog.drop_table("shop.gone")
    with pytest.raises(NotFound, match=r"^Table shop\.gone was dropped while it was written to") as error:
        transaction.commit()
    assert error.value.reason == "TABLE_NOT_FOUND"
    assert catalog.table("shop.kept").scan().count() == 0


def test_a_transaction_does_not_travel(catalog: Catalog) -> None:
    with catalog.transaction() as transaction:
        table = transaction.table(catalog.create_table("shop.t", pa.schema([("v", pa.int64())])).name)
        for what in (transaction, table):
            with pytest.raises(InvalidArgument, match="cannot be pickled or copied"):
                pickle.dumps(what)
