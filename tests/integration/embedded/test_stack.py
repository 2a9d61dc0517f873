from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from lakelog.embedded.kafka.protocol import find_cluster
from lakelog.embedded.services import is_serving, service_command, service_environment, service_module
from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import InvalidArgument, NotFound, Unavailable
from lakelog.testing import embedded_stack
from tests.support.log.kafka_broker import require_kafka

# What the stack relies on: a program that migrates a real database, takes the agreed arguments and tells its health.
METASTORE = """
import argparse, os, signal, sys
from concurrent.futures import ThreadPoolExecutor
import grpc, psycopg
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

parser = argparse.ArgumentParser()
verbs = parser.add_subparsers(dest="verb", required=True)
serve = verbs.add_parser("serve")
for flag in ("--warehouse", "--listen", "--metrics-port"):
    serve.add_argument(flag, required=True)
for flag in ("--insecure-dev", "--migrate"):
    serve.add_argument(flag, action="store_true", required=True)
chosen = parser.parse_args()
with psycopg.connect(os.environ["LAKELOG_DATABASE_URL"].replace("+psycopg", ""), autocommit=True) as connection:
    connection.execute("CREATE TABLE IF NOT EXISTS started (at timestamptz)")
    connection.execute("INSERT INTO started VALUES (now())")
server = grpc.server(ThreadPoolExecutor(2))
servicer = health.HealthServicer()
servicer.set("", health_pb2.HealthCheckResponse.SERVING)
health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
server.add_insecure_port(chosen.listen)
signal.signal(signal.SIGTERM, lambda *_: server.stop(0))
server.start()
print("serving", chosen.warehouse, flush=True)
server.wait_for_termination()
"""


@pytest.fixture
def fake_metastore(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    package = tmp_path / "modules" / "metastore"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text(METASTORE)
    monkeypatch.delitem(sys.modules, "metastore", raising=False)
    monkeypatch.syspath_prepend(str(package.parent))
    yield package / "__main__.py"
    sys.modules.pop("metastore", None)


def starts_recorded(stack: EmbeddedStack) -> int:
    with psycopg.connect(stack.database_url.replace("+psycopg", "")) as connection:
        row = connection.execute("SELECT count(*) FROM started").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.usefixtures("fake_metastore")
def test_a_stack_serves_survives_and_keeps_its_data(tmp_path: Path) -> None:
    folder = tmp_path / "a stack"
    with embedded_stack(folder) as stack:
        assert stack.is_running
        assert is_serving(stack.target)
        assert set(stack.logs) == {"postgres", "metastore"}
        assert stack.last_log_lines("metastore") == [f"serving {stack.warehouse}"]
        assert (folder / "warehouse").is_dir()
        assert stack.warehouse == f"file://{folder}/warehouse".replace(" ", "%20")

        stack.kill("metastore")
        assert not is_serving(stack.target)
        stack.restart("metastore")
        assert is_serving(stack.target)

        stack.pause("metastore")
        assert not is_serving(stack.target)
        stack.resume("metastore")
        assert is_serving(stack.target)

        stack.kill("postgres")
        assert not stack.is_running
        stack.restart("postgres")
        assert starts_recorded(stack) == 2
        target = stack.target
    assert not is_serving(target)
    with embedded_stack(folder) as again:
        assert starts_recorded(again) == 3


@pytest.mark.usefixtures("fake_metastore")
def test_a_foreign_database_takes_the_place_of_our_own(tmp_path: Path, postgres_url: str) -> None:
    with EmbeddedStack(tmp_path / "stack", database_url=postgres_url) as stack:
        assert set(stack.logs) == {"metastore"}
        assert starts_recorded(stack) == 1
    assert not (tmp_path / "stack" / "postgres").exists()


def test_a_service_that_ends_at_once_stops_what_runs(tmp_path: Path, fake_metastore: Path) -> None:
    fake_metastore.write_text("raise SystemExit('the warehouse cannot be written')")
    stack = EmbeddedStack(tmp_path / "stack")
    with pytest.raises(Unavailable, match=r"metastore ended with exit code 1(.|\n)*cannot be written"):
        stack.start()
    assert stack.postgres is not None
    assert not stack.postgres.is_running


def test_only_postgres(tmp_path: Path) -> None:
    with embedded_stack(tmp_path / "stack", services=[]) as stack:
        assert set(stack.logs) == {"postgres"}
        with pytest.raises(NotFound, match="no component 'metastore' in this stack; it has postgres"):
            stack.kill("metastore")


def test_a_stack_with_a_kafka(tmp_path: Path) -> None:
    require_kafka()
    with embedded_stack(tmp_path / "stack", services=[], kafka=True) as stack:
        assert set(stack.logs) == {"postgres", "kafka"}
        host, _, port = stack.kafka.rpartition(":")
        cluster = find_cluster(host, int(port))
        assert cluster is not None
        stack.kill("kafka")
        assert stack.was_killed("kafka")
        assert find_cluster(host, int(port)) is None
        stack.restart("kafka")
        assert find_cluster(host, int(port)) == cluster


def test_services_know_which_brokers_tables_may_name(tmp_path: Path, fake_metastore: Path) -> None:
    fake_metastore.write_text("import os, sys; sys.exit(os.environ['LAKELOG_KAFKA_BROKERS'])")
    brokers = {"LAKELOG_KAFKA_BROKERS": "elsewhere:9092"}
    stack = EmbeddedStack(
        tmp_path, kafka=True, kafka_bootstrap_servers="one:1,two:2", environment={**os.environ, **brokers}
    )
    assert stack.kafka == "one:1,two:2"
    with pytest.raises(Unavailable, match="elsewhere:9092;one:1,two:2"):
        stack.start()
    assert not (tmp_path / "kafka").exists()


def test_services_do_not_see_the_catalog_that_the_shell_names(tmp_path: Path, fake_metastore: Path) -> None:
    fake_metastore.write_text(
        "import os, sys; found = os.environ['LAKELOG_CATALOG'], os.environ['X']\nsys.exit(repr(found))"
    )
    # X is the control: other variables arrive.
    stack = EmbeddedStack(tmp_path, environment={**os.environ, "LAKELOG_CATALOG": "web", "X": "x"})
    with pytest.raises(Unavailable, match=r"\('', 'x'\)"):
        stack.start()


def test_what_cannot_be_started_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="services: 'writer' cannot be started by its name alone"):
        EmbeddedStack(tmp_path, services=["metastore", "writer"])
    with pytest.raises(InvalidArgument, match="'compactor' needs the metastore beside it"):
        EmbeddedStack(tmp_path, services=["compactor"])


def test_services_come_from_the_wheel_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("lakelog/services/reporter", "reporter", "planner"):
        (tmp_path / package).mkdir(parents=True)
        (tmp_path / package / "__main__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    import lakelog

    monkeypatch.setattr(lakelog, "__path__", [*lakelog.__path__, str(tmp_path / "lakelog")])
    assert service_module("reporter") == "lakelog.services.reporter"
    assert service_module("planner") == "planner"
    assert service_command("planner", ["run"]) == [sys.executable, "-m", "planner", "run"]
    inherited = {"PYTHONPATH": "/somewhere", "KEPT": "1"}
    environment = service_environment("planner", inherited)
    assert environment["KEPT"] == "1"
    assert environment["PYTHONPATH"].split(":") == [str(tmp_path), str(Path(lakelog.__file__).parents[1]), "/somewhere"]
    with pytest.raises(NotFound, match="The service nothing is not part of this installation"):
        service_module("nothing")
