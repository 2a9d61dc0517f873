"""A metastore in this process with some tables, for the command over a real connection."""

from __future__ import annotations

import datetime as dt
import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import structlog

import lakelog
from lakelog.cli.app import run
from metastore.jobs.due_work import WorkPlanner
from metastore.use_cases import UseCases
from tests.support.log_settings import forget_first_use
from tests.support.metastore.serving import serving

HOSTILE = "a,\"b\"\nc\r\x1b[31m\u2028 - : {x} \u202eé 'q' #1"
"""A text that each format must quote in its own way."""
_PARTS = pa.list_(pa.struct([("item", pa.string()), ("count", pa.int32())]))
_ORDERS = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("item", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("quantity", pa.int32()),
        ("customer", pa.int64()),
        ("dt", pa.date32()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("weight", pa.float64()),
        ("raw", pa.binary()),
    ]
)
_NO_PLANNERS: tuple[WorkPlanner, ...] = ()


@dataclass
class Outcome:
    code: int
    out: str
    err: str


@dataclass
class Lake:
    target: str
    folder: Path

    def run(self, *words: str, typed: str = "") -> Outcome:
        """Runs the command; `typed` is on its standard input."""
        out, err, before = io.StringIO(), io.StringIO(), sys.stdin
        sys.stdin = io.TextIOWrapper(io.BytesIO(typed.encode()))
        try:
            with redirect_stdout(out), redirect_stderr(err):
                code = run(["--target", self.target, *words])
        finally:
            sys.stdin = before
        return Outcome(int(code), out.getvalue(), err.getvalue())


@contextmanager
def open_lake(folder: Path) -> Iterator[Lake]:
    """Serves a metastore in memory for the length of the block, with the tables that examples of the help name."""
    # The metastore's log would stand in the output of the command, which runs in the same process.
    forget_first_use()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        with _serving(folder) as lake:
            yield lake
    finally:
        structlog.reset_defaults()


@contextmanager
def _serving(folder: Path) -> Iterator[Lake]:
    with serving(None, lambda store: UseCases(store, f"file://{folder}/warehouse/", planners=_NO_PLANNERS)) as target:
        _fill(target)
        _write_files(folder)
        yield Lake(target, folder)


def _fill(target: str) -> None:
    with lakelog.connect(target) as catalog:
        catalog.create_database("shop", comment="what, 'we' sell")
        options = {"bucket": "2", "changelog-producer": "input"}
        orders = catalog.create_table("shop.orders", _ORDERS, primary_key=["id"], options=options)
        for start in (0, 3, 6, 9, 12, 15, 18, 21):
            rows = [_order(i) for i in range(start, start + 3)]
            orders.upsert(pa.Table.from_pylist(rows, _ORDERS))
        orders.tags.create("release-1", 1)
        with catalog.subscribe(["shop.orders"], "latest", "etl"):
            pass
        visits = catalog.create_table(
            "shop.visits",
            pa.schema([("day", pa.date32()), ("path", pa.string())]),
            partition_by=["day"],
            options={"partition.expiration-time": "30 d", "partition.timestamp-formatter": "yyyy-MM-dd"},
        )
        visits.append(pa.table({"day": [dt.date(2013, 1, 1), dt.date(2024, 5, 1)], "path": ["/", "/cart"]}))
        baskets = catalog.create_table("shop.baskets", pa.schema([("id", pa.int64()), ("of", _PARTS)]))
        parts = [None, [], [{"item": HOSTILE, "count": None}, {"item": "", "count": 2}]]
        baskets.append(pa.table({"id": [1, 2, 3], "of": pa.array(parts, _PARTS)}))
        catalog.create_table("shop.items", pa.schema([("id", pa.int64()), ("name", pa.string())]))
        catalog.grants.grant("reader", "shop.orders", "ann")


def _order(number: int) -> dict[str, object]:
    is_empty = number == 3
    return {
        "id": number,
        "item": None if is_empty else HOSTILE if number == 4 else "" if number == 5 else f"item {number}",
        "price": None if is_empty else Decimal(f"{number}.50"),
        "quantity": number,
        "customer": 17,
        "dt": None if is_empty else dt.date(2024, 1, 1 + number % 28),
        "at": dt.datetime(2024, 1, 1, 10, number % 60, tzinfo=dt.UTC),
        "weight": float("nan") if number == 6 else number / 3,
        "raw": b"\x00\xff" if number == 7 else None,
    }


def _write_files(folder: Path) -> None:
    (folder / "orders.csv").write_text("id,item,price,quantity,customer,dt,at,weight,raw\n901,tea,1.5,1,1,,,,\n")
    columns = '"item": "tea", "price": null, "quantity": 1, "customer": 1, "dt": null, "at": null, "weight": null'
    (folder / "orders.json").write_text(f'{{"id": 902, {columns}, "raw": null}}\n')
    for name, number in (("exports/a.csv", 903), ("more/2024-a.csv", 904)):
        (folder / name).parent.mkdir()
        (folder / name).write_text(f"id,item,price,quantity,customer,dt,at,weight,raw\n{number},tea,1.5,1,1,,,,\n")
    pq.write_table(pa.Table.from_pylist([_order(905)], _ORDERS), folder / "more/2024-b.parquet")
    pq.write_table(pa.table({"day": [dt.date(2024, 5, 1)], "path": ["/"]}), folder / "visits.parquet")
    (folder / "tables.sql").write_text("SHOW TABLES;\n")
