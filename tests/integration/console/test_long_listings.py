"""Long listings page by page: each row once and in order, also while writers go on."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pyarrow as pa
import pytest

from console.pages import grants, pipelines
from console.pages.page import PageRequest, PageSettings
from console.pages.streams_and_logs import all_logs
from console.pages.tables import files, partitions
from console.pages.tables.options import list_set_options
from console.pages.tables.snapshots import history, snapshots
from lakelog import AddColumn
from lakelog.clock import SystemClock
from lakelog.format.jobs.work import Pipeline
from lakelog.sdk.tables.table import Table
from tests.support.console import Console
from tests.support.log.log_world import World


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    world = World(tmp_path_factory.mktemp("paged"))
    yield world
    world.close()


@pytest.fixture(scope="module")
def console(world: World) -> Console:
    return Console(lambda _: world.catalog)


@pytest.fixture(scope="module")
def days(world: World) -> Table:
    """Five partitions with a file each, and as many snapshots."""
    schema = pa.schema([("day", pa.int64()), ("n", pa.int64())])
    table = world.catalog.create_table("shop.days", schema, partition_by=["day"])
    for day in range(5):
        table.append([{"day": day, "n": day}])
    return table


def read_next(console: Console, address: str, part: str) -> tuple[list[Any], str | None]:
    """The rows of a page, and the address of the next one."""
    rows = console.json(address)[part]
    more = re.search(rf'rel="next" href="(\?[^"#]*)#{part}"', console.get(address).text)
    return rows, None if more is None else address.partition("?")[0] + more[1].replace("&amp;", "&")


def read_all(console: Console, address: str, part: str) -> list[Any]:
    found: list[Any] = []
    following: str | None = address
    for _ in range(20):
        if following is None:
            break
        rows, following = read_next(console, following, part)
        found += rows
    return found


def test_files_and_partitions(console: Console, days: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "PAGE_ROWS", 2)
    monkeypatch.setattr(partitions, "PAGE_ROWS", 2)
    every = days.files()["path"].to_pylist()
    assert [each["path"] for each in read_all(console, "/tables/shop/days/files", "files")] == every
    found = read_all(console, "/tables/shop/days/files?partitions=yes", "partitions")
    assert [each["partition"] for each in found] == [f"day={day}" for day in range(5)]


def test_snapshots_while_a_writer_goes_on(console: Console, days: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "PAGE_ROWS", 2)
    seen: list[int] = []
    following: str | None = "/tables/shop/days/snapshots"
    while following is not None:
        rows, following = read_next(console, following, "snapshots")
        seen += [each["id"] for each in rows]
        days.append([{"day": 1, "n": 1}])
    assert seen == list(range(seen[0], 0, -1))


def test_versions_of_a_schema(world: World, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "PAGE_ROWS", 2)
    table = world.catalog.create_table("shop.altered", pa.schema([("id", pa.int64())]))
    for number in range(4):
        table.alter(columns=[AddColumn(f"c{number}", pa.int64())])
    found = read_all(console, "/tables/shop/altered/history", "versions")
    assert [each["schema_id"] for each in found] == [4, 3, 2, 1, 0]


def test_logs_of_all_tables(world: World, console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(all_logs, "_LOG_ROWS", 2)
    for number in range(5):
        world.catalog.create_table(
            f"shop.logged_{number}", pa.schema([("id", pa.int64())]), options={"log.system": "kafka"}
        )
    found = read_all(console, "/streams", "logs")
    assert [each["table"] for each in found] == [f"shop.logged_{number}" for number in range(5)]


def test_pipelines(console: Console, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipelines, "PAGE_ROWS", 2)
    some = [
        Pipeline(f"p{n}", "shop.days", "s", "running", None, "", None, 0, 0, "", holder="h") for n in (3, 1, 4, 0, 2)
    ]
    monkeypatch.setattr(pipelines, "_load", lambda _: [pipelines.show_pipeline(each, 0) for each in some])
    found = read_all(console, "/pipelines", "pipelines")
    assert [each["name"] for each in found] == ["p0", "p1", "p2", "p3", "p4"]


def test_grants(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "PAGE_ROWS", 2)
    one = {"principal": "ann", "level": "owner", "granted_by": "", "granted_at": None, "uuid": "", "dropped_at": None}
    held = pa.Table.from_pylist([{"scope": f"shop.t{number}", **one} for number in range(5)])

    def read(query: Mapping[str, str]) -> tuple[list[str], str | None]:
        settings = PageSettings("", actions=False, max_query_rows=1, query_seconds=1.0)
        request = PageRequest(cast(Any, None), {}, query, SystemClock(), settings)
        found = grants._to_listing("own", "", held, request, "")
        return [row["scope"] for row in found.rows], found.next_query

    assert read({}) == (["shop.t0", "shop.t1"], "own_after=2")
    assert read({"own_after": "2"}) == (["shop.t2", "shop.t3"], "own_after=4")
    assert read({"own_after": "4"}) == (["shop.t4"], None)


def test_options_show_no_password(days: Table) -> None:
    info = replace(days.info, options={"kafka.bootstrap.servers": "ann:secret-word@broker:9092"})
    (shown,) = list_set_options(info).rows
    assert shown["value"] == "ann:***@broker:9092"
