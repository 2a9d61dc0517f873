"""`$jobs` and `$job_runs`: conditions narrow what is requested, and callers see only their tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest

from lakelog.format.jobs.job import COMPACT, FULL, STRATEGY
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from tests.contract.grants.world import ELSEWHERE, World, name_of, open_world


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with open_world() as opened:
        root, uuid = opened.root, opened.table.table_uuid
        root.request_jobs(uuid, COMPACT, [f"/{n}" for n in range(3)], {STRATEGY: FULL})
        for number in range(2):
            job = root.lease_job([COMPACT], [uuid], "a compactor", duration_ms=60_000)
            assert job is not None
            if number:
                root.fail_job(job.job_id, job.epoch, "the disk is full", final=True)
            else:
                root.finish_job(job.job_id, job.epoch, "rewrote 3 files (1 MiB) into 1 (1 MiB)")
        yield opened


def read(world: World, name: str, condition: str | None = None, caller: str = "root") -> list[dict[str, Any]]:
    with closing(Catalog(world.connect(caller), LocationStores())) as catalog:
        return catalog.system_table(name).scan(filter=condition).to_arrow().to_pylist()


def test_conditions_on_jobs(world: World) -> None:
    jobs = read(world, "shop.orders$jobs")
    assert sorted(each["state"] for each in jobs) == ["done", "due", "failed"]
    failed = next(each for each in jobs if each["state"] == "failed")
    for name in ("shop.orders$jobs", "sys.jobs"):
        assert [each["id"] for each in read(world, name, "state = 'failed'")] == [failed["id"]]
        assert [each["id"] for each in read(world, name, f"id = {failed['id']}")] == [failed["id"]]
        assert read(world, name, "state = 'nonsense'") == []
        assert read(world, name, "kind = '<b>'") == []
        assert read(world, name, f"id IN (-5, 0, {2**63 - 1})") == []
    assert len(read(world, "shop.orders$jobs", "kind = 'compact' AND state IN ('done', 'due')")) == 2


def test_conditions_on_runs(world: World) -> None:
    newest, oldest = read(world, "shop.orders$job_runs")
    assert (newest["result"], newest["message"], newest["bucket"]) == ("failed", "the disk is full", 1)
    assert (oldest["result"], oldest["holder"], oldest["partition"]) == ("done", "a compactor", None)
    assert oldest["started_at"] <= oldest["ended_at"]
    assert read(world, "shop.orders$job_runs", "result = 'failed'") == [newest]
    assert read(world, "shop.orders$job_runs", "result = 'nonsense' OR kind = '<b>'") == []
    (shown,) = read(world, "sys.job_runs", "result = 'done' AND kind = 'compact'")
    assert (shown["database"], shown["table"], shown["id"]) == ("shop", "orders", oldest["id"])


def test_runs_of_other_tables_are_hidden(world: World) -> None:
    assert read(world, "sys.job_runs", caller=name_of(ELSEWHERE)) == []
    assert read(world, "sys.job_runs", caller="no-grant") == []
    assert len(read(world, "sys.job_runs", caller="reader-of-the-table")) == 2
