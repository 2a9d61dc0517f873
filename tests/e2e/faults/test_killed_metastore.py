"""The metastore killed at each step of one commit, told by what the client has done or by what Postgres waits for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from tests.e2e.faults.lab import Lab
from tests.e2e.faults.writer_process import LOG, ROWS

pytestmark = pytest.mark.e2e

# What holds a commit up: before it has read anything, or when it has decided and sends all it records with its COMMIT.
BEFORE_IT_POLLS = "SELECT FROM table_head FOR UPDATE"
WHEN_IT_RECORDS = "LOCK TABLE snapshot IN SHARE MODE"


@contextmanager
def holding(lab: Lab, lock: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Holds a lock until the block ends or rolls back."""
    with psycopg.connect(lab.stack.database_url.replace("+psycopg", "")) as connection:
        connection.execute(lock)
        yield connection
        connection.rollback()


def commits_waiting(lab: Lab) -> int:
    with psycopg.connect(lab.stack.database_url.replace("+psycopg", "")) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND application_name = 'lakelog-metastore'"
        ).fetchone()
    assert row is not None
    return int(str(row[0]))


def snapshots(lab: Lab) -> int:
    with psycopg.connect(lab.stack.database_url.replace("+psycopg", "")) as connection:
        row = connection.execute(
            "SELECT count(*) FROM snapshot JOIN table_head h USING (table_id) WHERE h.table_uuid IS NOT NULL"
        ).fetchone()
    assert row is not None
    return int(str(row[0]))


def start_again(lab: Lab) -> None:
    lab.stack.kill("metastore")
    lab.stack.restart("metastore")


def check_applied_once(lab: Lab) -> None:
    """The write is there once, whole, and nothing of it is left over."""
    assert [event["outcome"] for event in lab.events("ends")] == ["applied"]
    assert lab.check() == []
    assert snapshots(lab) == 2
    with lab.connect() as catalog:
        assert catalog.table(LOG).scan().count() == ROWS
    assert lab.orphans() == {}


@pytest.mark.parametrize("step", ["staged 2", "file 2", "written"])
def test_killed_between_a_clients_requests(lab: Lab, step: str) -> None:
    writer = lab.start_writer("w", freeze_at=step, try_s=20.0)
    writer.wait_until_frozen()
    start_again(lab)
    assert snapshots(lab) == 0
    writer.thaw()
    assert writer.wait() == 0
    check_applied_once(lab)


@pytest.mark.parametrize("lock", [BEFORE_IT_POLLS, WHEN_IT_RECORDS], ids=["before it looks", "when it records"])
def test_killed_in_the_transaction(lab: Lab, lock: str) -> None:
    with holding(lab, lock):
        writer = lab.start_writer("w", try_s=20.0)
        lab.wait_for(lambda: commits_waiting(lab), 30, "a commit waits")
        lab.stack.kill("metastore")
        assert snapshots(lab) == 0
    # SUBTLE: what was sent whole, its COMMIT included, Postgres still does for the dead one, when the lock lets it.
    lab.stack.restart("metastore")
    assert writer.wait() == 0
    check_applied_once(lab)


def test_killed_after_the_commit_before_the_answer(lab: Lab) -> None:
    with holding(lab, WHEN_IT_RECORDS) as holder:
        writer = lab.start_writer("w", try_s=20.0)
        lab.wait_for(lambda: commits_waiting(lab), 30, "a commit waits")
        lab.stack.pause("metastore")
        holder.rollback()
        lab.wait_for(lambda: snapshots(lab) == 2, 30, "it is committed in both tables")
    assert lab.events("ends") == [], "it was answered, so the fault is not the one meant"
    start_again(lab)
    assert writer.wait() == 0
    check_applied_once(lab)
