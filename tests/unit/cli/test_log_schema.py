"""`lakelog log schema`."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pyarrow as pa
import pytest

from lakelog.errors import NotFound
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.schema import TableSchema, assign_field_ids
from tests.unit.cli.fakes import Lake

SCHEMA = TableSchema(
    0,
    assign_field_ids(pa.schema([pa.field("id", pa.int64(), nullable=False), ("price", pa.decimal128(10, 2))])),
    ("id",),
)


def use(lake: Lake, monkeypatch: pytest.MonkeyPatch, options: Mapping[str, str], schema: TableSchema = SCHEMA) -> None:
    info = TableInfo("a" * 32, TableName("shop", "orders"), "file:///x/", schema, options, 0, 0)
    monkeypatch.setattr(lake.metastore, "get_table_by_uuid", lambda uuid: info, raising=False)
    monkeypatch.setattr(lake.metastore, "get_log", lambda uuid: None, raising=False)
    monkeypatch.setattr(lake.table, "name", "shop.orders", raising=False)


def test_schemas_of_values_and_keys_are_printed(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    use(lake, monkeypatch, {"log.system": "kafka", "log.format": "avro", "log.key.format": "avro"})
    value = json.loads(lake.run("log", "schema", "shop.orders").out)
    assert value["fields"] == [
        {"name": "id", "type": "long"},
        {"name": "price", "type": ["null", "string"], "default": None},
    ]
    assert json.loads(lake.run("log", "schema", "shop.orders", "--key").out)["fields"] == value["fields"][:1]


def test_where_there_is_no_avro_it_says_so(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    use(lake, monkeypatch, {"log.system": "kafka", "log.format": "json"})
    for arguments in ((), ("--key",)):
        shown = lake.run("log", "schema", "shop.orders", *arguments)
        assert shown.code != 0
        assert "format' = 'json'" in shown.err
    use(lake, monkeypatch, {"log.system": "kafka", "log.key.format": "avro"}, TableSchema(0, SCHEMA.arrow))
    assert "no primary key" in lake.run("log", "schema", "shop.orders", "--key").err


def test_a_table_without_a_log_has_no_schema_of_it(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    use(lake, monkeypatch, {})

    def get_log(uuid: str) -> None:
        raise NotFound("Table shop.orders has no log.", reason="LOG_NOT_FOUND")

    monkeypatch.setattr(lake.metastore, "get_log", get_log, raising=False)
    shown = lake.run("log", "schema", "shop.orders")
    assert shown.code == 3
    assert "has no log" in shown.err
