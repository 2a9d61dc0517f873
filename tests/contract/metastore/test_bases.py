"""C9: a change that is about a snapshot names its uuid, and is refused if another snapshot has the id by now."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import HistoryDiverged, InvalidArgument
from lakelog.format.commit.attachment import SnapshotChangelog
from lakelog.format.commit.request import CommitRequest
from lakelog.format.tables.table import TableInfo
from tests.contract.metastore.changelog_jobs import commit_open, lease, make_request
from tests.contract.metastore.expiring import expire
from tests.support.metastore.making import append, compaction, make_file, make_table, snapshot_ids

OTHER = "a" * 32


def compact(
    metastore: Metastore, table: TableInfo, base: int | None, uuid: str, writer: str = "compactor"
) -> tuple[int | None, ...]:
    """Compacts the table's first file, as planned at a snapshot; the snapshots that came of it."""
    attempt = metastore.stage_attempt([table.table_uuid], writer).attempt_id
    change = compaction(table, [make_file(attempt, "z")], [1], base_snapshot_id=base, base_snapshot_uuid=uuid)
    results = metastore.commit(CommitRequest(writer, 1, (change,), attempt)).results
    assert not results[0].dropped
    return tuple(result.snapshot_id for result in results)


@pytest.mark.parametrize("base", [1, 2], ids=["an older one", "the newest one"])
def test_a_base_with_another_uuid_is_refused(metastore: Metastore, base: int) -> None:
    table = make_table(metastore)
    uuids = [append(metastore, table, number).results[0].snapshot_uuid for number in (1, 2)]
    with pytest.raises(HistoryDiverged, match=f"against snapshot {base} as {OTHER}, but here it is {uuids[base - 1]}"):
        compact(metastore, table, base, OTHER)
    assert snapshot_ids(metastore, table) == [1, 2], "nothing happened"
    assert compact(metastore, table, base, uuids[base - 1], "again") == (3,)


def test_a_base_without_a_uuid_is_not_compared(metastore: Metastore) -> None:
    """As clients of earlier versions send it."""
    table = make_table(metastore)
    append(metastore, table, 1)
    assert compact(metastore, table, 1, "") == (2,)


def test_of_an_expired_base_nothing_is_known(metastore: Metastore) -> None:
    table = make_table(metastore)
    for number in (1, 2, 3):
        append(metastore, table, number)
    expire(metastore, table)
    assert snapshot_ids(metastore, table) == [3]
    assert compact(metastore, table, 1, OTHER) == (4,)


def test_a_base_that_does_not_exist_is_refused(metastore: Metastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    with pytest.raises(HistoryDiverged, match="against snapshot 7, but the newest one is 1"):
        compact(metastore, table, 7, OTHER)


@pytest.mark.parametrize(("base", "uuid"), [(1, "x"), (None, OTHER), (0, OTHER)])
def test_a_uuid_belongs_to_a_base(metastore: Metastore, base: int | None, uuid: str) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    with pytest.raises(InvalidArgument, match="base_snapshot_uuid"):
        compact(metastore, table, base, uuid)


def test_a_changelog_of_another_snapshot_is_not_attached(metastore: Metastore) -> None:
    table = make_table(metastore)
    commit_open(metastore, table)
    uuid = metastore.list_snapshots(table.table_uuid).snapshots[0].snapshot_uuid
    request = make_request(metastore, table, lease(metastore, table), [1])

    def naming(known: str) -> tuple[SnapshotChangelog, ...]:
        return tuple(replace(each, snapshot_uuid=known) for each in request.changelogs)

    with pytest.raises(HistoryDiverged, match=f"against snapshot 1 as {OTHER}, but here it is {uuid}"):
        metastore.attach_changelogs(replace(request, changelogs=naming(OTHER)))
    with pytest.raises(InvalidArgument, match=r"changelogs\.snapshot_uuid"):
        metastore.attach_changelogs(replace(request, changelogs=naming("x")))
    metastore.attach_changelogs(replace(request, changelogs=naming(uuid)))
