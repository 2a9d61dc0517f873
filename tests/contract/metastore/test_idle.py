"""What waits costs nothing: how often a store is asked while there is nothing to do."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from lakelog.clock import SystemClock
from lakelog.format.jobs.job import COMPACT
from metastore.heavy_work import HeavyWork
from metastore.memory.store import MemoryTransaction
from metastore.plans.packing import RECOVER_EVERY_S, Packer
from metastore.postgres.store import PostgresTransaction
from metastore.store.transaction import Transaction
from metastore.testing import InProcessMetastore
from tests.contract.metastore.planning import quiet
from tests.support.metastore.making import append, make_table


class _SteppedClock(SystemClock):
    passed_s = 0.0

    def monotonic_s(self) -> float:
        return self.passed_s


@pytest.fixture(params=["memory", "postgres"])
def metastore(request: pytest.FixtureRequest) -> Iterator[InProcessMetastore]:
    with quiet(request, request.param) as opened:
        yield opened


def count_transactions(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """A list that gets an element for each transaction from now on."""
    counted: list[int] = []
    begin = metastore.store.transaction

    @asynccontextmanager
    async def counting() -> AsyncIterator[Transaction]:
        counted.append(1)
        async with begin() as transaction:
            yield transaction

    monkeypatch.setattr(metastore.store, "transaction", counting)
    return counted


def test_a_call_that_waits_for_a_job_rarely_asks_the_store(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    counted = count_transactions(metastore, monkeypatch)
    assert metastore.lease_job([COMPACT], [], "c", duration_ms=1000, wait_ms=600) is None
    assert len(counted) <= 2


def test_control_a_job_that_seems_to_be_due_is_asked_for_again_and_again(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def due_now(*_: object) -> int:
        return 0

    for transaction_type in (MemoryTransaction, PostgresTransaction):
        monkeypatch.setattr(transaction_type, "next_due_ms", due_now)
    counted = count_transactions(metastore, monkeypatch)
    assert metastore.lease_job([COMPACT], [], "c", duration_ms=1000, wait_ms=600) is None
    assert len(counted) > 5


def test_heads_are_searched_for_files_to_pack_only_after_a_commit(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = make_table(metastore)
    packer = metastore.use_cases.packer
    metastore.run(packer.step_if_touched())
    counted = count_transactions(metastore, monkeypatch)
    for _ in range(5):
        assert metastore.run(packer.step_if_touched()) == 0
    assert counted == []
    append(metastore, table, 1)
    counted.clear()
    metastore.run(packer.step_if_touched())
    assert len(counted) == 1


def test_commits_that_another_metastore_forgot_are_packed_later(metastore: InProcessMetastore) -> None:
    table = make_table(metastore)
    append(metastore, table, 1)
    clock = _SteppedClock()
    packer = Packer(metastore.store, HeavyWork(), 1, clock)
    assert metastore.run(packer.step_if_touched()) == 1
    assert metastore.run(packer.step_if_touched()) == 0
    append(metastore, table, 2)
    assert metastore.run(packer.step_if_touched()) == 0
    clock.passed_s += RECOVER_EVERY_S
    assert metastore.run(packer.step_if_touched()) == 1
