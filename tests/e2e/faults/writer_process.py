"""An SDK client as a process of its own, which dies or freezes where it is told, and writes down what it does.

Each line of its journal is an event with the time (the machine's monotonic clock, which all processes share); a line is
written before what it announces.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa

from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import CommitRequest, CommitResult, Fence, StagedAttempt
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import LocationStores

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.string())])
KEYED = "lab.keyed"
LOG = "lab.log"
ROWS = 9
GRACE_S = 60.0


@dataclasses.dataclass(frozen=True)
class Orders:
    """What the process is to do.

    Args:
        target: The metastore.
        journal: Where it writes down what it does.
        writer: Under which name it commits.
        first: Its first identifier.
        count: How many writes.
        label: Stands in every value, to tell processes of one writer apart.
        end_at: The point at which it kills itself: stage 1, staged 1, stage 2.., file 1.., written,
            committed.
        freeze_at: The same, for stopping itself until somebody lets it go on.
        register: Take the writer's name first, as of `Catalog.register_writer`.
        lease: Take this lease first and commit under its fence.
        new_identifier: Repeat a write with an unknown outcome under another number: the control.
        tables: To which it writes; both for multi-table commits.
        try_s: For how long the client itself repeats a commit.
    """

    target: str
    journal: str
    writer: str
    first: int = 1
    count: int = 1
    label: str = ""
    end_at: str = ""
    freeze_at: str = ""
    register: bool = False
    lease: str = ""
    new_identifier: bool = False
    tables: Sequence[str] = (KEYED, LOG)
    try_s: float = 5.0


class Points:
    """Where the process may end or freeze."""

    def __init__(self, orders: Orders) -> None:
        self._orders = orders
        self._counts: Counter[str] = Counter()

    def reach(self, point: str) -> None:
        if point == self._orders.end_at:
            os.kill(os.getpid(), signal.SIGKILL)
        if point == self._orders.freeze_at:
            note(self._orders, "frozen", at=point)
            os.kill(os.getpid(), signal.SIGSTOP)
            # SUBTLE: another thread may take the signal, and this one runs on until the stop reaches it.
            time.sleep(0.3)

    def count(self, what: str) -> int:
        self._counts[what] += 1
        return self._counts[what]

    def reach_file(self) -> None:
        self.reach(f"file {self.count('file')}")


class PointedMetastore:
    """The real client, with points before and after what a commit asks of it, and the fences that it was told of."""

    def __init__(self, inner: GrpcMetastore, points: Points) -> None:
        self._inner = inner
        self._points = points
        self.fences: tuple[Fence, ...] = ()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def stage_attempt(
        self,
        table_uuids: Sequence[str],
        writer: str,
        *,
        attempt_id: str = "",
        count: int = 1,
        identifier: int | None = None,
        epoch: int = 0,
    ) -> StagedAttempt:
        number = self._points.count("stage")
        self._points.reach(f"stage {number}")
        attempt = self._inner.stage_attempt(
            table_uuids, writer, attempt_id=attempt_id, count=count, identifier=identifier, epoch=epoch
        )
        self._points.reach(f"staged {number}")
        return attempt

    def commit(self, request: CommitRequest) -> CommitResult:
        self._points.reach("written")
        result = self._inner.commit(dataclasses.replace(request, fences=self.fences))
        self._points.reach("committed")
        return result


class PointedStores:
    """The real stores, with a point behind each new file."""

    def __init__(self, points: Points) -> None:
        self._points = points
        self._inner = LocationStores()

    def open(self, location: str) -> ObjectStore:
        store: Any = self._inner.open(location)
        points = self._points

        class PointedStore:
            def __getattr__(self, name: str) -> Any:
                return getattr(store, name)

            def create(self, path: str) -> Any:
                writer = store.create(path)

                class PointedWriter:
                    def __getattr__(self, name: str) -> Any:
                        return getattr(writer, name)

                    def commit(self) -> int:
                        size = writer.commit()
                        points.reach_file()
                        return int(size)

                return PointedWriter()

        return PointedStore()


def note(orders: Orders, event: str, **what: Any) -> None:
    line = json.dumps({"event": event, "at_s": time.monotonic(), "writer": orders.writer, **what})
    with Path(orders.journal).open("a") as journal:
        journal.write(line + "\n")


def values_of(orders: Orders, identifier: int) -> list[str]:
    return [f"{orders.writer}.{identifier}.{row}{orders.label}" for row in range(ROWS)]


def rows_of(orders: Orders, identifier: int) -> pa.Table:
    keys = [hash_free_key(orders.writer, identifier, row) for row in range(ROWS)]
    return pa.table({"k": keys, "v": values_of(orders, identifier)}, schema=SCHEMA)


def hash_free_key(writer: str, identifier: int, row: int) -> int:
    """A key of its own for each row, the same in every process."""
    return int.from_bytes(writer.encode()[-3:], "big") * 10_000_000 + identifier * 100 + row


def main(orders: Orders) -> None:
    """The process, from its start to its end."""
    points = Points(orders)
    client = GrpcMetastore(
        orders.target,
        deadlines=Deadlines(connect_s=2.0, call_s=orders.try_s),
        retries=RetryPolicy(total_s=orders.try_s, commit_total_s=orders.try_s),
    )
    metastore = PointedMetastore(client, points)
    catalog = Catalog(metastore, PointedStores(points))
    if orders.register:
        catalog.register_writer(orders.writer)
    if orders.lease:
        metastore.fences = (Fence(orders.lease, client.acquire_lease(orders.lease, "process", 1000).epoch),)
    for identifier in range(orders.first, orders.first + orders.count):
        write(orders, catalog, identifier)
    note(orders, "done")


def write(orders: Orders, catalog: Catalog, identifier: int) -> None:
    values = values_of(orders, identifier)
    note(orders, "begins", identifier=identifier, values=values, tables=list(orders.tables))
    asked = identifier
    give_up_s = time.monotonic() + GRACE_S
    while True:
        try:
            with catalog.transaction(writer=orders.writer, identifier=asked) as transaction:
                for table in orders.tables:
                    part = transaction.table(table)
                    part.upsert(rows_of(orders, identifier)) if table == KEYED else part.append(
                        rows_of(orders, identifier)
                    )
            assert transaction.result is not None
            outcome, error = ("repeated" if transaction.result.already_applied else "applied"), None
        except (OutcomeUnknown, Unavailable) as failure:
            note(orders, "fails", identifier=identifier, kind=type(failure).__name__, message=failure.message)
            if time.monotonic() > give_up_s:
                raise
            if orders.new_identifier and isinstance(failure, OutcomeUnknown):
                asked += 1_000_000
            time.sleep(0.05)
            continue
        except LakelogError as failure:
            outcome, error = "refused", failure
        note(
            orders,
            "ends",
            identifier=identifier,
            outcome=outcome,
            kind=type(error).__name__ if error else "",
            message=str(error or ""),
        )
        return
