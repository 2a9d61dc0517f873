"""What the SDK says to arguments of a type, or of a size, that they cannot have: argument, value and remedy."""

from __future__ import annotations

import functools
from typing import Any

import pyarrow as pa
import pytest

from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table

from .refusing import KEYED, refused

ROWS = pa.table({"id": [1], "name": ["a"], "n": pa.array([1], pa.int32())})
LARGEST = str(2**63 - 1)


@pytest.mark.parametrize("value", [b"x", 5, None, ["x"]])
def test_what_is_no_text_is_named_with_an_example(catalog: Catalog, orders: Table, value: Any) -> None:
    shown = repr(value)
    refused(lambda: orders.consumers.delete(value), f"consumer_id={shown} is no text", "in quotes", "'reports'")
    refused(lambda: orders.consumers.reset(value, 1), f"consumer_id={shown} is no text")
    refused(lambda: catalog.create_database(value), f"name={shown} is no text")
    refused(lambda: catalog.create_database("other", comment=value), f"comment={shown} is no text")
    refused(lambda: catalog.create_table("shop.t", KEYED, comment=value), f"comment={shown} is no text")
    refused(lambda: catalog.drop_database(value), f"name={shown} is no text")
    refused(lambda: catalog.tables(value), f"database={shown} is no text")
    refused(lambda: catalog.register_writer(value), f"writer={shown} is no text")
    refused(lambda: catalog.last_identifier(value, "shop.orders"), f"writer={shown} is no text")
    refused(lambda: catalog.sql(value), f"statement={shown} is no text")
    if value is not None:
        refused(lambda: catalog.sql("SHOW TABLES", database=value), f"database={shown} is no text")


@pytest.mark.parametrize("value", ["no", "false", 1, 0, None, []])
def test_what_is_neither_true_nor_false_is_named(catalog: Catalog, orders: Table, value: Any) -> None:

    def refused_flag(name: str, call: Any) -> None:
        refused(call, f"{name}={value!r} is neither True nor False. Give one of them.")

    refused_flag("auto_commit", lambda: orders.subscribe(consumer_id="etl", auto_commit=value))
    refused_flag("auto_commit", lambda: catalog.subscribe(["shop.orders"], consumer_id="etl", auto_commit=value))
    assert orders.consumers.list().num_rows == 0, "nobody is fenced by a subscription that cannot be"
    refused_flag("raw", lambda: orders.changes(raw=value))
    refused_flag("allow_empty", lambda: orders.upsert(ROWS, allow_empty=value))
    refused_flag("allow_empty", lambda: catalog.transaction(allow_empty=value))
    refused_flag("if_not_exists", lambda: catalog.create_database("shop", if_not_exists=value))
    refused_flag("if_not_exists", lambda: catalog.create_table("shop.orders", KEYED, if_not_exists=value))
    refused_flag("if_exists", lambda: catalog.drop_database("nothing", if_exists=value))
    refused_flag("cascade", lambda: catalog.drop_database("shop", cascade=value))
    refused_flag("if_exists", lambda: catalog.drop_table("shop.nothing", if_exists=value))
    assert catalog.tables("shop") == ["orders"]
    assert orders.snapshots().num_rows == 0


@pytest.mark.parametrize("value", [b"x", 5, None, {"a": 1}])
def test_what_is_no_list_is_named(catalog: Catalog, orders: Table, value: Any) -> None:
    refused(lambda: catalog.subscribe(value), f"tables={value!r} is no list of table names: give one")
    refused(lambda: orders.alter(unset=value), f"unset={value!r} is no list of keys: give one")
    refused(lambda: orders.alter(unset=[value]), f"unset=[{value!r}] is no list of keys: give one, of texts")
    for name in ("primary_key", "partition_by"):

        def make(names: Any, name: str = name) -> None:
            arguments: dict[str, Any] = {name: names}
            catalog.create_table("shop.t", KEYED, **arguments)

        refused(functools.partial(make, value), f"{name}={value!r} is no list of column names: give one")
        refused(functools.partial(make, [value]), f"{name}=[{value!r}] is no list of column names: give one, of texts")
        refused(functools.partial(make, "id"), f"{name}='id' is one text: give a list of column names", "['id']")


def test_numbers_of_commits_beyond_what_is_kept_are_named(orders: Table) -> None:
    refused(lambda: orders.upsert(ROWS, writer="w", identifier=2**63), f"identifier={2**63}", LARGEST)
    refused(
        lambda: orders.upsert(ROWS, writer="w", identifier=1, previous_identifier=2**63),
        f"previous_identifier={2**63}",
        LARGEST,
    )
    refused(lambda: orders.upsert(ROWS, watermark=2**63), f"watermark={2**63}", "milliseconds", LARGEST)


def test_snapshot_ids_and_times_beyond_what_is_kept_are_named(orders: Table) -> None:
    refused(lambda: orders.consumers.reset("etl", 2**63), f"snapshot_id={2**63}", "0 or more", LARGEST)
    refused(lambda: orders.changes(until=2**63), f"until={2**63}", "0 or more", LARGEST)
    refused(lambda: orders.scan(snapshot_id=2**63), f"snapshot_id={2**63}", "from 1", LARGEST)
    refused(lambda: orders.files(2**63), f"snapshot_id={2**63}", "from 1", LARGEST)
    refused(lambda: orders.scan(timestamp=2**63), f"timestamp={2**63}", "milliseconds", LARGEST)
