"""A lakelog with data, a writer that goes on, and a browser; one of each for a module."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from playwright.sync_api import Browser

import lakelog
from lakelog.errors import LakelogError
from lakelog.sdk.catalog import Catalog
from tests.support.browser import chromium
from tests.support.forked_stack import ForkedStack, forked_stack

HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>\u202e{{7*7}}"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForkedStack]:
    folder: Path = tmp_path_factory.mktemp("console")
    with forked_stack(folder, services=("metastore", "compactor", "console")) as running:
        yield running


@pytest.fixture(scope="module")
def catalog(stack: ForkedStack) -> Iterator[Catalog]:
    with closing(lakelog.connect(stack.target)) as found:
        fill(found)
        yield found


@pytest.fixture(scope="module", autouse=True)
def writer(catalog: Catalog) -> Iterator[None]:
    """Commits all the time, as a real table's writers do."""
    ending = threading.Event()

    def write() -> None:
        table = catalog.table("shop.orders")
        number = 1000
        while not ending.wait(0.3):
            number += 1
            try:
                table.upsert(pa.table({"id": [number], "item": [f"item {number}"], "price": [float(number)]}))
            except LakelogError:
                # A test restarts the metastore.
                continue

    thread = threading.Thread(target=write)
    thread.start()
    yield
    ending.set()
    thread.join()


def fill(catalog: Catalog) -> None:
    """Tables of each kind, with hostile text wherever a user can put some."""
    catalog.create_database("shop", comment=f"A shop {HOSTILE}")
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False), ("item", pa.string()), ("price", pa.float64())])
    orders = catalog.create_table(
        "shop.orders", schema, primary_key=["id"], options={"bucket": "2"}, comment=f"Orders {HOSTILE}"
    )
    for number in range(5):
        ids = list(range(number * 50, number * 50 + 100))
        orders.upsert(
            pa.table({"id": ids, "item": [f"{HOSTILE} {each}" for each in ids], "price": [each / 3 for each in ids]}),
            properties={"note": HOSTILE},
        )
    orders.tags.create("stable", snapshot_id=2)
    orders.delete(pa.table({"id": [1, 2, 3]}))
    with orders.subscribe(consumer_id="dashboard", scan_mode="latest-full") as stream:
        stream.read(10)
    events = catalog.create_table(
        "shop.events", pa.schema([("day", pa.string()), ("n", pa.int64())]), partition_by=["day"]
    )
    for day in ("2026-01-01", "2026-01-02"):
        events.append(pa.table({"day": [day] * 10, "n": list(range(10))}))
    catalog.create_table("shop.empty", pa.schema([("a", pa.int64())]))
