"""A metastore with the settings for a machine of 512 MiB stays within it under the worst requests, all together.

Where this process may make memory cgroups, the kernel ends the metastore when it needs more; elsewhere the peak of its
resident memory is compared. The control does not count entries of requests: the same requests exceed the limit.
"""

from __future__ import annotations

import contextlib
import socket
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest

import lakelog
from bench.budget.bulk_commits import BulkCommits
from bench.budget.measuring import METASTORE_BYTES, start_metastore
from bench.budget.memory_group import MemoryGroup, memory_group
from bench.budget.service_process import ServiceProcess
from lakelog.embedded.services import service_environment
from lakelog.rpc.v1 import snapshots_pb2

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])
FILES = 15_000
EMPTY_CHANGES = b"\x3a\x00" * (4 << 20)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00"
UNPROTECTED = Path(__file__).with_name("unprotected_metastore.py")


class Metastore:
    """A metastore in its memory group, if there can be one."""

    def __init__(self, database_url: str, folder: Path, group: MemoryGroup | None, program: Sequence[str] = ()) -> None:
        self._group = group

        def start(command: list[str]) -> ServiceProcess:
            environment = service_environment("metastore", {"LAKELOG_DATABASE_URL": database_url})
            # The first words of the command are the interpreter, `-m` and the module.
            changed = [sys.executable, *program, *command[3:]] if program else command
            return ServiceProcess(changed, environment, folder / "metastore.log", group)

        self.process = start_metastore(database_url, folder, start, migrates=False)
        self.target = self.process.wait_for_line("metastore ready on").split(" on ", 1)[1].split(" ", 1)[0]

    @property
    def was_ended_for_its_memory(self) -> bool:
        return self._group is not None and self._group.count_kills() > 0


@pytest.fixture
def group() -> Iterator[MemoryGroup | None]:
    with memory_group(METASTORE_BYTES) as made:
        yield made


def flood_with_empty_changes(target: str, count: int) -> list[grpc.StatusCode]:
    options = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(target, options=options) as channel:
        call: Any = channel.unary_unary("/lakelog.rpc.v1.SnapshotService/Commit")
        return [each.code() for each in [call.future(EMPTY_CHANGES, timeout=60) for _ in range(count)]]


@contextlib.contextmanager
def idle_clients(target: str, table: str) -> Iterator[None]:
    """300 watches of one connection, and 300 connections that send nothing after their first bytes."""
    host, _, port = target.rpartition(":")
    request = snapshots_pb2.WatchRequest(positions=[snapshots_pb2.WatchPosition(table_uuid=table)]).SerializeToString()
    with ExitStack() as stack:
        channel = stack.enter_context(grpc.insecure_channel(target))
        watch: Any = channel.unary_stream("/lakelog.rpc.v1.SnapshotService/Watch")
        watches = [watch(request) for _ in range(300)]
        for _ in range(300):
            connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=10))
            connection.sendall(PREFACE)
        yield
        for each in watches:
            each.cancel()


def test_the_worst_requests_together_stay_within_the_budget(
    migrated_url: str, tmp_path: Path, group: MemoryGroup | None
) -> None:
    metastore = Metastore(migrated_url, tmp_path, group)
    try:
        with lakelog.connect(metastore.target) as catalog:
            catalog.create_database("d")
            bulk, honest = catalog.create_table("d.bulk", SCHEMA), catalog.create_table("d.honest", SCHEMA)
            commits = BulkCommits(metastore.target, bulk.uuid, FILES)
            watch = metastore.process.watch()
            with idle_clients(metastore.target, bulk.uuid), ThreadPoolExecutor(4) as threads:
                floods = threads.submit(flood_with_empty_changes, metastore.target, 4)
                sent = [threads.submit(commits.send) for _ in range(3)]
                honest.append(pa.table({"id": [1]}, SCHEMA))
                assert sorted(each.result() for each in sent) == [1, 2, 3]
                assert set(floods.result()) == {grpc.StatusCode.INVALID_ARGUMENT}
            usage = watch.stop()
            honest.append(pa.table({"id": [2]}, SCHEMA))
            assert honest.scan().to_arrow().column("id").to_pylist() == [1, 2]
            assert bulk.snapshots().column("added_rows").to_pylist() == [FILES * 1000] * 3
        assert metastore.process.is_running
        assert not metastore.was_ended_for_its_memory
        assert usage.connections > 300, "the connections were not open at once"
        assert usage.resident_bytes < METASTORE_BYTES
    finally:
        metastore.process.end()


def test_control_without_counting_the_entries_one_request_exceeds_the_budget(
    migrated_url: str, tmp_path: Path, group: MemoryGroup | None
) -> None:
    metastore = Metastore(migrated_url, tmp_path, group, program=[str(UNPROTECTED)])
    try:
        watch = metastore.process.watch()
        with ThreadPoolExecutor(1) as threads:
            running = threads.submit(flood_with_empty_changes, metastore.target, 1)
            give_up_s = time.monotonic() + 60
            while metastore.process.is_running and watch.resident_bytes <= METASTORE_BYTES and not running.done():
                assert time.monotonic() < give_up_s
                time.sleep(0.05)
            metastore.process.end()
        usage = watch.stop()
        assert metastore.was_ended_for_its_memory or usage.resident_bytes > METASTORE_BYTES
    finally:
        metastore.process.end()
