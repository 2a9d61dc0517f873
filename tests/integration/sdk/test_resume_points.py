"""A reader that says where it is, down to the row, goes on exactly there: nothing is lost, doubled or torn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace

import pyarrow as pa
import pytest

from lakelog import AddColumn, RenameColumn
from lakelog.errors import Fenced, InvalidArgument
from lakelog.reads.streams import follow as follow_module
from lakelog.reads.streams.batch import Progress
from lakelog.reads.streams.follow import TablesFollower
from lakelog.reads.streams.open_stream import OpenStream, open_stream
from lakelog.reads.streams.request import ResumePoint, StreamRequest
from lakelog.sdk.catalog import Catalog

from .shop import NUMBERS, make_orders, orders

NAMES = ["shop.orders", "shop.items"]
Row = tuple[str, int, str]


def make_history(catalog: Catalog) -> None:
    keyed = make_orders(catalog, bucket="3")
    appended = catalog.create_table("shop.items", NUMBERS)
    for number in range(4):
        with catalog.transaction() as tx:
            tx.table("shop.orders").upsert(orders(*((n, f"{number}", None) for n in range(number, number + 8))))
            tx.table("shop.items").append(pa.table({"n": range(5), "t": [str(number)] * 5}, NUMBERS))
        # Shows nothing, in either table.
        keyed.overwrite(orders((1, "over", None), (2, "over", None)))
        appended.append(pa.table({"n": [9], "t": ["alone"]}, NUMBERS))
        appended.overwrite(pa.table({"n": [1], "t": ["over"]}, NUMBERS))


def open_at(catalog: Catalog, mode: str, points: Sequence[ResumePoint] = (), consumer: str = "") -> OpenStream:
    options = {"scan.mode": mode}
    if mode == "from-timestamp":
        options["scan.timestamp-millis"] = "0"
    if consumer:
        options["consumer-id"] = consumer
    tables = [catalog.table(name).info for name in NAMES]
    return open_stream(catalog.context, tables, StreamRequest(options), holder="test", points=points)


def follow(stream: OpenStream, until: Sequence[int]) -> Iterator[Progress]:
    reached: dict[str, int] = {}
    with closing(stream.follower.follow()) as changes:  # type: ignore[type-var]
        for progress in changes:
            yield progress
            reached |= {name: at.snapshot_id for name, at in (progress.done or {}).items()}
            if [reached.get(name) for name in NAMES] == list(until):
                break
    stream.follower.close()


def rows_of(progress: Progress) -> list[Row]:
    batch = progress.batch
    if batch is None:
        return []
    return [(batch.table, batch.snapshot_id, repr(list(row.values()))) for row in batch.data.to_pylist()]


def move(points: Sequence[ResumePoint], progress: Progress, row_count: int) -> list[ResumePoint]:
    """Where a reader is that has so many rows of a progress more."""
    moved = []
    for name, point in zip(NAMES, points, strict=True):
        if progress.batch is not None and progress.batch.table == name:
            point = replace(point, received_rows=point.received_rows + row_count)
        is_whole = progress.batch is None or row_count == progress.batch.data.num_rows
        at = (progress.done or {}).get(name) if is_whole else None
        if at is not None:
            point = ResumePoint(
                point.table_uuid, at.snapshot_id, at.snapshot_uuid, epoch=point.epoch, schema_id=point.schema_id
            )
        moved.append(point)
    return moved


@pytest.mark.parametrize("mode", ["latest-full", "from-timestamp"])
@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_from_every_row_on_the_rest_follows(catalog: Catalog, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # Else each of these snapshots is one batch.
    monkeypatch.setattr(follow_module, "_MAX_ROWS", 3)
    make_history(catalog)
    latest = [catalog.table(name).info.latest_snapshot_id for name in NAMES]
    if mode == "latest-full":
        stream = open_at(catalog, mode)
        make_more(catalog)
        latest = [catalog.table(name).info.latest_snapshot_id for name in NAMES]
    else:
        stream = open_at(catalog, mode)
    whole = list(follow(stream, latest))
    expected = [row for progress in whole for row in rows_of(progress)]
    assert len(expected) > 35
    before: list[Row] = []
    points = list(stream.points)
    cuts = 0
    for progress in whole:
        rows = rows_of(progress)
        for count in sorted({0, 1, len(rows) // 2, len(rows)}):
            at = move(points, progress, count)
            rest = [row for each in follow(open_at(catalog, mode, at), latest) for row in rows_of(each)]
            assert before + rows[:count] + rest == expected, f"from {at}"
            cuts += 1
        before += rows
        points = move(points, progress, len(rows))
    assert cuts > 30


@pytest.mark.parametrize("mode", ["latest-full", "from-timestamp"])
@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_who_is_cut_off_again_at_once_goes_on_exactly_there_too(catalog: Catalog, mode: str) -> None:
    make_history(catalog)
    stream = open_at(catalog, mode)
    make_more(catalog)
    latest = [catalog.table(name).info.latest_snapshot_id for name in NAMES]
    whole = list(follow(stream, latest))
    expected = [row for progress in whole for row in rows_of(progress)]
    before: list[Row] = []
    points = list(stream.points)
    for progress in whole[:16]:
        rows = rows_of(progress)
        count = (len(rows) + 1) // 2
        again = points_now = move(points, progress, count)
        seen = before + rows[:count]
        for number in range(3):
            # Whatever it is told first, it hears no more.
            reported = next(follow(open_at(catalog, mode, again), latest))
            taken = rows_of(reported)[: number + 1]
            seen += taken
            again = move(again, reported, len(taken))
        rest = [row for each in follow(open_at(catalog, mode, again), latest) for row in rows_of(each)]
        assert seen + rest == expected, f"from {points_now}"
        before += rows
        points = move(points, progress, len(rows))


def make_more(catalog: Catalog) -> None:
    """Commits that are told together, each of which touches other buckets."""
    for number, keys in enumerate(((7,), range(8), (1, 4), range(8))):
        with catalog.transaction() as tx:
            tx.table("shop.items").append(pa.table({"n": [number], "t": ["more"]}, NUMBERS))
            tx.table("shop.orders").upsert(orders(*((n, f"m{number}", None) for n in keys)))


def test_a_consumer_goes_on_under_its_epoch_or_not_at_all(catalog: Catalog) -> None:
    make_history(catalog)
    first = open_at(catalog, "from-timestamp", consumer="etl")
    assert all(point.epoch > 0 for point in first.points)
    again = open_at(catalog, "from-timestamp", first.points, consumer="etl")
    done = next(progress.done for progress in follow(again, [-1, -1]) if progress.done and progress.batch)
    again.keep(done)
    assert catalog.table("shop.items").consumers.list().column("snapshot_id").to_pylist() == [1]
    assert open_at(catalog, "latest", first.points, consumer="etl").positions["shop.items"].snapshot_id == 1
    open_at(catalog, "latest", consumer="etl")
    with pytest.raises(Fenced, match="is read by 'test' by now, so this reader does not go on with it"):
        open_at(catalog, "latest", first.points, consumer="etl")
    catalog.table("shop.orders").consumers.delete("etl")
    with pytest.raises(Fenced, match="was deleted, so"):
        open_at(catalog, "latest", first.points, consumer="etl")


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_control_without_leaving_out_what_was_received_rows_come_twice(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_history(catalog)
    latest = [catalog.table(name).info.latest_snapshot_id for name in NAMES]
    stream = open_at(catalog, "from-timestamp")
    whole = list(follow(stream, latest))
    first = next(progress for progress in whole if progress.batch is not None)
    at = move(stream.points, first, 1)
    expected = [row for progress in whole for row in rows_of(progress)]
    rest = [row for each in follow(open_at(catalog, "from-timestamp", at), latest) for row in rows_of(each)]
    assert expected[:1] + rest == expected
    monkeypatch.setattr(TablesFollower, "_without_received", lambda self, uuid, batches: batches)
    rest = [row for each in follow(open_at(catalog, "from-timestamp", at), latest) for row in rows_of(each)]
    assert rest == expected


def test_a_reader_goes_on_with_the_columns_that_it_began_with(catalog: Catalog) -> None:
    make_history(catalog)
    begun = open_at(catalog, "latest")
    begun.follower.close()
    for name in NAMES:
        catalog.table(name).alter(columns=[AddColumn("added", pa.int32(), first=True)])
    catalog.table(NAMES[1]).alter(columns=[RenameColumn("t", "text")])
    row = pa.table({"id": pa.array([1], pa.int32()), "name": ["a"]})
    catalog.table(NAMES[0]).upsert(row, fill_missing=True)
    catalog.table(NAMES[1]).append(pa.table({"n": [1], "text": ["a"]}), fill_missing=True)
    latest = [catalog.table(name).info.latest_snapshot_id for name in NAMES]

    def show(points: Sequence[ResumePoint]) -> dict[str, list[str]]:
        found = (progress.batch for progress in follow(open_at(catalog, "latest", points), latest))
        return {batch.table: batch.data.schema.names for batch in found if batch is not None}

    assert show(begun.points) == {NAMES[0]: ["id", "name", "price", "_row_kind"], NAMES[1]: ["n", "t"]}
    without = [replace(point, schema_id=None) for point in begun.points]
    assert show(without) == {
        NAMES[0]: ["added", "id", "name", "price", "_row_kind"],
        NAMES[1]: ["added", "n", "text"],
    }
    with pytest.raises(InvalidArgument, match="has no schema 7"):
        open_at(catalog, "latest", [replace(point, schema_id=7) for point in begun.points])
