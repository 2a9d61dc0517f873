"""Tables whose metastore was restored to an earlier state: old snapshots lack files, and the log is ahead."""

from __future__ import annotations

import datetime as dt
import os
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.errors import DataCorrupted, InvalidArgument, NotFound, PermissionDenied
from lakelog.format.log.state import LOG_AHEAD, LOG_DIVERGED, SNAPSHOT_UNKNOWN, PublishReport
from lakelog.format.retention.table_files import FileUse
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.maintenance.checking import file_check
from lakelog.sdk.maintenance.checking.file_check_result import LostSnapshots
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
    assert found.lost == LostSnapshots(first=1, last=2, lacking=1, readable=1, tags=("lost",))
    kept = orders.check_files(repair=True)
    assert (kept.lost, kept.expired, kept.deleted_tags) == (found.lost, None, ()), "a repair alone forgets nothing"
    assert numbers(orders) == [1, 2, 3, 4, 5]
    repaired = orders.check_files(repair=True, forget_lost=True)
    assert (repaired.broken, repaired.broken_files, repaired.broken_until) == ((), 0, None)
    assert (repaired.expired_snapshots, repaired.deleted_tags, repaired.held_by) == (1, ("lost",), ())
    assert (repaired.expired, repaired.forgotten) == (found.lost, found.broken)
    assert numbers(orders) == [3, 4, 5]
    assert values(orders, tag="early") == ["a"], "a tag whose files are there keeps its snapshot"
    assert (values(orders, tag="late"), values(orders)) == (["d"], ["e"])
    again = orders.check_files(repair=True, forget_lost=True)
    assert (again.broken_files, again.expired_snapshots, again.deleted_tags) == (0, 0, ())


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_nothing_expires_if_the_newest_snapshot_lacks_files(catalog: Catalog, orders: Table) -> None:
    write(orders, "a", "b", "c")
    orders.tags.create("lost", 1)
    lose(orders, 1, 3)
    found = orders.check_files(repair=True, forget_lost=True)
    assert (found.broken_files, found.broken_until, found.expired_snapshots, found.deleted_tags) == (2, None, 0, ())
    assert sorted(each.last_snapshot_id or 0 for each in found.broken) == [0, 1]
    assert numbers(orders) == [1, 2, 3]
    orders.rollback_to(2)
    repaired = orders.check_files(repair=True, forget_lost=True)
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
    code, out, err = command("table", "check", "shop.orders", "--repair", "--forget-lost", "-y")
    said = " ".join((out + err).split())
    assert (code, "reader 'billing' needs snapshot 1" in said, "end that, and repair again" in said) == (1, True, True)
    catalog.metastore.release_snapshot(orders.uuid, "billing")
    code, out, err = command("table", "check", "shop.orders", "--repair", "--forget-lost", "-y")
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
    assert orders.check_files(repair=True, forget_lost=True).broken_files == 0
    assert numbers(orders) == [2]


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
@pytest.mark.parametrize("protected", [True, False], ids=["protected", "control"])
def test_a_warehouse_that_is_not_there_is_not_repaired(
    catalog: Catalog, orders: Table, protected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(orders, "a", "b", "c", "d", "e")
    for snapshot in range(1, 6):
        orders.tags.create(f"t{snapshot}", snapshot)
    orders.overwrite(pa.table({"k": [], "v": []}, schema=SCHEMA))
    if not protected:
        monkeypatch.setattr(file_check, "refuse_wrong_store", lambda *_: None)
    folder = Path(orders.location.removeprefix("file://"))
    folder.rename(folder.with_name("elsewhere"))
    other = folder / "data" / ("f" * 32) / "of_another_table.parquet"
    other.parent.mkdir(parents=True)
    other.write_bytes(b"another")
    now = dt.timedelta(0)
    if not protected:
        assert orders.check_files(repair=True, forget_lost=True, older_than=now).expired_snapshots == 5
        assert (other.exists(), numbers(orders), orders.tags.list().num_rows) == (False, [6], 0)
        return
    for forget_lost in (False, True):
        with pytest.raises(DataCorrupted, match=r"Not one file of shop\.orders .* is mounted") as refused:
            orders.check_files(repair=True, forget_lost=forget_lost, older_than=now)
        assert (refused.value.reason, refused.value.metadata["field"]) == ("NO_FILE_FOUND", "location")
    assert (other.exists(), numbers(orders), orders.tags.list().num_rows) == (True, [1, 2, 3, 4, 5, 6], 5)
    other.unlink()
    for parent in (other.parent, folder / "data", folder):
        parent.rmdir()
    folder.with_name("elsewhere").rename(folder)
    assert orders.check_files(repair=True, forget_lost=True).broken_files == 0
    assert values(orders, tag="t1") == ["a"]


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_lost_snapshots_are_forgotten_only_with_a_repair(catalog: Catalog, orders: Table) -> None:
    with pytest.raises(InvalidArgument, match="repair=True"):
        orders.check_files(forget_lost=True)


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
@pytest.mark.parametrize("snapshot", [2, 4], ids=["old", "newest"])
def test_a_lost_changelog_costs_no_snapshot(
    catalog: Catalog, snapshot: int, capsys: pytest.CaptureFixture[str]
) -> None:
    options = {"bucket": "1", "changelog-producer": "input", "changelog.time-retained": "1 d"}
    table = catalog.create_table("shop.logged", SCHEMA, primary_key=["k"], options=options)
    for number in range(4):
        table.upsert(pa.table({"k": [number], "v": [str(number)]}, schema=SCHEMA))
    table.tags.create("kept", 2)
    listed = catalog.metastore.list_used_files(table.uuid).files
    changelogs = [each for each in listed if each.use is FileUse.CHANGELOG and each.first_snapshot_id == snapshot]
    folder = Path(table.location.removeprefix("file://"))
    for each in changelogs:
        (folder / each.path).unlink()
    assert len(changelogs) == 1
    found = table.check_files(repair=True, forget_lost=True)
    assert (found.broken_files, found.broken_changelogs, found.broken_until, found.lost) == (1, 1, None, None)
    assert (found.expired, found.deleted_tags, numbers(table)) == (None, (), [1, 2, 3, 4])
    assert values(table, tag="kept") == ["0", "1"]
    code, _, err = Command(catalog, capsys)("table", "check", "shop.logged")
    assert (code, "They are changelogs" in err) == (1, True)
    # The advice mends it.
    table.upsert(pa.table({"k": [9], "v": ["9"]}, schema=SCHEMA))
    table.alter(set={"changelog.time-retained": "0 ms", "changelog.num-retained.min": 1})
    table.expire_snapshots(older_than=dt.datetime.now(dt.UTC) + dt.timedelta(days=1), retain_last=1)
    assert table.check_files().broken_files == 0


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_a_tag_stays_while_its_snapshot_is_needed(catalog: Catalog, orders: Table) -> None:
    write(orders, "a", "b", "c")
    orders.tags.create("lost", 1)
    catalog.metastore.lease_snapshot(orders.uuid, "billing", 1, 60_000)
    lose(orders, 1)
    held = orders.check_files(repair=True, forget_lost=True)
    assert (held.deleted_tags, held.expired, held.expired_snapshots) == ((), None, 0)
    assert held.held_by == ("reader 'billing' needs snapshot 1",)
    assert (orders.tags.list().num_rows, numbers(orders)) == (1, [1, 2, 3])
    catalog.metastore.release_snapshot(orders.uuid, "billing")
    assert orders.check_files(repair=True, forget_lost=True).deleted_tags == ("lost",)
    assert numbers(orders) == [2, 3]


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_another_program_may_delete_the_tag_meanwhile(
    catalog: Catalog, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(orders, "a", "b")
    orders.tags.create("lost", 1)
    lose(orders, 1)
    delete = catalog.metastore.delete_tag

    def delete_twice(table_uuid: str, name: str) -> None:
        delete(table_uuid, name)
        raise NotFound("The table has no such tag.")

    monkeypatch.setattr(catalog.metastore, "delete_tag", delete_twice, raising=False)
    repaired = orders.check_files(repair=True, forget_lost=True)
    assert (repaired.broken_files, repaired.deleted_tags, numbers(orders)) == (0, (), [2])


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_readable_snapshots_of_the_same_millisecond_stay(
    catalog: Catalog, orders: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(orders, "a", "b", "c", "d")
    lose(orders, 1)
    real = catalog.metastore.list_snapshots
    last = real(orders.uuid).snapshots[-1].committed_at_ms

    def as_if_at_once(*arguments: object, **named: object) -> object:
        page = real(*arguments, **named)  # type: ignore[arg-type]
        return replace(page, snapshots=tuple(replace(each, committed_at_ms=last) for each in page.snapshots))

    monkeypatch.setattr(catalog.metastore, "list_snapshots", as_if_at_once, raising=False)
    assert orders.check_files(repair=True, forget_lost=True).expired_snapshots == 1
    assert numbers(orders) == [2, 3, 4]


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_the_command_says_what_goes_and_what_went(
    catalog: Catalog, orders: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    write(orders, "a", "b", "c", "d")
    orders.tags.create("early", 1)
    orders.tags.create("late", 3)
    (lost,) = lose(orders, 3)
    plan = "expire snapshots 1 to 3 (1 of them without files; 2 can be read, and go too), and delete the tag late"
    command = Command(catalog, capsys)
    code, _, err = command("table", "check", "shop.orders")
    assert (code, f"--repair --forget-lost would {plan}." in " ".join(err.split())) == (1, True)
    code, _, err = command("table", "check", "shop.orders", "--repair", "--forget-lost")
    assert (code, f"restart its log if that is needed, {plan}?" in " ".join(err.split())) == (2, True)
    code, _, err = command("table", "check", "shop.orders", "--forget-lost")
    assert (code, "add --repair" in err, numbers(orders)) == (2, True, [1, 2, 3, 4])
    code, out, err = command("table", "check", "shop.orders", "--repair", "--forget-lost", "--yes")
    said = " ".join(out.split())
    assert (code, err, "Expired snapshots 1 to 3: 1 of them without files; 2 could be read, and went" in said) == (
        0,
        "",
        True,
    )
    assert ("Tags deleted late" in said, lost[:20] in out, "These files were missing" in said) == (True, True, True)
    assert (numbers(orders), values(orders, tag="early")) == ([4], ["a"])


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
def test_orphans_that_a_repair_has_deleted_are_only_counted(
    catalog: Catalog, orders: Table, capsys: pytest.CaptureFixture[str]
) -> None:
    write(orders, "a")
    attempts = {"f" * 32: 1.0, "e" * 32: None}
    for attempt, modified in attempts.items():
        path = Path(orders.location.removeprefix("file://")) / "data" / attempt / "lost.parquet"
        path.parent.mkdir()
        path.write_bytes(b"lost")
        if modified is not None:
            os.utime(path, (modified, modified))
    command = Command(catalog, capsys)
    _, out, _ = command("table", "check", "shop.orders")
    assert all(each in out for each in attempts)
    code, out, _ = command("table", "check", "shop.orders", "--repair", "-y")
    assert (code, "f" * 32 in out, "e" * 32 in out, "Deleted 1" in " ".join(out.split())) == (0, False, True, True)


@pytest.mark.parametrize("metastore", ["memory"], indirect=True)
@pytest.mark.parametrize(
    ("command", "said"),
    [("table check shop.orders --repair --forget-lost", "repaired"), ("table drop shop.orders", "dropped")],
)
def test_a_no_says_what_did_not_happen(
    catalog: Catalog,
    orders: Table,
    command: str,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write(orders, "a", "b")
    lose(orders, 1)
    asked: list[str] = []
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("click.confirm", lambda question, **_: asked.append(question))
    code, _, err = Command(catalog, capsys)(*command.split())
    assert (code, len(asked), f"Nothing was {said}." in err, numbers(orders)) == (1, 1, True, [1, 2])


def report_problem(world: World, table: Table, publisher: HandPublisher, problem: str, reason: str) -> str:
    """What the table's publisher has found."""
    generation = world.metastore.get_log(table.uuid).generation
    report = PublishReport(table.uuid, generation, publisher.epoch, problem=problem, problem_reason=reason)
    world.metastore.report_published(report)
    return problem


def test_a_log_that_does_not_belong_to_the_table_is_restarted(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    table, publisher = world.make()
    for number in range(3):
        table.upsert(rows((number, number)))
    publisher.publish()
    assert table.check_files().log_problem == ""
    problem = report_problem(world, table, publisher, "restored to an earlier state", LOG_AHEAD)
    found = table.check_files()
    assert (found.log_problem, found.log_needs_restart, found.log_restarted_after) == (problem, True, None)
    command = Command(world.catalog, capsys)
    code, out, err = command("table", "check", "shop.orders")
    assert (code, "`lakelog table check shop.orders --repair` restarts it" in " ".join(err.split())) == (1, True)
    code, out, err = command("table", "check", "shop.orders", "--repair", "-y", "-o", "json")
    assert (code, '"log_restarted_after": 3' in out, '"log_needs_restart": false' in out) == (0, True, True)
    assert table.check_files() == table.check_files(repair=True), "a repair that finds nothing does nothing"
    assert world.metastore.get_log(table.uuid).generation == 2


def test_a_log_whose_topic_was_cut_is_not_restarted(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    table, publisher = world.make()
    table.upsert(rows((1, 1)))
    publisher.publish()
    problem = report_problem(
        world, table, publisher, "The topic was cut: `lakelog log restart shop.orders`", LOG_DIVERGED
    )
    found = table.check_files(repair=True)
    assert (found.log_problem, found.log_needs_restart, found.log_restarted_after) == (problem, True, None)
    assert world.metastore.get_log(table.uuid).generation == 1
    code, _, err = Command(world.catalog, capsys)("table", "check", "shop.orders", "--repair", "-y")
    said = " ".join(err.split())
    assert (code, "Find out what happened to its topic" in said, "--repair" in said) == (1, True, False)


def test_a_log_with_a_problem_that_passes_is_only_named(world: World) -> None:
    table, publisher = world.make()
    table.upsert(rows((1, 1)))
    publisher.publish()
    problem = report_problem(world, table, publisher, "Do not run `lakelog log restart`.", "UNAVAILABLE")
    found = table.check_files(repair=True)
    assert (found.log_problem, found.log_needs_restart, found.log_restarted_after) == (problem, False, None)
    assert world.metastore.get_log(table.uuid).generation == 1


def test_who_may_not_restart_a_log_learns_it_with_the_rest(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    table, publisher = world.make()
    table.upsert(rows((1, 1)))
    publisher.publish()
    report_problem(world, table, publisher, "restored to an earlier state", SNAPSHOT_UNKNOWN)

    def refuse(*_: object) -> None:
        raise PermissionDenied("RestartLog needs the role admin.")

    monkeypatch.setattr(world.metastore, "restart_log", refuse, raising=False)
    found = table.check_files(repair=True)
    assert found.log_problem.endswith("It was not restarted: RestartLog needs the role admin.")
    assert (found.log_needs_restart, found.log_restarted_after) == (True, None)
