"""Latencies of a light client, without and with another process that abuses the metastore.

The light client and the abuse run in processes of their own: neither waits for the other's interpreter, and the abuse
has the lowest priority.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
import psutil
import pyarrow as pa

import lakelog
from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from lakelog.rpc.v1 import catalog_pb2
from lakelog.testing import EmbeddedStack, embedded_stack

from .abuses import Abuse

SECONDS: Final = 20
AT_MOST_MS: Final = 50
AT_MOST_TIMES: Final = 10
_PAUSE_S: Final = 0.005
_TIMEOUT_S: Final = 10
_SNAPSHOTS: Final = 200
_PROPERTIES_BYTES: Final = 10_000
_SCHEMA: Final = pa.schema([pa.field("id", pa.int64(), nullable=False)])

Fill = Callable[[lakelog.Catalog, Any], None]
"""Prepares a catalog and its table `flood.t` for an abuse."""


def measure_abuse(bench: Bench, name: str, abuse: Abuse, fill: Fill | None = None) -> Iterator[Figure]:
    """The 99th percentile of a light call, quiet and under an abuse, and the growth of the metastore's memory.

    Args:
        bench: The bench that runs the workload.
        name: The name of the abuse, for the figures.
        abuse: See `bench.flood.abuses`.
        fill: Adds what the table needs besides 200 snapshots with 10 KB of properties each.
    """
    seconds = bench.scaled(SECONDS) + 3
    spawn = multiprocessing.get_context("spawn")
    with embedded_stack(bench.folder / name, services=["metastore"]) as stack:
        with lakelog.connect(stack.target) as catalog:
            catalog.create_database("flood")
            table = catalog.create_table("flood.t", _SCHEMA)
            (fill or _fill)(catalog, table)
            uuid = table.uuid
        quiet_ms = _light_calls(spawn, stack, seconds)
        server = _metastore_of(stack)
        before = server.memory_info().rss
        begun = spawn.Event()
        abuser = spawn.Process(target=_abuse, args=(abuse, stack.target, uuid, begun), daemon=True)
        abuser.start()
        try:
            if not begun.wait(60):
                raise WrongAnswerError(f"{name} did not begin within a minute")
            flooded_ms = _light_calls(spawn, stack, seconds)
            after = _peak(server)
        finally:
            abuser.kill()
            abuser.join()
        _check_serves(stack)
    quiet, flooded = _p99(quiet_ms), _p99(flooded_ms)
    yield absolute(f"{name}: light call, p99", "ms", [flooded], target=AT_MOST_MS)
    yield absolute(f"{name}: times the quiet p99", "x", [flooded / quiet], target=AT_MOST_TIMES)
    yield absolute(f"{name}: longest light call", "ms", [max(flooded_ms)])
    yield absolute(f"{name}: growth of the metastore", "MiB", [max(0, after - before) / 2**20])


def _abuse(abuse: Abuse, target: str, table: str, begun: Event) -> None:
    """Abuses the metastore with the CPU that is left: on a machine of its own it would take none of the server's."""
    # The kernel shares CPU among sessions first, and then among the processes of each.
    os.setsid()
    with contextlib.suppress(OSError):
        Path("/proc/self/autogroup").write_text("19", encoding="ascii")
    os.nice(19)
    abuse(target, table, begun)


def leave_empty(catalog: lakelog.Catalog, table: Any) -> None:
    """Adds nothing: idle watches have nothing to send."""


def _fill(catalog: lakelog.Catalog, table: Any) -> None:
    properties = {"text": "x" * _PROPERTIES_BYTES}
    for number in range(_SNAPSHOTS):
        table.append(pa.table({"id": [number]}, _SCHEMA), properties=properties)


def _light_calls(spawn: Any, stack: EmbeddedStack, seconds: float) -> list[float]:
    answers: Queue[list[float]] = spawn.Queue()
    client = spawn.Process(target=_call_lightly, args=(stack.target, seconds, answers), daemon=True)
    client.start()
    try:
        return answers.get(timeout=seconds + 120)
    finally:
        client.join()


def _call_lightly(target: str, seconds: float, answers: Queue[list[float]]) -> None:
    request = catalog_pb2.GetTableRequest(name=catalog_pb2.TableName(database="flood", name="t")).SerializeToString()
    taken_ms: list[float] = []
    with grpc.insecure_channel(target) as channel:
        call: Any = channel.unary_unary("/lakelog.rpc.v1.CatalogService/GetTable")
        for _ in range(20):
            with contextlib.suppress(grpc.RpcError):
                call(request, timeout=_TIMEOUT_S)
        end_s = time.perf_counter() + seconds
        while time.perf_counter() < end_s:
            begun_s = time.perf_counter()
            try:
                call(request, timeout=_TIMEOUT_S)
                taken_ms.append((time.perf_counter() - begun_s) * 1000)
            except grpc.RpcError:
                # A refusal or a lost connection counts as the longest wait.
                taken_ms.append(_TIMEOUT_S * 1000)
            time.sleep(_PAUSE_S)
    answers.put(taken_ms)


def _metastore_of(stack: EmbeddedStack) -> psutil.Process:
    port = int(stack.target.rpartition(":")[2])
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if any(each.laddr.port == port and each.status == "LISTEN" for each in process.net_connections("tcp")):
                return process
    raise WrongAnswerError(f"no process listens on {stack.target}")


def _peak(process: psutil.Process) -> int:
    with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
        peak = next(line for line in status if line.startswith("VmHWM:"))
    return int(peak.split()[1]) * 1024


def _check_serves(stack: EmbeddedStack) -> None:
    with lakelog.connect(stack.target) as catalog:
        table = catalog.table("flood.t")
        before = table.scan().count()
        table.append(pa.table({"id": [-1]}, _SCHEMA))
        if table.scan().count() != before + 1:
            raise WrongAnswerError("a commit after the abuse is not in the table")


def _p99(latencies_ms: list[float]) -> float:
    return float(np.percentile(latencies_ms, 99))
