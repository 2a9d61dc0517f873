"""Compaction on demand: which buckets get jobs, how they are waited for, and what is said of their ends."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument, JobFailed, NotFound, Unavailable
from lakelog.format.jobs.job import COMPACT, FULL, MINOR, STRATEGY, Job, JobState, parse_bucket_scope
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.maintenance.compaction_result import CompactionResult, CompactionState
from lakelog.sdk.tables.table import Table
from tests.support.tables.compacting import working

SCHEMA = pa.schema([("dt", pa.date32()), ("shop", pa.string()), ("id", pa.int64()), ("v", pa.string())])


def make(catalog: Catalog, *, commits: int = 2, days: int = 2) -> Table:
    """A table with two buckets in each partition, which each commit gives a file."""
    table = catalog.create_table(
        "shop.orders",
        schema=SCHEMA,
        primary_key=["dt", "shop", "id"],
        partition_by=["dt", "shop"],
        options={"bucket": "2"},
    )
    rows = [
        {"dt": 19_000 + day, "shop": shop, "id": number, "v": "x"}
        for day in range(days)
        for shop in ("a", "b")
        for number in range(20)
    ]
    columns = {name: [row[name] for row in rows] for name in SCHEMA.names}
    data = pa.table({name: pa.array(values).cast(SCHEMA.field(name).type) if name != "dt" else
                     pa.array(values, pa.int32()).cast(pa.date32()) for name, values in columns.items()})  # fmt: skip
    for _ in range(commits):
        table.upsert(data)
    return table


def make_append(catalog: Catalog, *, commits: int, bucket: int | None = None) -> Table:
    options = {} if bucket is None else {"bucket": str(bucket), "bucket-key": "id"}
    table = catalog.create_table("shop.events", schema=pa.schema([("id", pa.int64())]), options=options)
    for number in range(commits):
        table.append(pa.table({"id": [number]}))
    return table


def show(result: CompactionResult) -> list[tuple[Any, ...]]:
    return [
        (*(str(value) for value in each.partition.values()), each.bucket, each.state.value) for each in result.buckets
    ]


def find_jobs(catalog: Catalog, table: Table) -> list[Job]:
    return catalog.metastore.list_jobs([table.uuid])


def test_a_compaction_is_done_by_compactors_and_waited_for(catalog: Catalog) -> None:
    table = make(catalog)
    before = table.scan().to_arrow()
    with working(catalog.metastore, lambda job: f"did {job.scope[-1]}") as taken:
        result = table.compact(full=True)
    assert len(taken) == 8
    assert {job.payload[STRATEGY] for job in taken} == {FULL}
    assert len({parse_bucket_scope(job.scope) for job in taken}) == 8
    assert {each.state for each in result.buckets} == {CompactionState.DONE}
    found = result.to_arrow()
    assert found.column_names == ["partition", "bucket", "files", "bytes", "state", "outcome", "job_id"]
    assert found["files"].to_pylist() == [2] * 8
    assert found["outcome"].to_pylist() == ["did 0", "did 1"] * 4
    assert found["partition"][0].as_py() == {"dt": pa.scalar(19_000, pa.int32()).cast(pa.date32()).as_py(), "shop": "a"}
    sizes = table.files()["bytes"].to_pylist()
    assert sum(found["bytes"].to_pylist()) == sum(sizes)
    assert set(result.job_ids) == {job.job_id for job in taken}
    assert result.snapshot_id == 2
    assert table.scan().to_arrow().equals(before)
    assert len(table.snapshots()) == 2


def test_without_full_what_is_at_level_0_is_compacted(catalog: Catalog) -> None:
    table = make(catalog, days=1)
    with working(catalog.metastore, lambda job: "") as taken:
        result = table.compact()
    assert {job.payload[STRATEGY] for job in taken} == {MINOR}
    # Where a compactor has nothing to say, what was to be done is said.
    assert "asked for" in result.buckets[0].outcome


def test_partitions_and_conditions_choose_what_is_compacted(catalog: Catalog) -> None:
    table = make(catalog)
    first, second = "2022-01-08", "2022-01-09"
    chosen = [
        ({"partitions": [{"dt": first}]}, [(first, "a"), (first, "b")]),
        ({"partitions": [{"dt": first, "shop": "b"}]}, [(first, "b")]),
        ({"partitions": [{"shop": "b"}, {"dt": first}]}, [(first, "a"), (first, "b"), (second, "b")]),
        ({"where": f"dt > DATE '{first}' AND shop <> 'a'"}, [(second, "b")]),
        ({"where": "DT IS NULL"}, []),
        ({"where": "shop = 'a'", "partitions": [{"dt": second}]}, [(second, "a")]),
        ({"where": "shop = 'zz'", "partitions": [{"dt": second}]}, []),
    ]
    for arguments, partitions in chosen:
        result = table.compact(dry_run=True, **arguments)  # type: ignore[arg-type]
        assert show(result) == [(*each, bucket, "planned") for each in partitions for bucket in (0, 1)], arguments
    assert find_jobs(catalog, table) == []


def test_where_nothing_is_to_be_done_no_job_is_asked_for(catalog: Catalog) -> None:
    table = make_append(catalog, commits=1)
    result = table.compact(full=True)
    assert show(result) == [(0, "nothing")]
    assert result.buckets[0].outcome == "Fewer than two small files are there."
    assert result.to_arrow()["partition"].null_count == 1
    assert find_jobs(catalog, table) == []
    empty = catalog.create_table("shop.empty", schema=pa.schema([("id", pa.int64())]))
    assert empty.compact().buckets == ()
    assert empty.compact().to_arrow().num_rows == 0
    assert empty.compact().snapshot_id is None


@pytest.mark.parametrize(
    ("bucket", "full", "commits", "state"),
    [
        (None, False, 2, "planned"),
        (None, True, 2, "planned"),
        (1, False, 4, "nothing"),
        (1, False, 5, "planned"),
        (1, True, 3, "planned"),
        (1, True, 2, "nothing"),
    ],
)
def test_append_tables_are_planned_by_their_own_rules(
    catalog: Catalog, bucket: int | None, full: bool, commits: int, state: str
) -> None:
    table = make_append(catalog, commits=commits, bucket=bucket)
    result = table.compact(full=full, dry_run=True)
    assert show(result) == [(0, state)]
    assert result.buckets[0].files == commits
    assert result.buckets[0].outcome.endswith(".")


def test_a_compaction_goes_by_the_options_of_its_moment(catalog: Catalog) -> None:
    table = make(catalog, days=1, commits=3)
    outcome = table.compact(dry_run=True).buckets[0].outcome
    assert outcome == "3 files of level 0 are compacted, as was asked for."
    table.alter(set={"num-sorted-run.compaction-trigger": 2, "compaction.max-size-amplification-percent": 10})
    assert "more than 10 % of the oldest one's" in table.compact(dry_run=True).buckets[0].outcome
    table.alter(unset=["num-sorted-run.compaction-trigger"])
    assert table.compact(dry_run=True).buckets[0].outcome == outcome
    with pytest.raises(InvalidArgument, match=r"'compaction.min.file-num' = '3' is not possible"):
        table.alter(set={"compaction.min.file-num": 3})
    events = make_append(catalog, commits=4, bucket=1)
    assert show(events.compact(dry_run=True)) == [(0, "nothing")]
    events.alter(set={"compaction.min.file-num": 3})
    assert show(events.compact(dry_run=True)) == [(0, "planned")]


def test_who_does_not_wait_gets_the_jobs(catalog: Catalog) -> None:
    table = make(catalog, days=1)
    result = table.compact(full=True, wait=False)
    assert {each.state for each in result.buckets} == {CompactionState.REQUESTED}
    jobs = find_jobs(catalog, table)
    assert set(result.job_ids) == {job.job_id for job in jobs}
    assert {(job.kind, job.state, job.payload[STRATEGY]) for job in jobs} == {(COMPACT, JobState.DUE, FULL)}
    # Asking again does not weaken it.
    assert table.compact(wait=False).job_ids == result.job_ids
    assert {job.payload[STRATEGY] for job in find_jobs(catalog, table)} == {FULL}


def test_a_failed_job_is_an_error_that_names_its_reason_once_the_others_ended(catalog: Catalog) -> None:
    table = make(catalog, days=1)

    def do(job: Job) -> str:
        if len(done) == 0:
            done.append(job)
            raise ValueError("data/x.parquet is damaged")
        done.append(job)
        return "did it"

    done: list[Job] = []
    with (
        working(catalog.metastore, do),
        pytest.raises(JobFailed, match=r"1 bucket has failed \(3 of 4 jobs are done\).*x.parquet is damaged") as error,
    ):
        table.compact(full=True)
    assert error.value.reason == "COMPACTION_FAILED"
    failed = done[0]
    assert f"job {failed.job_id} (shop.orders, dt=2022-01-08 shop=" in str(error.value)
    # Asked for again it is tried again, at once.
    with working(catalog.metastore, lambda job: "did it now"):
        again = table.compact(full=True)
    assert {each.state for each in again.buckets} == {CompactionState.DONE}


def test_what_is_asked_for_while_it_is_done_is_waited_for_until_it_was_done_again(catalog: Catalog) -> None:
    table = make_append(catalog, commits=3)
    table.compact(wait=False)
    job = catalog.metastore.lease_job([COMPACT], [table.uuid], "slow", duration_ms=60_000)
    assert job is not None
    table.append(pa.table({"id": [9]}))
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(table.compact, full=True)
        while not find_jobs(catalog, table)[0].requested:
            time.sleep(0.01)
        catalog.metastore.finish_job(job.job_id, job.epoch, "without the newest file")
        time.sleep(0.5)
        assert not waiting.done()
        with working(catalog.metastore, lambda job: "with it") as taken:
            assert waiting.result(20).buckets[0].outcome == "with it"
    assert len(taken) == 1
    assert taken[0].epoch > job.epoch


def test_without_a_compactor_the_wait_ends_and_says_what_to_start(catalog: Catalog) -> None:
    table = make_append(catalog, commits=3)
    began = time.monotonic()
    with pytest.raises(
        Unavailable, match=r"start one by `lakelog compactor run`.*job \d+ \(shop.events, bucket 0\)"
    ) as error:
        table.compact(timeout=0.5)
    assert 0.4 < time.monotonic() - began < 5
    assert error.value.reason == "COMPACTION_WAITS"
    (job,) = find_jobs(catalog, table)
    assert job.state is JobState.DUE
    # One that is busy with others is told apart.
    other = make(catalog, days=1)
    other.compact(wait=False, partitions=[{"shop": "a"}])
    assert catalog.metastore.lease_job([COMPACT], [other.uuid], "busy", duration_ms=60_000)
    with pytest.raises(Unavailable, match=r"busy with 1 other jobs: start more"):
        table.compact(timeout=0)


def test_a_compaction_that_goes_on_may_take_longer_than_the_timeout(catalog: Catalog) -> None:
    table = make_append(catalog, commits=3)
    began = time.monotonic()

    def do(job: Job) -> str:
        time.sleep(1.5)
        return "at last"

    with working(catalog.metastore, do):
        assert table.compact(timeout=0.4).buckets[0].outcome == "at last"
    assert time.monotonic() - began > 1.4


def test_a_table_that_is_dropped_ends_the_wait(catalog: Catalog) -> None:
    table = make_append(catalog, commits=3)
    threading.Timer(0.3, lambda: catalog.drop_table("shop.events")).start()
    with pytest.raises(NotFound, match=r"shop.events was dropped"):
        table.compact()
    with pytest.raises(NotFound, match=r"shop.events was dropped"):
        table.compact()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"full": "no"}, "full='no' is neither True nor False"),
        ({"wait": 1}, "wait=1 is neither"),
        ({"dry_run": None}, "dry_run=None is neither"),
        ({"timeout": -1}, "timeout=-1 is no time to wait"),
        ({"timeout": "1"}, "timeout='1' is no time"),
        ({"partitions": {"shop": "a"}}, r"is one dict: give a list of them, here \[\{'shop': 'a'\}\]"),
        ({"partitions": "a"}, "is one text: give a list of dicts"),
        ({"partitions": []}, r"partitions=\[\] names no partition"),
        ({"partitions": [{}]}, r"partitions has \{\}: give dicts of values by partition column"),
        ({"partitions": ["a"]}, "partitions has 'a'"),
        ({"partitions": [{"id": 1}]}, "'id' is no partition column of shop.orders; these are dt, shop"),
        ({"partitions": [{"dt": "yesterday"}]}, "'yesterday' for column 'dt', which is of type date32"),
        ({"where": "id > 3"}, "uses 'id', which is no partition column of shop.orders.*use only dt, shop"),
        ({"where": "shop = 'a' OR v = 'x'"}, "uses 'v'"),
        ({"where": "nope = 1"}, "nope"),
        ({"where": 3}, "condition given as text"),
    ],
)
def test_wrong_arguments_are_named_with_a_remedy(catalog: Catalog, arguments: dict[str, Any], message: str) -> None:
    table = make(catalog, commits=1, days=1)
    with pytest.raises(InvalidArgument, match=message):
        table.compact(**arguments)
    assert find_jobs(catalog, table) == []


def test_partitions_that_are_not_there_are_named(catalog: Catalog) -> None:
    table = make(catalog, commits=1, days=1)
    with pytest.raises(NotFound, match=r"shop.orders has no partition dt=2022-01-09, shop=a") as error:
        table.compact(partitions=[{"shop": "a"}, {"dt": "2022-01-09", "shop": "a"}])
    assert error.value.reason == "PARTITION_NOT_FOUND"
    with pytest.raises(InvalidArgument, match=r"shop.events has no partitions that where='id > 3' could choose"):
        make_append(catalog, commits=1).compact(where="id > 3")
