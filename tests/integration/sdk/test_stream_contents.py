"""Subscriptions: which rows and columns they show, in which batches, and positions kept elsewhere."""

from __future__ import annotations

import contextlib
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.sdk.catalog import Catalog

from .shop import make_orders, orders
from .streaming import WAIT_S, is_silent, make_appended, make_history, rows


def test_the_kind_comes_last_named_or_not(catalog: Catalog) -> None:
    table = make_history(catalog)
    shown = []
    for columns in (["name"], ["_row_kind", "name"], ["name", "_row_kind"]):
        for mode in ("latest-full", "from-snapshot-full"):
            options = {"scan.snapshot-id": 2} if mode == "from-snapshot-full" else {}
            with table.subscribe(mode, options=options, columns=columns) as stream:
                batch = stream.read(WAIT_S)
                assert batch is not None
                assert batch.data.schema.names == ["name", "_row_kind"]
                shown.append((mode, batch.data.to_pylist()))
    assert shown[:2] == shown[2:4] == shown[4:]
    append = catalog.create_table("shop.plain", pa.schema([("n", pa.int64())]))
    with pytest.raises(InvalidArgument, match="has no column '_row_kind'"):
        append.subscribe(columns=["n", "_row_kind"])


def test_overwrites_that_are_not_shown_are_counted_and_logged(
    catalog: Catalog, caplog: pytest.LogCaptureFixture
) -> None:
    table = make_history(catalog)
    for number in range(7):
        table.overwrite(orders((number, "x", None)))
    table.upsert(orders((9, "m", None)))
    with table.subscribe(options={"scan.snapshot-id": 4}) as stream:
        assert rows(stream, 1) == [(11, "+I", 9, "m")]
        assert stream.metrics.snapshots_skipped == 7
    reported = " ".join(record.getMessage() for record in caplog.records)
    assert f"{table.name}: snapshot" in reported
    assert (
        "overwrote rows; what was replaced, and by what, is not shown. 'streaming-read-overwrite' = 'true'" in reported
    )
    caplog.clear()
    with table.subscribe(options={"scan.snapshot-id": 9, "streaming-read-overwrite": "true"}) as stream:
        rows(stream, 5)
        assert stream.metrics.snapshots_skipped == 0
    assert not caplog.records
    assert table.changes(9, 10).metrics.snapshots_skipped == 1


@pytest.mark.parametrize("kind", ["append", "keyed"])
def test_rows_of_many_small_files_come_in_few_batches(catalog: Catalog, kind: str) -> None:
    table = make_appended(catalog) if kind == "append" else make_orders(catalog, bucket="2")
    for number in range(30):
        write = table.append if kind == "append" else table.upsert
        write(orders(*((n, f"{number}", None) for n in range(number, number + 3))))
    with table.subscribe("latest-full") as stream:
        found = [stream.read(WAIT_S), *iter(lambda: stream.read(0.5), None)]
    assert len(found) <= 2
    assert sum(each.data.num_rows for each in found if each) == (90 if kind == "append" else 32)


def test_overwrites_are_shown_as_a_difference_when_asked_for(catalog: Catalog) -> None:
    table = make_history(catalog)
    table.overwrite(orders((2, "x", None), (4, "n", None)))
    table.upsert(orders((4, "m", None)))
    expected = [(5, "-U", 4, "n"), (5, "+U", 4, "m")]
    with table.subscribe(options={"scan.snapshot-id": 4}) as stream:
        assert rows(stream, 2) == expected
    table.alter(set={"streaming-read-overwrite": "true"})
    with table.subscribe(options={"scan.snapshot-id": 4}) as stream:
        assert rows(stream, 5) == [(4, "-U", 2, "B"), (4, "+U", 2, "x"), (4, "+I", 4, "n"), *expected]
    assert table.changes(3, 4).count() == 3
    with table.subscribe(options={"scan.snapshot-id": 4, "streaming-read-overwrite": "false"}) as stream:
        assert rows(stream, 2) == expected


def test_raw_rows_columns_and_filters(catalog: Catalog) -> None:
    table = make_history(catalog)
    with table.subscribe(options={"scan.snapshot-id": 3, "scan.remove-normalize": "true"}) as stream:
        assert rows(stream, 1) == [(3, "-D", 1, None)]
    with table.subscribe(options={"scan.snapshot-id": 1}, columns=["name"], filter="id = 2") as stream:
        first = stream.read(WAIT_S)
        assert first is not None
        assert first.data.to_pylist() == [{"name": "b", "_row_kind": "+I"}]
        assert first.table == table.name
        second = stream.read(WAIT_S)
        assert second is not None
        assert [row["name"] for row in second.data.to_pylist()] == ["b", "B"]
        assert is_silent(stream)
        assert stream.position == 3


def test_results_saved_with_their_position_have_each_change_once(catalog: Catalog) -> None:
    """The recipe of docs/streams.md, killed at each of its steps."""
    table = make_history(catalog)
    saved: list[tuple[list[tuple[Any, ...]], int]] = []

    def run(dies_at: int) -> None:
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1
            if steps == dies_at:
                raise InterruptedError

        if saved:
            table.consumers.reset("etl", saved[-1][1])
        found: list[tuple[Any, ...]] = []
        with table.subscribe(consumer_id="etl", auto_commit=False) as stream:
            while (batch := stream.read(0.5)) is not None:
                found += [(batch.snapshot_id, *row.values()) for row in batch.data.to_pylist()]
                step()
                if stream.is_whole:
                    saved.append((found, batch.snapshot_id))
                    step()
                    stream.commit()
                    found = []
                    step()

    for dies_at in (1, 2, 3, 1, 2, 4, 5, 6, 99):
        table.upsert(orders((10 + dies_at, f"at {dies_at}", None)))
        with contextlib.suppress(InterruptedError):
            run(dies_at)
    rows_of_all = [row for each, _ in saved for row in each]
    state: dict[int, Any] = {}
    for _, number, name, *_, kind in rows_of_all:
        if kind in ("+I", "+U"):
            state[number] = name
        else:
            assert state.pop(number) == name, "each old row is one that was there"
    assert state == {row["id"]: row["name"] for row in table.scan().to_arrow().to_pylist()}
    positions = [at for _, at in saved]
    assert positions == sorted(set(positions))
