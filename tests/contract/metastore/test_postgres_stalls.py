"""A commit that takes long keeps no one waiting who needs nothing of it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any, ClassVar

import pytest

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.request import CommitRequest
from metastore.ownership import Principal
from metastore.postgres.store import PostgresTransaction
from metastore.store.records import GroupRecords
from metastore.testing import InProcessMetastore
from tests.contract.metastore.pausing import paused_store
from tests.support.metastore.making import empty, make_change, make_file, make_table
from tests.support.metastore.opening import open_in_process

SOON_S = 5.0


class PausedAtItsEnd(PostgresTransaction):
    """Waits when all is written, so that it holds the name's row too, until the test lets it go on."""

    looked: ClassVar[threading.Event]
    go_on: ClassVar[threading.Event]

    async def record_group(self, records: GroupRecords) -> None:
        await super().record_group(records)
        self.looked.set()
        while not self.go_on.is_set():
            await asyncio.sleep(0.005)


class Slow:
    """A metastore whose commits take as long as the test says."""

    def __init__(self, url: str) -> None:
        store = paused_store(PausedAtItsEnd)
        self._transaction: Any = store.transaction_type
        self.metastore: InProcessMetastore = open_in_process(url, store_type=store)
        self.pool = ThreadPoolExecutor(4)

    def during(self, commit: Callable[[], Any], act: Callable[[], bool]) -> bool:
        """What an act returns while a commit is under way."""
        committing = self.pool.submit(commit)
        try:
            assert self._transaction.looked.wait(10)
            return act()
        finally:
            self._transaction.go_on.set()
            committing.result(10)

    def is_soon(self, call: Callable[[], Any]) -> bool:
        """Whether a call is answered soon."""
        done, _ = wait([self.pool.submit(call)], SOON_S)
        return bool(done)


@pytest.fixture
def slow(migrated_url: str) -> Iterator[Slow]:
    made = Slow(migrated_url)
    yield made
    made.pool.shutdown()
    made.metastore.close()


def test_who_waits_for_a_name_delays_no_other_caller(slow: Slow) -> None:
    alice, bob = (slow.metastore.acting_as(Principal(name)) for name in ("alice", "bob"))
    table, other = make_table(slow.metastore), make_table(slow.metastore)
    # Other tests share the database.
    new, his = f"new-{table.table_uuid}", f"his-{table.table_uuid}"

    def stage(by: Metastore, writer: str) -> str:
        return by.stage_attempt([other.table_uuid], writer).attempt_id

    def act() -> bool:
        # The commit has made alice its owner, which no one knows before it has ended.
        waits = [slow.pool.submit(stage, alice, new) for _ in range(2)]
        soon = slow.is_soon(lambda: stage(bob, his))
        assert not any(each.done() for each in waits), "the fault took effect"
        return soon

    assert slow.during(lambda: alice.commit(empty(table, 1, writer=new)), act)
    assert stage(alice, new)


def test_the_heartbeat_of_a_writer_does_not_wait_for_one_of_its_commits(slow: Slow) -> None:
    """It would keep the heartbeats of all other attempts of the process."""
    metastore = slow.metastore
    table = make_table(metastore)
    first = metastore.stage_attempt([table.table_uuid], "w", count=2, identifier=1)
    attempts = [first.attempt_id, *first.further_ids]
    change = make_change(table, [make_file(attempts[0])])
    renewed: list[str] = []
    assert slow.during(
        lambda: metastore.commit(CommitRequest("w", 1, (change,), attempts[0])),
        lambda: slow.is_soon(lambda: renewed.extend(metastore.renew_attempts(attempts))),
    )
    assert set(renewed) == set(attempts), "the one under commit is not over, as far as one can tell"
    assert metastore.renew_attempts(attempts) == attempts[1:]
