"""Leases and pipelines."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced, InvalidArgument, NotFound
from lakelog.format.jobs.work import LeaseGrant, Pipeline

REPORT = Pipeline("flights", "shop.flights", "/in", "running", 7, "120 of 365 files", 245, 1000, 3, "")


def test_a_lease_is_held_by_one(metastore: Metastore) -> None:
    granted = metastore.acquire_lease("job", "a", 60_000)
    assert granted == LeaseGrant(True, granted.epoch, "a", 60_000)
    refused = metastore.acquire_lease("job", "b", 60_000)
    assert (refused.acquired, refused.epoch, refused.holder) == (False, granted.epoch, "a")
    assert 50_000 < refused.remaining_ms <= 60_000
    # Nor again by its holder, who may be a process that was started anew.
    assert not metastore.acquire_lease("job", "a", 60_000).acquired
    assert metastore.acquire_lease("other job", "b", 60_000).acquired


def test_a_lease_that_is_given_back_or_over_is_free(metastore: Metastore) -> None:
    first = metastore.acquire_lease("job", "a", 60_000).epoch
    metastore.release_lease("job", first)
    metastore.release_lease("job", first)
    metastore.release_lease("never", 1)
    second = metastore.acquire_lease("job", "b", 1000)
    assert second == LeaseGrant(True, second.epoch, "b", 1000)
    assert second.epoch > first
    metastore.release_lease("job", first)
    assert not metastore.acquire_lease("job", "c", 1000).acquired
    time.sleep(1.1)
    third = metastore.acquire_lease("job", "c", 1000)
    assert third == LeaseGrant(True, third.epoch, "c", 1000)
    assert third.epoch > second.epoch


def test_only_its_holder_renews_a_lease(metastore: Metastore) -> None:
    old = metastore.acquire_lease("job", "z", 60_000).epoch
    metastore.release_lease("job", old)
    epoch = metastore.acquire_lease("job", "a", 1000).epoch
    assert metastore.renew_lease("job", epoch, 60_000) == 60_000
    assert metastore.acquire_lease("job", "b", 1000).remaining_ms > 50_000
    lost = f"Lease 'job' has epoch {epoch} by now and 'a' holds it; the caller's epoch is {old}"
    with pytest.raises(Fenced, match=lost):
        metastore.renew_lease("job", old, 60_000)
    with pytest.raises(Fenced, match=f"does not know epoch {epoch + 1}, and has given only {epoch}"):
        metastore.renew_lease("job", epoch + 1, 60_000)
    metastore.release_lease("job", epoch)
    with pytest.raises(Fenced, match="no one holds it"):
        metastore.renew_lease("job", epoch, 60_000)
    with pytest.raises(Fenced, match="has given none"):
        metastore.renew_lease("never", 1, 60_000)


def test_a_lease_that_is_over_but_not_taken_may_be_renewed(metastore: Metastore) -> None:
    epoch = metastore.acquire_lease("job", "a", 1000).epoch
    time.sleep(1.1)
    assert metastore.renew_lease("job", epoch, 60_000) == 60_000


def test_pipelines_report_under_their_lease(metastore: Metastore) -> None:
    with pytest.raises(Fenced, match="pipeline/flights"):
        metastore.report_pipeline(REPORT, 1)
    lease = metastore.acquire_lease("pipeline/flights", "host-1", 60_000)
    metastore.report_pipeline(REPORT, lease.epoch)
    (found,) = metastore.list_pipelines()
    assert found.reported_at_ms > 1_700_000_000_000
    assert found == replace(REPORT, reported_at_ms=found.reported_at_ms, holder="host-1")
    metastore.report_pipeline(replace(REPORT, state="failed", last_error="żółć 'x'", lag=None), lease.epoch)
    metastore.release_lease("pipeline/flights", lease.epoch)
    (found,) = metastore.list_pipelines()
    assert (found.state, found.last_error, found.lag, found.holder) == ("failed", "żółć 'x'", None, "")
    newer = metastore.acquire_lease("pipeline/flights", "host-2", 60_000)
    with pytest.raises(Fenced, match=f"has epoch {newer.epoch}"):
        metastore.report_pipeline(REPORT, lease.epoch)
    assert metastore.list_pipelines()[0].state == "failed"


def test_a_pipeline_that_ended_is_forgotten_and_its_epoch_is_not(metastore: Metastore) -> None:
    with pytest.raises(NotFound, match="No pipeline 'flights' has reported"):
        metastore.forget_pipeline("flights")
    lease = metastore.acquire_lease("pipeline/flights", "host-1", 60_000)
    metastore.report_pipeline(REPORT, lease.epoch)
    with pytest.raises(InvalidArgument, match="is held by 'host-1'"):
        metastore.forget_pipeline("flights")
    metastore.release_lease("pipeline/flights", lease.epoch)
    metastore.forget_pipeline("flights")
    assert metastore.list_pipelines() == []
    assert metastore.acquire_lease("pipeline/flights", "host-2", 60_000).epoch > lease.epoch
