"""Commits of as many files as one may have, several at once. The client makes the request once, without objects."""

from __future__ import annotations

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.synchronize import Event
from typing import Any, Final

import grpc

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.rpc.v1 import snapshots_pb2, types_pb2

_COMMIT: Final = "/lakelog.rpc.v1.SnapshotService/Commit"
_ATTEMPT: Final = b"a" * 32
_CHANGES_TAG: Final = b"\x3a"
_OPTIONS: Final = [("grpc.max_send_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]


class BulkCommits:
    """Commits of many files to one table.

    Args:
        target: The metastore.
        table: The table's uuid.
        files: How many files each commit has.
    """

    def __init__(self, target: str, table: str, files: int) -> None:
        self._target = target
        self._table = table
        self._change = make_change(table, files)
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()

    def send(self, timeout_s: float = 120) -> int:
        """Makes one commit over a connection of its own, and returns its snapshot."""
        with self._lock:
            number = next(self._numbers)
        metastore = GrpcMetastore(self._target)
        try:
            attempt = metastore.stage_attempt([self._table], f"bulk{number}").attempt_id
        finally:
            metastore.close()
        head = snapshots_pb2.CommitRequest(writer=f"bulk{number}", identifier=1, attempt_id=attempt)
        change = self._change.replace(_ATTEMPT, attempt.encode())
        request = head.SerializeToString() + _CHANGES_TAG + _varint(len(change)) + change
        with grpc.insecure_channel(self._target, options=_OPTIONS) as channel:
            call: Any = channel.unary_unary(_COMMIT)
            answer = snapshots_pb2.CommitResponse.FromString(call(request, timeout=timeout_s))
        return answer.results[0].snapshot_id


def make_change(table: str, files: int) -> bytes:
    """The change of a commit, with statistics of five columns for each file."""
    change = snapshots_pb2.Change(table_uuid=table, kind=types_pb2.SNAPSHOT_KIND_APPEND, bucket_count=-1)
    for number in range(files):
        file = change.add_files.add(
            path=f"data/{_ATTEMPT.decode()}/{number:032x}.parquet", row_count=1000, size_bytes=100_000_000
        )
        for column in range(1, 6):
            bound = b"\x01" + number.to_bytes(8, "big")
            file.statistics.columns.add(field_id=column, min_value=bound, max_value=bound)
    return change.SerializeToString()


def commit_at_once(target: str, table: str, begun: Event) -> None:
    """Four commits of 100,000 files at once, again and again."""
    commits = BulkCommits(target, table, 100_000)
    with ThreadPoolExecutor(4) as threads:
        begun.set()
        while True:
            for sent in [threads.submit(commits.send) for _ in range(4)]:
                # A refusal is as good as an answer here: the client tries again.
                sent.exception()


def largest_messages(target: str, table: str, begun: Event) -> None:
    """Messages of 64 MiB, the most that one may have, two at once; their content is refused."""
    inside = make_change(table, 1000)
    request = b"".join([_CHANGES_TAG + _varint(len(inside)) + inside] * ((63 << 20) // len(inside)))
    with grpc.insecure_channel(target, options=_OPTIONS) as channel:
        call: Any = channel.unary_unary(_COMMIT)
        while True:
            running = [call.future(request, timeout=120) for _ in range(2)]
            begun.set()
            for each in running:
                each.exception()


def _varint(number: int) -> bytes:
    encoded = b""
    while number > 127:
        encoded += bytes((number & 127 | 128,))
        number >>= 7
    return encoded + bytes((number,))
