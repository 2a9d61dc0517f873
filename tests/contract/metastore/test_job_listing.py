"""Jobs are listed in pages and by filters, and counted without being listed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from lakelog.client.job_pages import NeedPlace, find_jobs, list_jobs_by_need, list_jobs_paged
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument, ResourceExhausted
from lakelog.format.jobs.job import CHANGELOG, COMPACT, FULL, STRATEGY, JobCount, JobStatus
from lakelog.format.tables.table import TableInfo
from metastore.jobs import listing
from tests.contract.metastore.changelog_jobs import commit_open
from tests.support.metastore.making import make_table

PAYLOAD = {STRATEGY: FULL}


def request(metastore: Metastore, table: TableInfo, count: int) -> list[int]:
    """Requests compactions of some buckets; the ids of their jobs."""
    jobs = metastore.request_jobs(table.table_uuid, COMPACT, [f"/{number}" for number in range(count)], PAYLOAD)
    return sorted(job.job_id for job in jobs)


def take(metastore: Metastore, table: TableInfo, duration_ms: int = 60_000) -> Any:
    job = metastore.lease_job([COMPACT], [table.table_uuid], "holder", duration_ms=duration_ms)
    assert job is not None
    return job


def make_each_status(metastore: Metastore, table: TableInfo) -> dict[JobStatus, int]:
    """A table with a job in each status."""
    request(metastore, table, 5)
    found = {}
    for status in (JobStatus.FAILED, JobStatus.RESTING, JobStatus.DONE, JobStatus.LEASED):
        job = take(metastore, table)
        found[status] = job.job_id
        if status is JobStatus.DONE:
            metastore.finish_job(job.job_id, job.epoch, "did it")
        elif status is not JobStatus.LEASED:
            metastore.fail_job(job.job_id, job.epoch, "broken", final=status is JobStatus.FAILED)
    ids = {job.job_id for job in metastore.list_jobs([table.table_uuid])}
    (found[JobStatus.DUE],) = ids - set(found.values())
    return found


def list_ids(metastore: Metastore, *tables: TableInfo, **arguments: Any) -> list[int]:
    page = metastore.list_job_page([table.table_uuid for table in tables], **arguments)
    return [job.job_id for job in page.jobs]


def test_pages_lead_through_all_jobs(metastore: Metastore) -> None:
    table, other = make_table(metastore), make_table(metastore)
    ids = request(metastore, table, 7)
    others = request(metastore, other, 2)
    for limit in (1, 2, 3, 6, 7, 10_000):
        cursor, seen, pages = "", list[int](), 0
        while cursor or not pages:
            page = metastore.list_job_page([table.table_uuid], cursor=cursor, limit=limit)
            assert len(page.jobs) <= limit
            seen += [job.job_id for job in page.jobs]
            cursor, pages = page.cursor, pages + 1
        assert (seen, pages) == (ids, -(-7 // limit))
    # Tables in the order in which they were made.
    assert list_ids(metastore, other, table) == ids + others
    assert {*ids, *others} <= {job.job_id for job in list_jobs_paged(metastore)}


def test_a_page_goes_on_although_its_last_job_is_gone_or_has_changed(metastore: Metastore) -> None:
    table = make_table(metastore)
    ids = request(metastore, table, 3)
    page = metastore.list_job_page([table.table_uuid], statuses=[JobStatus.DUE], limit=1)
    job = take(metastore, table)
    assert job.job_id == ids[0]
    following = metastore.list_job_page([table.table_uuid], statuses=[JobStatus.DUE], cursor=page.cursor, limit=5)
    assert [job.job_id for job in following.jobs] == ids[1:]


def test_all_come_at_once_by_name(metastore: Metastore) -> None:
    table = make_table(metastore)
    request(metastore, table, 12)
    commit_open(metastore, table)
    jobs = metastore.list_jobs([table.table_uuid])
    assert [job.scope for job in jobs if job.kind == COMPACT] == sorted(f"/{number}" for number in range(12))
    assert [job.kind for job in jobs] == [CHANGELOG] + [COMPACT] * 12
    # As clients of earlier versions request them.
    assert metastore.list_job_page([table.table_uuid], limit=0).jobs == tuple(jobs)


def test_filters_leave_others_out(metastore: Metastore) -> None:
    table = make_table(metastore)
    ids = request(metastore, table, 3)
    commit_open(metastore, table)
    assert list_ids(metastore, table, kinds=[COMPACT]) == ids
    (changelog,) = list_ids(metastore, table, kinds=[CHANGELOG])
    assert changelog not in ids
    assert list_ids(metastore, table, kinds=["none"]) == []
    assert list_ids(metastore, job_ids=[ids[2], ids[0], 2**60]) == [ids[0], ids[2]]
    assert find_jobs(metastore, [*ids, 2**60]).keys() == set(ids)
    assert metastore.list_job_page(["0" * 32]).jobs == ()
    assert list_ids(metastore, table, job_ids=ids, kinds=[CHANGELOG]) == []


def test_a_status_is_the_state_with_what_the_clock_says(metastore: Metastore) -> None:
    table = make_table(metastore, buckets=5)
    ids = make_each_status(metastore, table)
    tables = [table.table_uuid]
    for status, job_id in ids.items():
        assert [
            (job.job_id, job.status) for job in metastore.list_job_page(tables, statuses=[status], limit=9).jobs
        ] == [(job_id, status)]
    pair = [JobStatus.DONE, JobStatus.FAILED]
    assert {job.job_id for job in metastore.list_job_page(tables, statuses=pair, limit=9).jobs} == {
        ids[each] for each in pair
    }
    counts = metastore.count_jobs(tables)
    assert sorted(counts, key=str) == sorted((JobCount(COMPACT, status, 1) for status in ids), key=str)


def test_what_is_not_renewed_is_abandoned(metastore: Metastore) -> None:
    table = make_table(metastore)
    request(metastore, table, 1)
    job = take(metastore, table, duration_ms=1000)
    tables = [table.table_uuid]
    for _ in range(100):
        if found := metastore.list_job_page(tables, statuses=[JobStatus.ABANDONED], limit=9).jobs:
            break
        metastore.lease_job(["none"], tables, "waits", duration_ms=1000, wait_ms=100)
    assert [each.job_id for each in found] == [job.job_id]
    assert metastore.list_job_page(tables, statuses=[JobStatus.LEASED], limit=9).jobs == ()
    assert metastore.count_jobs(tables) == [JobCount(COMPACT, JobStatus.ABANDONED, 1)]


def test_those_that_need_somebody_come_first_however_the_pages_are_cut(metastore: Metastore) -> None:
    table = make_table(metastore, buckets=5)
    ids = make_each_status(metastore, table)
    expected = [ids[status] for status in JobStatus if status in ids]
    for limit in (1, 2, 3, 5, 9):
        seen: list[int] = []
        place: NeedPlace | None = NeedPlace(JobStatus.FAILED)
        pages = 0
        while place is not None:
            jobs, place = list_jobs_by_need(metastore, [table.table_uuid], start=place, limit=limit)
            seen += [job.job_id for job in jobs]
            pages += 1
        assert (seen, pages) == (expected, -(-len(expected) // limit)), limit
    jobs, place = list_jobs_by_need(metastore, [table.table_uuid], statuses=[JobStatus.DONE], limit=9)
    assert ([job.job_id for job in jobs], place) == ([ids[JobStatus.DONE]], None)


def test_counts_are_of_kinds_and_of_all_tables(metastore: Metastore) -> None:
    before = Counter({(each.kind, each.status): each.count for each in metastore.count_jobs()})
    first, second = make_table(metastore), make_table(metastore)
    request(metastore, first, 3)
    request(metastore, second, 2)
    commit_open(metastore, second)
    after = Counter({(each.kind, each.status): each.count for each in metastore.count_jobs()})
    assert after - before == Counter({(COMPACT, JobStatus.DUE): 5, (CHANGELOG, JobStatus.DUE): 1})
    assert [each.count for each in metastore.count_jobs([first.table_uuid])] == [3]


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"limit": -1}, "limit"),
        ({"limit": 10_001}, "limit"),
        ({"limit": 10**9}, "limit"),
        ({"cursor": "1/compact//0", "limit": 0}, "cursor"),
        # Of the list of used files.
        ({"cursor": "data/12"}, "cursor"),
        ({"cursor": "5"}, "cursor"),
        ({"cursor": f"{2**70}/compact//0"}, "cursor"),
        ({"cursor": "1/'; DROP TABLE job; --//0"}, "cursor"),
        ({"cursor": "1/compact/" + "x" * 10_000}, "cursor"),
        ({"cursor": "1/compact/a\x00b"}, "cursor"),
        ({"job_ids": [0]}, "job_ids"),
        ({"job_ids": [2**62]}, "job_ids"),
        ({"job_ids": range(1, 4002)}, "job_ids"),
        ({"kinds": ["'; DROP TABLE job; --"]}, "kinds"),
        ({"kinds": ["<script>"]}, "kinds"),
        ({"kinds": [""]}, "kinds"),
        ({"kinds": ["x"] * 101}, "kinds"),
        ({"table_uuids": ["nope"]}, "table_uuids"),
        ({"table_uuids": ["0" * 32, "0" * 32]}, "table_uuids"),
    ],
)
def test_what_makes_no_sense_is_refused(metastore: Metastore, arguments: Mapping[str, Any], field: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        metastore.list_job_page(**arguments)
    assert error.value.metadata["field"] == field


def test_what_a_cursor_names_need_not_exist(metastore: Metastore) -> None:
    table = make_table(metastore)
    ids = request(metastore, table, 2)
    assert list_ids(metastore, table, cursor="1/a/") == ids
    assert list_ids(metastore, table, cursor=f"{10**18 - 1}/zzz/'; DROP TABLE job; --") == []


def test_too_many_for_one_answer(metastore: Metastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_UNPAGED", 3)
    table = make_table(metastore)
    request(metastore, table, 3)
    assert len(list_ids(metastore, table, limit=0)) == 3
    commit_open(metastore, table)
    with pytest.raises(ResourceExhausted, match="Request them in pages"):
        metastore.list_job_page([table.table_uuid], limit=0)
    assert len(list_ids(metastore, table, limit=4)) == 4
