from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import AlreadyExists, InvalidArgument, NotFound
from lakelog.format.tables.table import DatabaseInfo, TableName
from lakelog.options.value_types import Duration
from tests.support.metastore.making import SCHEMA, append, make_table


def test_databases_are_made_listed_and_dropped(metastore: Metastore) -> None:
    assert metastore.create_database("shop", comment="orders and items")
    assert not metastore.create_database("shop", if_not_exists=True)
    metastore.create_database("archive")
    orders, _ = metastore.create_table(TableName("shop", "orders"), SCHEMA)
    assert metastore.list_databases() == [
        DatabaseInfo("archive", "", 0, 0),
        DatabaseInfo("shop", "orders and items", 1, 0),
    ]
    append(metastore, orders, 1)
    append(metastore, orders, 2, names="bc")
    newest = metastore.list_snapshots(orders.table_uuid).snapshots[-1]
    assert metastore.list_databases()[1].size_bytes == newest.total_bytes > 0
    assert metastore.drop_database("archive")
    assert not metastore.drop_database("archive", if_exists=True)
    assert [database.name for database in metastore.list_databases()] == ["shop"]


def test_a_taken_database_name_is_refused(metastore: Metastore) -> None:
    metastore.create_database("shop")
    with pytest.raises(AlreadyExists, match="Database 'shop' exists already"):
        metastore.create_database("shop")


def test_a_database_with_tables_is_dropped_only_with_cascade(metastore: Metastore) -> None:
    table = make_table(metastore)
    with pytest.raises(InvalidArgument, match=r"has the table 'orders_\d+'\. .*cascade"):
        metastore.drop_database("shop")
    assert metastore.drop_database("shop", cascade=True)
    assert metastore.list_databases() == []
    with pytest.raises(NotFound):
        metastore.get_table_by_uuid(table.table_uuid)


def test_unknown_databases_are_named_with_the_nearest(metastore: Metastore) -> None:
    metastore.create_database("shopping")
    with pytest.raises(NotFound, match=r"Database 'shoping' does not exist. The nearest name is 'shopping'"):
        metastore.drop_database("shoping")
    with pytest.raises(NotFound, match="There is 'shopping'"):
        metastore.list_tables("zzz")
    with pytest.raises(NotFound, match="Database 'nowhere' does not exist"):
        metastore.create_table(TableName("nowhere", "t"), SCHEMA)


def test_a_table_has_ids_canonical_types_and_a_location_of_its_own(metastore: Metastore) -> None:
    metastore.create_database("shop")
    schema = pa.schema(
        [
            pa.field("id", pa.int32(), metadata={b"comment": b"the number", b"pandas": b"x"}),
            pa.field("tags", pa.large_list(pa.large_string())),
            pa.field("place", pa.struct([("lat", pa.float64()), ("lon", pa.float64())])),
        ],
        metadata={b"pandas": b"{}"},
    )
    table, created = metastore.create_table(
        TableName("shop", "orders"), schema, primary_key=["id"], options={"bucket": "3"}, comment="all of them"
    )
    assert created
    assert table.location.endswith(f"/{table.table_uuid}/")
    assert table.latest_snapshot_id == 0
    assert table.created_at_ms > 1_700_000_000_000
    assert table.comment == "all of them"
    assert dict(table.options) == {"bucket": "3"}
    assert table.schema.primary_key == ("id",)
    assert table.schema.field_ids == {"id": 1, "tags": 2, "place": 4}
    assert not table.schema.arrow.field("id").nullable
    assert table.schema.arrow.field("id").metadata == {b"PARQUET:field_id": b"1", b"comment": b"the number"}
    assert table.schema.arrow.field("tags").type.value_type == pa.string()
    assert table.schema.arrow.metadata is None
    assert metastore.get_table(TableName("shop", "orders")) == table
    assert metastore.get_table_by_uuid(table.table_uuid) == table
    assert metastore.list_schemas(table.table_uuid) == [table.schema]
    assert metastore.list_tables("shop") == ["orders"]


def test_a_taken_table_name_is_refused_or_answered_as_it_is(metastore: Metastore) -> None:
    table = make_table(metastore)
    with pytest.raises(AlreadyExists, match=f"Table '{table.name}' exists already"):
        metastore.create_table(table.name, SCHEMA)
    found, created = metastore.create_table(table.name, pa.schema([("other", pa.int8())]), if_not_exists=True)
    assert not created
    assert found == table


def test_unknown_tables_are_named_with_the_nearest(metastore: Metastore) -> None:
    table = make_table(metastore)
    with pytest.raises(NotFound, match=f"The nearest name is '{table.name.name}'"):
        metastore.get_table(TableName("shop", table.name.name.upper() + "x"))
    with pytest.raises(NotFound, match=f"There is '{table.name.name}'"):
        metastore.drop_table(TableName("shop", "zzz"))
    metastore.create_database("empty")
    with pytest.raises(NotFound, match="Database 'empty' has no tables"):
        metastore.get_table(TableName("empty", "zzz"))
    with pytest.raises(NotFound, match=r"Database 'shoq' does not exist. The nearest name is 'shop'"):
        metastore.get_table(TableName("shoq", "zzz"))
    with pytest.raises(NotFound, match="Look the table up by its name again"):
        metastore.get_table_by_uuid("0" * 32)


def test_a_dropped_table_is_gone_and_its_name_is_free(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    assert metastore.drop_table(table.name)
    assert not metastore.drop_table(table.name, if_exists=True)
    for look in (
        lambda: metastore.get_table_by_uuid(table.table_uuid),
        lambda: metastore.list_schemas(table.table_uuid),
        lambda: metastore.list_snapshots(table.table_uuid),
        lambda: metastore.get_writer_progress("w", table.table_uuid),
        lambda: metastore.stage_attempt([table.table_uuid], "w"),
        lambda: metastore.alter_table(table.table_uuid, set_options={}, unset_options=[]),
    ):
        with pytest.raises(NotFound, match=table.table_uuid) as error:
            look()
        assert error.value.reason == "TABLE_NOT_FOUND"
    again, created = metastore.create_table(table.name, SCHEMA)
    assert created
    assert again.table_uuid != table.table_uuid
    assert again.location != table.location
    assert again.latest_snapshot_id == 0


def test_options_are_altered_where_they_may_be(metastore: Metastore) -> None:
    table = make_table(metastore)
    altered = metastore.alter_table(
        table.table_uuid, set_options={"target-file-size": "64 mb"}, unset_options=["write-buffer-size"]
    )
    assert dict(altered.options) == {"bucket": "4", "target-file-size": "64 mb"}
    assert metastore.get_table(table.name) == altered
    back = metastore.alter_table(table.table_uuid, set_options={}, unset_options=["target-file-size"])
    assert dict(back.options) == {"bucket": "4"}
    with pytest.raises(InvalidArgument, match="'bucket' cannot change"):
        metastore.alter_table(table.table_uuid, set_options={"bucket": "8"}, unset_options=[])
    with pytest.raises(InvalidArgument, match="target-file-size"):
        metastore.alter_table(table.table_uuid, set_options={"target-file-sise": "1"}, unset_options=[])
    assert metastore.get_table(table.name) == back


def test_a_duration_without_a_unit_is_refused_and_kept_where_it_is(
    metastore: Metastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = {"snapshot.time-retained": "3600"}
    with monkeypatch.context() as earlier_version:
        earlier_version.setattr(Duration, "check_new", lambda *_: None)
        old = make_table(metastore, options=bare)
    altered = metastore.alter_table(old.table_uuid, set_options={"target-file-size": "64 mb"}, unset_options=[])
    assert altered.options["snapshot.time-retained"] == "3600"
    new = {"snapshot.time-retained": "7200"}
    with pytest.raises(InvalidArgument, match=r"'snapshot.time-retained' = '7200' is.*'7200 s'.*'7200 ms'"):
        metastore.alter_table(old.table_uuid, set_options=new, unset_options=[])
    with pytest.raises(InvalidArgument, match=r"'snapshot.time-retained' = '3600' is.*'3600 s'.*'3600 ms'"):
        make_table(metastore, options=bare)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"schema": pa.schema([("a", pa.uint64())])}, "Column 'a' has type uint64"),
        ({"schema": pa.schema([])}, "no columns"),
        ({"schema": pa.schema([("a", pa.int8()), ("a", pa.int8())])}, "more than once: 'a'"),
        ({"schema": pa.schema([("_row_kind", pa.string())])}, "_row_kind"),
        ({"primary_key": ["nope"]}, "'nope'"),
        ({"primary_key": ["v"]}, "Key column 'v' has type double"),
        ({"primary_key": ["id"], "partition_by": ["day"]}, "lacks the partition column 'day'"),
        ({"options": {"bukket": "4"}}, "bukket.*'bucket'"),
        ({"options": {"bucket": "0"}, "primary_key": ["id"]}, "bucket"),
        ({"name": TableName("shop", "a-b")}, r"The name of the table is 'a-b'. Use a letter"),
        ({"name": TableName("shop", "x" * 129)}, "128 characters"),
        ({"name": TableName("shop", 'x"; DROP TABLE snapshot; --')}, "Use a letter"),
        ({"comment": "x" * 4097}, "comment"),
        ({"schema": pa.schema([("x\x00y", pa.int8())])}, r"U\+0000"),
        ({"schema": pa.schema([(f"c{n}", pa.int8()) for n in range(10_001)])}, "10001 fields"),
    ],
)
def test_bad_tables_are_refused(metastore: Metastore, arguments: dict[str, object], message: str) -> None:
    metastore.create_database("shop")
    given = {"name": TableName("shop", "t"), "schema": SCHEMA, **arguments}
    with pytest.raises(InvalidArgument, match=message):
        metastore.create_table(given.pop("name"), given.pop("schema"), **given)
    assert metastore.list_tables("shop") == []


def test_a_wide_table_is_no_trouble(metastore: Metastore) -> None:
    metastore.create_database("shop")
    schema = pa.schema([(f"column_{n}", pa.string()) for n in range(5000)])
    table, _ = metastore.create_table(TableName("shop", "wide"), schema)
    assert metastore.get_table(table.name).schema.arrow.names == schema.names


@pytest.mark.parametrize("name", ["", "1a", "a b", "ą", "x" * 129, "a\n", "../x"])
def test_bad_database_names_are_refused(metastore: Metastore, name: str) -> None:
    for refuse in (metastore.create_database, metastore.drop_database, metastore.list_tables):
        with pytest.raises(InvalidArgument, match="Use a letter or '_' first"):
            refuse(name)
