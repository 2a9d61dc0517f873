"""One of two metastores frozen at each step of a commit: the other goes on, and the first doubles nothing."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import get_args

import pytest

import lakelog
from bench.faults.network import Hub, bounded
from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.embedded.ports import free_ports
from lakelog.embedded.services import is_serving
from lakelog.errors import LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.sdk.catalog import Catalog
from lakelog.testing.postgres_proxy import CommitStep

pytestmark = pytest.mark.e2e

STEPS = get_args(CommitStep)
WITHIN_S = 20.0
"""For a commit at the other metastore; the database ends idle transactions after a second here."""
STUCK_S = 2.0
ONCE = RetryPolicy(first_backoff_s=1e9, max_backoff_s=1e9)


@dataclass
class Two:
    """Two metastores over one database. The connections of the first go through a proxy, those of the second do not."""

    hub: Hub
    second: Catalog
    first: str = "metastore"
    first_target: str = ""
    frozen: threading.Event = field(default_factory=threading.Event)

    def freeze(self) -> None:
        self.hub.stack.pause(self.first)
        self.frozen.set()

    def thaw(self) -> None:
        """What stopped on its way arrives first, then the metastore wakes up."""
        self.hub.database.heal()
        self.hub.stack.resume(self.first)


def add_metastore(hub: Hub, name: str, **variables: str) -> str:
    target = f"127.0.0.1:{free_ports(1)[0]}"
    hub.stack.add_service(
        "metastore",
        ["serve", "--warehouse", hub.stack.warehouse, "--listen", target, "--insecure-dev"],
        name=name,
        environment=variables,
        is_ready=lambda: is_serving(target),
    )
    return target


@pytest.fixture(scope="module")
def second(shared_hub: Hub) -> Iterator[Catalog]:
    target = add_metastore(shared_hub, "second", LAKELOG_DATABASE_URL=shared_hub.database_url)
    with lakelog.connect(target) as catalog:
        yield catalog
    shared_hub.stack.kill("second")


@pytest.fixture
def two(hub: Hub, second: Catalog) -> Two:
    return Two(hub, second, first_target=hub.stack.target)


def request(catalog: Catalog, table: str, writer: str, identifier: int) -> CommitRequest:
    info = catalog.table(table).info
    change = Change(info.table_uuid, SnapshotKind.APPEND, info.schema.schema_id, -1, allow_empty=True)
    return CommitRequest(writer, identifier, (change,))


@contextmanager
def frozen_in_a_commit(two: Two, table: str, step: CommitStep) -> Iterator[list[object]]:
    """The first metastore frozen while it commits w/2 of a table; gives what its client gets in the end."""
    got: list[object] = []
    two.frozen.clear()
    commit = request(two.second, table, "w", 2)
    metastore = GrpcMetastore(two.first_target, deadlines=Deadlines(call_s=WITHIN_S), retries=ONCE)
    metastore.commit(request(two.second, table, "w", 1))
    two.hub.database.stop_at(step, two.freeze)

    def run() -> None:
        try:
            got.append(metastore.commit(commit))
        except LakelogError as error:
            got.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    assert two.frozen.wait(WITHIN_S), "the commit did not come to the step"
    try:
        yield got
    finally:
        two.thaw()
        thread.join(WITHIN_S * 2)
        metastore.close()
    assert not thread.is_alive(), "the client of the frozen metastore hangs"


@pytest.mark.parametrize("step", STEPS)
def test_another_metastore_goes_on_and_the_frozen_one_changes_nothing_twice(two: Two, step: CommitStep) -> None:
    table = two.hub.table()
    committed = two.second.metastore.commit
    with frozen_in_a_commit(two, table, step) as got:
        bounded(lambda: committed(request(two.second, table, "other", 1)), WITHIN_S, "another writer's commit")
        repeated = committed(request(two.second, table, "w", 2))
        assert got == [], "it was answered, so the fault is not the one meant"
    # The woken one repeats nothing; its client got the same result, or does not know it.
    (first,) = got
    if isinstance(first, LakelogError):
        assert isinstance(first, (OutcomeUnknown, Unavailable)), first
    else:
        assert first == repeated
    assert committed(request(two.second, table, "w", 2)) == repeated
    snapshots = two.second.table(table).snapshots().to_pylist()
    assert [each["id"] for each in snapshots] == [1, 2, 3]
    expected = [("w", 2), ("other", 1)] if step == "before the answer" else [("other", 1), ("w", 2)]
    assert [(each["writer"], each["identifier"]) for each in snapshots] == [("w", 1), *expected]
    # Both serve, and see each other's commits.
    with lakelog.connect(two.first_target) as first_again:
        bounded(lambda: first_again.metastore.commit(request(first_again, table, "w", 3)), WITHIN_S, "it serves again")
    committed(request(two.second, table, "w", 4))
    assert two.second.table(table).snapshots().column("id").to_pylist() == [1, 2, 3, 4, 5]


def test_control_without_the_limit_of_idle_transactions_others_wait_for_the_frozen_one(two: Two) -> None:
    variables = {"LAKELOG_DATABASE_URL": two.hub.stack.database_url, "LAKELOG_DATABASE_IDLE": "25"}
    two.first, two.first_target = "patient", add_metastore(two.hub, "patient", **variables)
    table = two.hub.table()
    commit = request(two.second, table, "other", 1)
    with (
        frozen_in_a_commit(two, table, "holding locks"),
        pytest.raises(TimeoutError, match="another writer's commit"),
    ):
        bounded(lambda: two.second.metastore.commit(commit), STUCK_S, "another writer's commit")
    # When it wakes up, its commit is complete, and then the other's.
    two.second.metastore.commit(commit)
    assert two.second.table(table).snapshots().column("writer").to_pylist() == ["w", "w", "other"]
    two.hub.stack.kill("patient")


def test_control_a_commit_under_another_number_is_done_twice(two: Two) -> None:
    table = two.hub.table()
    with frozen_in_a_commit(two, table, "before the answer"):
        two.second.metastore.commit(request(two.second, table, "w", 3))
    assert two.second.table(table).snapshots().column("id").to_pylist() == [1, 2, 3]
