"""Tables whose metastore was restored to an earlier state: old snapshots lack files, and the log is ahead."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import PermissionDenied
from lakelog.format.log.state import PublishReport
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.command import Command
from tests.support.log.log_world import World, rows
from tests.support.log.logging_tables import HandPublisher

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])


@pytest.fixture
def orders(catalog: Catalog) -> Table:
    return catalog.create_table("shop.orders", SCHEMA, primary_key=["k"], options={"bucket": "1"})


def write(table: Table, *values: str) -> None:
    """One snapshot after the other with a row, each of which replaces all before it."""
    for value in values:
        table.overwrite(pa.table({"k": [1], "v": [value]}, schema=SCHEMA))


def lose(table: Table, *snapshots: int) -> list[str]:
    """Deletes the files of snapshots, as expiry did after the moment to which the metastore was restored."""
    folder = Path(table.location.removeprefix("file://"))
    lost = []
    for snapshot in snapshots:
        lost += [each.path for each in table.scan(snapshot_id=snapshot).files]
    for path in lost:
        (folder / path).unlink()
    return lost


def values(table: Table, **scan: int | str) -> list[str]:
    found: list[str] = table.scan(**scan).to_arrow().column("v").to_pylist()  # type: ignore[arg-type]
    return found


def numbers(table: Table) -> list[int]:
    found: list[int] = table.snapshots().column("id").to_pylist()
    return found


def test_old_snapshots_without_files_expire_with_their_tags(catalog: Catalog, orders: Table) -> None:
    write(orders, "a", "b", "c", "d", "e")
    for tag, snapshot in (("early", 1), ("lost", 2), ("late", 4)):
        orders.tags.create(tag, snapshot)
    lost = lose(orders, 2)
    found = orders.check_files()
    assert ([each.path for each in found.broken], found.broken_until, found.expired_snapshots) == (lost, 2, 0)
    assert [each.last_snapshot_id for each in found.broken] == [2]
    repaired = orders.check_files(repair=True)
    assert (repaired.broken, repaired.broken_files, repaired.broken_until) == ((), 0, None)
    assert (repaired.expired_snapshots, repaired.deleted_tags, repaired.held_by) == (1, ("lost",), ())
    assert numbers(orders) == [3, 4, 5]
    assert values(orders, tag="early") == ["a"], "a tag whose files are there keeps its snapshot"
    assert (values(orders, tag="late"), values(orders)) == (["d"], ["e"])
    again = orders.check_files(repair=True)
    assert (again.broken_files, again.expired_snapshots, again.deleted_tags) == (0, 0, ())


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_nothing_expires_if_the_newest_snapshot_lacks_files(catalog: Catalog, orders: Table) -> None:
    write(orders, "a", "b", "c")
    orders.tags.create("lost", 1)
    lose(orders, 1, 3)
    found = orders.check_files(repair=True)
    assert (found.broken_files, found.broken_until, found.expired_snapshots, found.deleted_tags) == (2, None, 0, ())
    assert sorted(each.last_snapshot_id or 0 for each in found.broken) == [0, 1]
    assert numbers(orders) == [1, 2, 3]
    orders.rollback_to(2)
    repaired = orders.check_files(repair=True)
    assert (repaired.broken_files, repaired.deleted_tags) == (0, ("lost",)), "the next repair mends the rest"
    assert values(orders) == ["b"]


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_what_is_needed_is_named_and_stays(catalog: Catalog, orders: Table, capsys: pytest.CaptureFixture[str]) -> None:
    write(orders, "a", "b", "c")
    catalog.metastore.lease_snapshot(orders.uuid, "billing", 1, 60_000)
    lose(orders, 1)
    command = Command(catalog, capsys)
    code, out, err = command("table", "check", "shop.orders")
    assert code == 1
    assert "Only snapshots up to 1 have them" in " ".join(err.split())
    assert "lakelog table check shop.orders --repair" in " ".join(err.split())
    code, out, err = command("table", "check", "shop.orders", "--repair", "-y")
    said = " ".join((out + err).split())
    assert (code, "reader 'billing' needs snapshot 1" in said, "end that, and repair again" in said) == (1, True, True)
    catalog.metastore.release_snapshot(orders.uuid, "billing")
    code, out, err = command("table", "check", "shop.orders", "--repair", "-y")
    assert (code, err) == (0, "")
    assert "Snapshots expired" in out
    assert numbers(orders) == [2, 3]


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_a_file_of_another_size_is_broken_until_its_snapshot_expires(catalog: Catalog, orders: Table) -> None:
    write(orders, "a", "b")
    (file,) = orders.scan(snapshot_id=1).files
    path = Path(orders.location.removeprefix("file://")) / file.path
    path.write_bytes(path.read_bytes()[:-1])
    found = orders.check_files()
    assert [(each.path, each.found_bytes, each.last_snapshot_id) for each in found.broken] == [
        (file.path, path.stat().st_size, 1)
    ]
    assert orders.check_files(repair=True).broken_files == 0
    assert numbers(orders) == [2]


def report_problem(world: World, table: Table, publisher: HandPublisher, problem: str) -> str:
    """What the table's publisher has found."""
    generation = world.metastore.get_log(table.uuid).generation
    report = PublishReport(table.uuid, generation, publisher.epoch, problem=problem)
    world.metastore.report_published(report)
    return problem


def test_a_log_that_does_not_belong_to_the_table_is_restarted(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    table, publisher = world.make()
    for number in range(3):
        table.upsert(rows((number, number)))
    publisher.publish()
    assert table.check_files().log_problem == ""
    problem = report_problem(world, table, publisher, "restored to an earlier state: `lakelog log restart shop.orders`")
    found = table.check_files()
    assert (found.log_problem, found.log_needs_restart, found.log_restarted_after) == (problem, True, None)
    command = Command(world.catalog, capsys)
    code, out, err = command("table", "check", "shop.orders")
    assert (code, "`lakelog table check shop.orders --repair` restarts it" in " ".join(err.split())) == (1, True)
    code, out, err = command("table", "check", "shop.orders", "--repair", "-y", "-o", "json")
    assert (code, '"log_restarted_after": 3' in out, '"log_needs_restart": false' in out) == (0, True, True)
    assert table.check_files() == table.check_files(repair=True), "a repair that finds nothing does nothing"
    assert world.metastore.get_log(table.uuid).generation == 2


def test_a_log_with_a_problem_that_passes_is_only_named(world: World) -> None:
    table, publisher = world.make()
    table.upsert(rows((1, 1)))
    publisher.publish()
    problem = report_problem(world, table, publisher, "The brokers do not answer.")
    found = table.check_files(repair=True)
    assert (found.log_problem, found.log_needs_restart, found.log_restarted_after) == (problem, False, None)
    assert world.metastore.get_log(table.uuid).generation == 1


def test_who_may_not_restart_a_log_learns_it_with_the_rest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table, publisher = world.make()
    table.upsert(rows((1, 1)))
    publisher.publish()
    report_problem(world, table, publisher, "lakelog log restart shop.orders")

    def refuse(*_: object) -> None:
        raise PermissionDenied("RestartLog needs the role admin.")

    monkeypatch.setattr(world.metastore, "restart_log", refuse, raising=False)
    found = table.check_files(repair=True)
    assert found.log_problem.endswith("It was not restarted: RestartLog needs the role admin.")
    assert (found.log_needs_restart, found.log_restarted_after) == (True, None)
