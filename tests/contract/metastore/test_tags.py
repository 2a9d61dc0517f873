"""Tags: names of snapshots."""

from __future__ import annotations

import time

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import AlreadyExists, InvalidArgument, NotFound, ResourceExhausted
from lakelog.format.tables.plan import AtSnapshot, AtTag, PlanRequest
from lakelog.format.tables.table import TableInfo
from metastore.snapshots import tags
from tests.support.metastore.making import append, make_table


def make_history(metastore: Metastore, snapshots: int = 3) -> TableInfo:
    table = make_table(metastore)
    for number in range(snapshots):
        append(metastore, table, identifier=number)
    return table


def test_a_tag_names_a_snapshot(metastore: Metastore) -> None:
    table = make_history(metastore)
    before_ms = time.time() * 1000 - 60_000
    made = metastore.create_tag(table.table_uuid, "release-1.0", 2)
    newest = metastore.create_tag(table.table_uuid, "2024-05-01")
    assert metastore.list_tags(table.table_uuid) == [newest, made]
    assert (newest.name, newest.snapshot_id) == ("2024-05-01", 3)
    second = metastore.list_snapshots(table.table_uuid).snapshots[1]
    assert (made.name, made.snapshot_id, made.total_rows) == ("release-1.0", 2, second.total_rows)
    assert made.committed_at_ms == second.committed_at_ms
    assert made.created_at_ms > before_ms
    # Another table has names of its own.
    other = make_history(metastore)
    assert metastore.list_tags(other.table_uuid) == []
    metastore.create_tag(other.table_uuid, "release-1.0")
    metastore.delete_tag(table.table_uuid, "release-1.0")
    assert metastore.list_tags(table.table_uuid) == [newest]
    assert [tag.name for tag in metastore.list_tags(other.table_uuid)] == ["release-1.0"]


def test_a_state_is_read_by_its_tag(metastore: Metastore) -> None:
    table = make_history(metastore)
    metastore.create_tag(table.table_uuid, "x", 2)
    by_tag = metastore.plan(PlanRequest(table.table_uuid, AtTag("x")))
    assert by_tag == metastore.plan(PlanRequest(table.table_uuid, AtSnapshot(2)))
    assert (by_tag.snapshot.snapshot_id if by_tag.snapshot else None, by_tag.files.num_rows) == (2, 2)
    metastore.delete_tag(table.table_uuid, "x")
    metastore.create_tag(table.table_uuid, "x", 1)
    assert metastore.plan(PlanRequest(table.table_uuid, AtTag("x"))).files.num_rows == 1


def test_a_name_is_given_once(metastore: Metastore) -> None:
    table = make_history(metastore)
    metastore.create_tag(table.table_uuid, "x", 2)
    for snapshot_id in (2, 3):
        with pytest.raises(AlreadyExists, match=r"shop\..* has a tag 'x' already, of snapshot 2.*delete that") as error:
            metastore.create_tag(table.table_uuid, "x", snapshot_id)
        assert error.value.reason == "TAG_EXISTS"
    assert [tag.snapshot_id for tag in metastore.list_tags(table.table_uuid)] == [2]


def test_a_tag_that_is_not_there(metastore: Metastore) -> None:
    table = make_history(metastore)
    with pytest.raises(NotFound, match=r"shop\..* has no tag 'x'; it has none"):
        metastore.delete_tag(table.table_uuid, "x")
    for name in ("release-1", "release-2", "a", "b", "c", "d"):
        metastore.create_tag(table.table_uuid, name)
    with pytest.raises(NotFound, match=r"has no tag 'relaese-1'; it has 'release-1', 'release-2' and 4 more") as error:
        metastore.plan(PlanRequest(table.table_uuid, AtTag("relaese-1")))
    assert (error.value.reason, error.value.metadata["tag"]) == ("TAG_NOT_FOUND", "relaese-1")


def test_a_snapshot_that_is_not_there(metastore: Metastore) -> None:
    table = make_history(metastore)
    with pytest.raises(NotFound, match=r"has no snapshot 4; it has the snapshots 1 to 3"):
        metastore.create_tag(table.table_uuid, "x", 4)
    with pytest.raises(NotFound, match="has no snapshot yet, so there is nothing to be tagged"):
        metastore.create_tag(make_table(metastore).table_uuid, "x")
    with pytest.raises(NotFound, match="does not exist"):
        metastore.create_tag("0" * 32, "x")
    with pytest.raises(InvalidArgument, match="snapshot_id is -1"):
        metastore.create_tag(table.table_uuid, "x", -1)


ODD_NAMES = {
    "": r"name of the tag is ''\. Use letters",
    "17": r"name of the tag is '17'\. A number means a snapshot, so put a letter to it, as in 'v17'",
    "x" * 129: r"It has 129 characters; give at most 128",
    "a,b": "Use letters",
    ".hidden": "Use letters",
    "-1": "Use letters",
    "two\nlines": "Use letters",
    "żółć": "Use letters",
}


def test_odd_names(metastore: Metastore) -> None:
    table = make_history(metastore, 1)
    for name, said in ODD_NAMES.items():
        with pytest.raises(InvalidArgument, match=said):
            metastore.create_tag(table.table_uuid, name)
        with pytest.raises(InvalidArgument, match=said):
            metastore.delete_tag(table.table_uuid, name)
        with pytest.raises(InvalidArgument, match=said):
            metastore.plan(PlanRequest(table.table_uuid, AtTag(name)))
    metastore.create_tag(table.table_uuid, "x" * 128)


def test_a_table_has_so_many_tags(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tags, "MAX_TAGS", 2)
    table = make_history(metastore)
    metastore.create_tag(table.table_uuid, "a")
    metastore.create_tag(table.table_uuid, "b")
    with pytest.raises(ResourceExhausted, match="has 2 tags, which is the limit"):
        metastore.create_tag(table.table_uuid, "c")
