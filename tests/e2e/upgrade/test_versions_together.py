"""A version beside the one before it, in any order: metastores on one database, services, clients, files and logs."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import psycopg
import pytest

import lakelog
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.sdk.tables.table import Table
from lakelog.testing.history import SeenSnapshot, Write, check_history
from metastore.postgres.connection.connections import libpq_url
from tests.e2e.upgrade.versions import extract_previous, read_record
from tests.e2e.upgrade.world import Metastore, World

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300), pytest.mark.slow]

OTHER = {"previous": "present", "present": "previous"}
LOGGED = ("events", "orders")
COMMITS = 40
WAIT_S = 60.0


@dataclass(frozen=True)
class Both:
    """A world, a metastore of each version, and one more of the previous version, which is to be replaced."""

    world: World
    metastores: Mapping[str, str]
    replaced: Metastore


@pytest.fixture(scope="module")
def both(postgres_server: EmbeddedPostgres, kafka_broker: str) -> Iterator[Both]:
    """Metastores on one database, which the present version migrated while those of the previous one ran."""
    with tempfile.TemporaryDirectory(prefix="ll-versions-", ignore_cleanup_errors=True) as name:
        (Path(name) / "previous").mkdir()
        previous = extract_previous(Path(name) / "previous")
        with psycopg.connect(libpq_url(postgres_server.url()), autocommit=True) as connection:
            connection.execute("DROP DATABASE IF EXISTS two_versions WITH (FORCE)")
            connection.execute("CREATE DATABASE two_versions TEMPLATE template0")
        url = postgres_server.url("two_versions")
        (Path(name) / "data").mkdir()
        world = World(previous, url, kafka_broker, Path(name) / "data")
        try:
            world.migrate("previous")
            with psycopg.connect(libpq_url(url)) as connection:
                found = connection.execute("SELECT version_num FROM lakelog_schema_version").fetchone()
            assert found == (read_record()["revision"],)
            first, replaced = world.start_metastore("previous"), world.start_metastore("previous")
            world.migrate("present")
            second = world.start_metastore("present")
            yield Both(world, {"previous": first.target, "present": second.target}, replaced)
        finally:
            world.close()


@pytest.mark.parametrize("server", ["previous", "present"])
@pytest.mark.parametrize("client", ["previous", "present"])
def test_the_usual_work(both: Both, client: str, server: str) -> None:
    """Client and services of a version at a metastore of each; then those of the other see the same, and go on."""
    world, database, target = both.world, f"{client}_at_{server}", both.metastores[server]
    with world.services(client, target) as reader:
        seen = world.use(client, target, reader, "work", database)
        assert len(seen["events changes"]) == 4 * 7
        assert len(seen["orders"]) == 4 * 5
    other = OTHER[client]
    target = both.metastores[OTHER[server]]
    with world.services(other, target) as reader:
        before, after = world.use(other, target, reader, "go on", database)
        assert before == seen
        assert len(after["events changes"]) == 5 * 7
        for version, name in ((client, "events"), (other, "orders")):
            code, said = world.command(version, target, "log", "verify", f"{database}.{name}")
            assert code == 0, said


def test_all_is_replaced_under_load(both: Both) -> None:
    """Two metastores and all services, one after the other, while clients of both versions write and read."""
    world, database = both.world, "load"
    first, second = both.replaced, world.start_metastore("present")
    world.use("present", second.target, "", "make", database)
    with ExitStack() as stack, ThreadPoolExecutor(8) as pool:
        old = stack.enter_context(world.running_services("previous", first.target))
        writers = {
            f"{version}-{place}": pool.submit(
                world.use, version, metastore.target, "", "load", database, f"{version}-{place}", str(COMMITS)
            )
            for version in OTHER
            for place, metastore in (("first", first), ("second", second))
        }
        total = COMMITS * len(writers)
        readers = [
            pool.submit(world.use, version, metastore.target, "", "read", database, str(total))
            for version, metastore in (("previous", first), ("present", first), ("previous", second))
        ]
        with lakelog.connect(second.target) as catalog:
            events = catalog.table(f"{database}.events")
            wait_for(lambda: events.snapshots().num_rows > len(writers), "the load has not begun")
            stack.enter_context(world.running_services("present", second.target))
            first.process.stop()
            first = world.start_metastore("present", first.target)
            for process in old:
                process.stop()
            second.process.stop()
            second = world.start_metastore("present", second.target)
            assert events.snapshots().num_rows < total, "the load ended before all was replaced"
        acknowledged = {name: future.result(120) for name, future in writers.items()}
        shown = [future.result(120) for future in readers]
        writes = [
            Write(name, number, dict.fromkeys(("events", "orders"), (value,)), "acknowledged", 0.0, 1e9)
            for name, values in acknowledged.items()
            for number, value in enumerate(values, 1)
        ]
        with lakelog.connect(second.target) as catalog:
            scanned = catalog.table(f"{database}.events").scan().to_arrow().column("v").to_pylist()
            history = [
                found for name in ("events", "orders") for found in see_history(catalog.table(f"{database}.{name}"))
            ]
        assert [str(finding) for finding in check_history(writes, history)] == []
        assert sorted(scanned) == sorted(value for values in acknowledged.values() for value in values)
        in_order = [[each.snapshot_id, value] for each in history if each.table == "events" for value in each.values]
        assert shown == [in_order] * len(shown), "each subscription shows each row once, in the table's order"
        for name in LOGGED:
            code, said = world.command("present", second.target, "log", "verify", f"{database}.{name}")
            assert code == 0, said


def test_columns_change_after_the_upgrade(both: Both) -> None:
    """Tables of the previous version are altered and read; its clients say that they cannot, and lose nothing."""
    world, database = both.world, "altered"
    world.use("previous", both.metastores["previous"], "", "make", database)
    world.use("previous", both.metastores["previous"], "", "load", database, "w", "3")
    with lakelog.connect(both.metastores["present"]) as catalog:
        for name in LOGGED:
            table = catalog.table(f"{database}.{name}")
            table.alter(columns=[lakelog.RenameColumn("v", "text"), lakelog.AddColumn("n", "INT", default=5)])
            table.append([{"k": 4, "text": "w 4", "n": 4}])
            wanted = [{"k": k, "text": f"w {k}", "n": 5 if k < 4 else 4} for k in range(1, 5)]
            found = table.scan().to_arrow().to_pylist()
            assert sorted(found, key=lambda row: row["k"]) == wanted
            assert table.scan(filter="n = 5 AND text >= 'w 2'").count() == 2
            assert table.scan(snapshot_id=3, filter="v = 'w 3'").to_arrow().to_pylist() == [{"k": 3, "v": "w 3"}]
    for name in LOGGED:
        code, said = world.command("previous", both.metastores["present"], "scan", f"{database}.{name}")
        assert code != 0
        assert "from before columns could change" in said, said
    code, said = world.command("present", both.metastores["present"], "scan", f"{database}.events", "--filter", "n = 4")
    assert code == 0, said
    assert "w 4" in said


def test_a_metastore_that_is_too_old_for_a_call_is_named(both: Both) -> None:
    code, said = both.world.command("present", both.metastores["previous"], "grants", "--to", "ada")
    assert code == 2, said
    assert "older than this client" in said, said
    code, said = both.world.command("present", both.metastores["present"], "grants", "--to", "ada")
    assert code == 0, said


def see_history(table: Table) -> list[SeenSnapshot]:
    """What each snapshot of a table shows."""
    changes = table.changes(0, raw=bool(table.primary_key)).to_arrow()
    values: dict[int, list[str]] = {}
    for number, value in zip(changes.column("_snapshot_id").to_pylist(), changes.column("v").to_pylist(), strict=True):
        values.setdefault(number, []).append(value)
    name = table.name.partition(".")[2]
    return [
        SeenSnapshot(name, number, tuple(values.get(number, ())))
        for number in table.snapshots().column("id").to_pylist()
    ]


def wait_for(happens: Callable[[], bool], what: str) -> None:
    give_up_s = time.monotonic() + WAIT_S
    while not happens():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.05)
