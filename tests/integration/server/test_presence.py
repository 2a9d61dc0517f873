"""Presence over real processes: metastores, compactors, publishers and readers are listed; ends, kills, outages."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

import lakelog
from lakelog.cli.app import run
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.printer import Printer
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import PermissionDenied
from lakelog.format.jobs.presence import Liveness, Service, ServiceReport, ServiceState
from lakelog.serving.access import Access, parse_token_file
from metastore.postgres.connection.connections import libpq_url
from tests.integration.server.metastore_process import ROOT, Process, environment
from tests.integration.server.running_server import RunningServer, ScriptedUseCases
from tests.support.forked import ForkedProcess, preload

Serve = Callable[..., Process]

preload("compactor.config", "compactor.wiring", "reader.config", "reader.wiring", "writer.publishing.wiring")

_MODULES = {
    "compactor": ("compactor", "run", "--metrics-port", "0"),
    "publisher": ("writer", "publish"),
    "reader": ("reader", "serve", "--insecure-dev", "--listen", "127.0.0.1:0"),
}


class ServiceProcess:
    """A service as a process of its own."""

    def __init__(self, kind: str, target: str, log: Path) -> None:
        self.log = log
        module, *arguments = _MODULES[kind]
        self.process = ForkedProcess(
            module,
            arguments,
            folder=ROOT,
            environment=environment(LAKELOG_TARGET=target),
            output=Path(os.devnull),
            stderr=log,
        )

    def end(self, number: signal.Signals) -> int:
        self.process.send_signal(number)
        return self.process.wait(30)

    def said(self, event: str) -> int:
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return sum(line["event"].startswith(event) for line in lines)


Start = Callable[[str, str], ServiceProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[ServiceProcess] = []

    def begin(kind: str, target: str) -> ServiceProcess:
        started.append(ServiceProcess(kind, target, tmp_path / f"{kind}-{len(started)}.log"))
        return started[-1]

    yield begin
    for service in started:
        if service.process.poll() is None:
            service.end(signal.SIGKILL)


def wait_until(found: Callable[[], Any], within_s: float = 30) -> Any:
    give_up_s = time.monotonic() + within_s
    while not (value := found()):
        assert time.monotonic() < give_up_s
        time.sleep(0.1)
    return value


def find(client: GrpcMetastore, process: subprocess.Popen[str] | ForkedProcess) -> Service | None:
    return next((service for service in client.list_services() if service.pid == process.pid), None)


def find_running(client: GrpcMetastore, service: ServiceProcess) -> Service | None:
    found = find(client, service.process)
    return found if found and found.state is ServiceState.RUNNING else None


def wait_for_running(client: GrpcMetastore, service: ServiceProcess) -> Service:
    found: Service = wait_until(lambda: find_running(client, service), within_s=60)
    return found


def run_status(target: str, *arguments: str) -> str:
    # In this process: on a busy machine one of its own takes as long as a service is silent.
    out = io.StringIO()
    invocation = Invocation(make_printer=lambda output: Printer(output, out, io.StringIO(), 250))
    assert run(("--target", target, "status", *arguments), invocation) == 0
    return out.getvalue()


@pytest.mark.timeout(180)
def test_services_are_listed_while_they_run_and_not_after_a_clean_end(
    serve: Serve, start: Start, migrated_url: str, connect: Callable[..., GrpcMetastore]
) -> None:
    metastore = serve(migrated_url)
    client = connect(metastore.target)
    services = {kind: start(kind, metastore.target) for kind in _MODULES}
    for kind, service in services.items():
        found = wait_for_running(client, service)
        assert (found.kind, found.version) == (kind, lakelog.__version__)
        assert found.liveness is Liveness.PRESENT
    own = wait_until(lambda: find(client, metastore.process))
    assert own.kind == "metastore"
    assert own.state is ServiceState.RUNNING
    assert own.work == (f"serves {metastore.target}",)
    assert metastore.metrics_url == f"http://{own.metrics}/metrics"
    with lakelog.connect(metastore.target) as catalog:
        assert {service.kind for service in catalog.services()} == {"compactor", "metastore", "publisher", "reader"}

    record = json.loads(run_status(metastore.target, "--output", "json"))
    assert {each["kind"]: each["liveness"] for each in record["services"]} == {
        "compactor": "present",
        "metastore": "present",
        "publisher": "present",
        "reader": "present",
    }
    shown = run_status(metastore.target)
    assert "1 compactor, 1 metastore, 1 publisher, 1 reader" in shown
    assert f"serves {metastore.target}" in shown

    for service in services.values():
        service.end(signal.SIGTERM)
        assert find(client, service.process) is None, service.log.read_text()
    assert [service.kind for service in client.list_services()] == ["metastore"]
    metastore.process.send_signal(signal.SIGTERM)
    assert metastore.process.wait(30) == 0
    with psycopg.connect(libpq_url(migrated_url)) as connection:
        assert connection.execute("SELECT count(*) FROM service").fetchone() == (0,)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_killed_service_is_silent_then_gone_and_then_removed(
    serve: Serve, start: Start, migrated_url: str, connect: Callable[..., GrpcMetastore]
) -> None:
    metastore = serve(migrated_url)
    client = connect(metastore.target)
    killed, control = start("compactor", metastore.target), start("compactor", metastore.target)
    for service in (killed, control):
        wait_for_running(client, service)
    killed.end(signal.SIGKILL)

    def liveness(service: ServiceProcess) -> Liveness | None:
        found = find(client, service.process)
        return None if found is None else found.liveness

    assert liveness(killed) is Liveness.PRESENT
    wait_until(lambda: liveness(killed) is Liveness.SILENT, within_s=60)
    shown = run_status(metastore.target)
    assert "1 compactor, 1 metastore; 1 silent" in shown
    assert re.search(r"^compactor +silent for [345][0-9] s ", shown, re.MULTILINE)
    wait_until(lambda: liveness(killed) is Liveness.GONE, within_s=60)
    shown = run_status(metastore.target)
    assert "1 compactor, 1 metastore; 1 gone" in shown
    assert re.search(r"^compactor +gone for 1 min ", shown, re.MULTILINE)
    assert liveness(control) is Liveness.PRESENT
    # Ten minutes later; the next report of the control removes it.
    with psycopg.connect(libpq_url(migrated_url), autocommit=True) as connection:
        connection.execute(
            "UPDATE service SET reported_at_ms = reported_at_ms - 600000 WHERE pid = %s", (killed.process.pid,)
        )
        assert liveness(killed) is None
        wait_until(lambda: connection.execute("SELECT count(*) FROM service").fetchone() == (2,))
    assert liveness(control) is Liveness.PRESENT


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_an_outage_of_the_metastore_harms_no_service_and_its_presence_comes_back(
    serve: Serve, start: Start, migrated_url: str, connect: Callable[..., GrpcMetastore]
) -> None:
    first = serve(migrated_url)
    compactor = start("compactor", first.target)
    before = wait_for_running(connect(first.target), compactor)
    first.process.kill()
    first.process.wait()
    wait_until(lambda: compactor.said("presence is not reported"))
    time.sleep(6)
    assert compactor.process.poll() is None
    assert compactor.said("presence is not reported") == 1
    second = serve(migrated_url, "--listen", first.target)
    client = connect(second.target)
    wait_until(lambda: compactor.said("presence is reported again"))
    after = find(client, compactor.process)
    assert after is not None
    assert after.liveness is Liveness.PRESENT
    assert (after.instance_id, after.started_at_ms) == (before.instance_id, before.started_at_ms)
    # The replica that was killed is another one than that in its place.
    assert find(client, first.process) is not None
    assert find(client, second.process) is not None
    assert compactor.end(signal.SIGTERM) == 0
    assert find(client, compactor.process) is None


def test_reports_need_the_role_of_services_and_the_list_that_of_readers(
    start_server: Callable[..., RunningServer], connect: Callable[..., GrpcMetastore]
) -> None:
    tokens = parse_token_file(
        "ann reader reader-token-0123456789\nbob writer writer-token-0123456789\n", "tokens"
    ).tokens
    entered: list[ServiceReport] = []

    class WithServices(ScriptedUseCases):
        async def report_presence(self, report: ServiceReport) -> None:
            entered.append(report)

        async def list_services(self) -> list[Service]:
            return []

    server = start_server(WithServices(), access=Access(tokens=tokens))
    report = ServiceReport("reader", "a" * 32, "h", 1, "0", ServiceState.RUNNING, (), "", 0, 20_000)
    reader = connect(server.target, token="reader-token-0123456789")
    assert reader.list_services() == []
    with pytest.raises(PermissionDenied, match="ReportPresence needs writer"):
        reader.report_presence(report)
    assert entered == []
    connect(server.target, token="writer-token-0123456789").report_presence(report)
    assert entered == [report]
