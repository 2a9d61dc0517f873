"""What all tests may ask for: a real Postgres, a fresh database in it, all of lakelog running, and a Spark session."""

from __future__ import annotations

import itertools
import os
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from hypothesis import settings
from psycopg import sql

import lakelog
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from tests.support.forked_stack import ForkedStack
from tests.support.log.kafka_broker import shared_broker
from tests.support.log_settings import kept_log_settings
from tests.support.rotation import QUARTERS, find_group, find_other_quarters, is_random, parse_quarter
from tests.support.spark.python_path import PYTHON_PATH
from tests.support.spark.spark_classes import options_with_classes, start_making

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count(1)
SPARK_SCOPE = "spark"
_makers: list[subprocess.Popen[bytes] | None] = []

# Of Spark, here and in the services that tests start.
os.environ.setdefault("SPARK_SUBMIT_OPTS", options_with_classes())
# Of Kafka: a broker takes 2.8 s of CPU for its start and its end instead of 4.3.
os.environ.setdefault("KAFKA_OPTS", "-XX:TieredStopAtLevel=1")

# Deadlines measure the machine, not the code: the first example pays for imports, and other work shares the cores.
settings.register_profile("lakelog", settings.get_profile(settings.get_current_profile_name()), deadline=None)
settings.load_profile("lakelog")


def find_scope(nodeid: str) -> str:
    """What runs in one process of a run in several: all tests of the Spark session, else a file."""
    path = nodeid.partition("::")[0]
    in_session = path.startswith(("tests/integration/spark/", "tests/integration/writer/")) or "in_spark" in path
    return SPARK_SCOPE if in_session or "[spark-" in nodeid else path


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """One session warms up once, and two would fight for the cores."""
    from xdist.scheduler import LoadScopeScheduling

    scheduler: object = LoadScopeScheduling(config, log)
    vars(scheduler)["_split_scope"] = find_scope
    return scheduler


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--quarter",
        type=parse_quarter,
        choices=range(QUARTERS),
        help="of tests that rotate (tests/support/rotation.py) run every fourth, from this one on: 0 to 3, or "
        "`commit` for the number of the commit; without it all run",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long ones first, so that no process ends with them alone; the order within a file stays."""
    if (quarter := config.getoption("--quarter")) is not None:
        left_out = find_other_quarters([find_group(item) for item in items], quarter)
        config.hook.pytest_deselected(items=[items[place] for place in sorted(left_out)])
        items[:] = [item for place, item in enumerate(items) if place not in left_out]
    for item in items:
        if is_random(item) and not item.nodeid.startswith("tests/e2e/"):
            # Another try would be the same history at other moments, and hide what it has found. Those that kill
            # services depend on the machine's moments, too.
            item.add_marker(pytest.mark.flaky(reruns=0))
        if ("spark" in getattr(item, "fixturenames", ())) > (find_scope(item.nodeid) == SPARK_SCOPE):
            raise pytest.UsageError(
                f"{item.nodeid} uses the Spark session, but find_scope in {__file__} does not see it."
            )
    # Of the processes of a run one makes what all use.
    if os.environ.get("PYTEST_XDIST_WORKER", "gw0") == "gw0" and any(map(_starts_spark, items)):
        _makers.append(start_making())
    items.sort(key=lambda item: (find_scope(item.nodeid) != SPARK_SCOPE, item.nodeid.startswith("tests/unit/")))


def pytest_unconfigure() -> None:
    """Called last. Java for Spark runs until this process ends, which is no news behind pytest's closing line."""
    warnings.simplefilter("ignore", ResourceWarning)
    for maker in filter(None, _makers):
        maker.wait()


def _starts_spark(item: pytest.Item) -> bool:
    return find_scope(item.nodeid) == SPARK_SCOPE or item.get_closest_marker("spark") is not None


@pytest.fixture
def kept_logs() -> Iterator[None]:
    """For tests that set the logs of this process up, as services do."""
    with kept_log_settings():
        yield


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[EmbeddedPostgres]:
    """One Postgres for the test run: it comes from the lock file, so a start that fails is a failure, never a skip."""
    # Not pytest's own folder: that keeps the data of the last runs, and a Postgres is 40 MB.
    with (
        tempfile.TemporaryDirectory(prefix="ll-", ignore_cleanup_errors=True) as folder,
        EmbeddedPostgres(Path(folder), port=0) as server,
    ):
        yield server


@pytest.fixture
def postgres_url(postgres_server: EmbeddedPostgres) -> Iterator[str]:
    """The address of an empty database of the test's own, in SQLAlchemy's form; about 30 ms to make."""
    # template0 is never connected to, so copying it never waits for another test.
    with _copy_database(postgres_server, "template0") as url:
        yield url


@pytest.fixture(scope="session")
def migrated_template(postgres_server: EmbeddedPostgres) -> str:
    """The name of a database with all tables of the metastore, to be copied."""
    from metastore.postgres import migrate

    name = "metastore_template"
    with _administer(postgres_server) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {} TEMPLATE template0").format(sql.Identifier(name)))
    migrate(postgres_server.url(name))
    return name


@pytest.fixture(scope="module")
def module_url(postgres_server: EmbeddedPostgres, migrated_template: str) -> Iterator[str]:
    """The address of a migrated database of the test module's own."""
    with _copy_database(postgres_server, migrated_template) as url:
        yield url


@pytest.fixture
def migrated_url(postgres_server: EmbeddedPostgres, migrated_template: str) -> Iterator[str]:
    """The address of a migrated database of the test's own."""
    with _copy_database(postgres_server, migrated_template) as url:
        yield url


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[str]:
    """Bootstrap servers of one real Kafka for the test run, whatever processes run it; use topics of your own names.

    Where Kafka cannot be had, tests that ask for it are skipped with the reason, but fail in CI.
    """
    with shared_broker() as servers:
        yield servers


@pytest.fixture(scope="session")
def stack() -> Iterator[EmbeddedStack]:
    """A metastore over a Postgres, as real processes, for the test run."""
    with (
        tempfile.TemporaryDirectory(prefix="ll-", ignore_cleanup_errors=True) as folder,
        ForkedStack(Path(folder)) as running,
    ):
        yield running


@pytest.fixture(scope="session")
def catalog(stack: EmbeddedStack) -> Catalog:
    """The stack's catalog."""
    return lakelog.connect(stack.target)


@pytest.fixture(scope="session")
def spark(stack: EmbeddedStack) -> Iterator[SparkSession]:
    """The Spark session of this process, with lakelog installed for the stack."""
    import lakelog.spark

    # Executors and planning processes have other working directories than we have.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [PYTHON_PATH, os.environ.get("PYTHONPATH")]))
    with tempfile.TemporaryDirectory(prefix="ll-spark-", ignore_cleanup_errors=True) as folder:
        session = lakelog.spark.build_session(
            "tests",
            "local[2,2]",
            {
                "spark.sql.warehouse.dir": folder,
                "spark.driver.memory": "2g",
                "spark.log.level": "OFF",
                # Whatever depends on the session's zone shows itself.
                "spark.sql.session.timeZone": "America/New_York",
            },
        )
        lakelog.spark.install(session, stack.target)
        yield session
        session.stop()


@contextmanager
def _copy_database(server: EmbeddedPostgres, template: str) -> Iterator[str]:
    name = sql.Identifier(database := f"test_{next(_numbers)}")
    with _administer(server) as connection:
        # Of files, and not through the write-ahead log: to make and to drop one takes 0.1 s of CPU instead of 0.18,
        # and to migrate an empty one 0.24.
        copy = sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY file_copy")
        connection.execute(copy.format(name, sql.Identifier(template)))
    yield server.url(database)
    if server.is_running:
        with _administer(server) as connection:
            connection.execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(name))


def _administer(server: EmbeddedPostgres) -> psycopg.Connection[tuple[object, ...]]:
    return psycopg.connect(server.url().replace("+psycopg", ""), autocommit=True)
