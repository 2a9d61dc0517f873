"""Servers and clients for the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from metastore.server.logging_setup import set_up_logging
from tests.integration.server.metastore_process import Process, migrate
from tests.integration.server.running_server import RunningServer, ScriptedUseCases
from tests.support.log_settings import kept_log_settings

QUICK = RetryPolicy(
    first_backoff_s=0.01, max_backoff_s=0.05, total_s=1.5, commit_total_s=3, watch_total_s=5, spread_s=0.05
)
SHORT = Deadlines(connect_s=1.0, call_s=2.0, plan_s=5.0)


@pytest.fixture(scope="package", autouse=True)
def logs() -> Iterator[None]:
    with kept_log_settings():
        set_up_logging("info")
        yield


@pytest.fixture
def start_server() -> Iterator[Callable[..., RunningServer]]:
    started: list[RunningServer] = []

    def start(use_cases: Any = None, **settings: Any) -> RunningServer:
        settings.setdefault("grace_s", 2.0)
        started.append(RunningServer(use_cases or ScriptedUseCases(), **settings))
        return started[-1]

    yield start
    for server in started:
        server.stop()


@pytest.fixture
def connect() -> Iterator[Callable[..., GrpcMetastore]]:
    opened: list[GrpcMetastore] = []

    def open_client(target: str, **options: Any) -> GrpcMetastore:
        options.setdefault("deadlines", SHORT)
        options.setdefault("retries", QUICK)
        opened.append(GrpcMetastore(target, **options))
        return opened[-1]

    yield open_client
    for client in opened:
        client.close()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    started: list[Process] = []

    def start(database_url: str, *arguments: str) -> Process:
        migrate(database_url)
        log = tmp_path / f"metastore-{len(started)}.log"
        started.append(Process(database_url, tmp_path / "warehouse", *arguments, log=log))
        return started[-1]

    yield start
    for process in started:
        process.end()
