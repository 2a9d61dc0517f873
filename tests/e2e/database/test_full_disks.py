"""A database whose disk is full: commits are refused or of unknown outcome, none is lost or doubled, and it goes on."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import psycopg
import pytest

import lakelog
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.errors import LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import CommitRequest
from lakelog.format.tables.table import TableInfo
from metastore.postgres import migrate
from metastore.postgres.connection.connections import libpq_url
from metastore.server.database_probe import DatabaseProbe
from metastore.testing import InProcessMetastore
from tests.e2e.database.two_metastores import repeat
from tests.support.metastore.making import make_change, make_table
from tests.support.metastore.opening import open_in_process
from tests.support.metastore.serving import serving
from tests.support.small_disk import SmallDisk, small_disk

pytestmark = pytest.mark.e2e

ROOM = "200m"


@pytest.fixture
def folder() -> Iterator[Path]:
    # Postgres, which does not run as root, enters it by its path; TMPDIR can be private.
    with tempfile.TemporaryDirectory(prefix="ll-full-", dir="/tmp", ignore_cleanup_errors=True) as name:
        yield Path(name)


@contextmanager
def full_data(folder: Path) -> Iterator[tuple[EmbeddedPostgres, SmallDisk]]:
    """A server with all it has on one small disk."""
    with (
        small_disk([folder / "disk"], ROOM) as disk,
        EmbeddedPostgres(folder / "disk" / "server", log=folder / "log") as server,
    ):
        yield server, disk


@contextmanager
def full_wal(folder: Path) -> Iterator[tuple[EmbeddedPostgres, SmallDisk]]:
    """A server with its write-ahead log on a disk of its own."""
    with small_disk([folder / "disk"], ROOM) as disk:
        server = EmbeddedPostgres(folder / "server")
        with server:
            pass
        log = server.folder / "data" / "pg_wal"
        subprocess.run(["cp", "--archive", str(log), str(folder / "disk" / "wal")], check=True)
        shutil.rmtree(log)
        for passed in (folder, folder / "disk"):
            passed.chmod(0o711)
        log.symlink_to(folder / "disk" / "wal")
        with server:
            yield server, disk


def to_request(table: TableInfo, number: int) -> CommitRequest:
    """Of a commit that takes room in the database."""
    change = make_change(table, allow_empty=True, properties={"p": Random(number).randbytes(30_000).hex()})
    return CommitRequest("w", number, (change,))


def list_identifiers(metastore: InProcessMetastore, table: TableInfo) -> list[int]:
    return [snapshot.identifier for snapshot in metastore.list_snapshots(table.table_uuid).snapshots]


def fill(folder: Path, disk: SmallDisk, room_kb: int) -> None:
    disk.resize(f"{shutil.disk_usage(folder / 'disk').used // 1024 + room_kb}k")


async def answers(url: str) -> bool:
    """What the health check of a metastore says."""
    probe = DatabaseProbe(libpq_url(url))
    try:
        await probe.ping()
    except Unavailable:
        return False
    finally:
        await probe.close()
    return True


def test_no_room_for_tables(folder: Path) -> None:
    with full_data(folder) as (server, disk):
        migrate(server.url())
        metastore = open_in_process(server.url())
        table = make_table(metastore)
        metastore.commit(to_request(table, 1))
        pid = server.pid
        fill(folder, disk, 64)
        number, refused = 1, None
        while refused is None:
            number += 1
            try:
                metastore.commit(to_request(table, number))
            except LakelogError as error:
                refused = error
        assert isinstance(refused, Unavailable), refused
        assert refused.reason == "DATABASE_FULL"
        assert f"disk of the database server {server.folder / 'data'}:5432 is full; nothing happened. Make room" in str(
            refused
        )
        assert "No space left on device" in str(refused)
        done = list(range(1, number))
        assert list_identifiers(metastore, table) == done, "reads go on, and show what was acknowledged"
        assert asyncio.run(answers(server.url())), "the database answers, so metastores go on serving reads"
        with serving(server.url()) as target, lakelog.connect(target) as catalog:
            # A client waits for room.
            waiting = threading.Thread(target=catalog.metastore.commit, args=(to_request(table, number),))
            waiting.start()
            waiting.join(1)
            assert waiting.is_alive()
            disk.resize(ROOM)
            waiting.join(30)
        assert list_identifiers(metastore, table) == [*done, number]
        metastore.commit(to_request(table, number))
        assert list_identifiers(metastore, table) == [*done, number]
        assert server.pid == pid, "it was not restarted"
        metastore.close()


def test_no_room_for_the_write_ahead_log(folder: Path) -> None:
    """Postgres panics, and its recovery has no room either."""
    with full_wal(folder) as (server, disk):
        migrate(server.url())
        metastore = open_in_process(server.url())
        table = make_table(metastore)
        metastore.commit(to_request(table, 1))
        fill(folder, disk, 8)
        number, failed = 1, None
        while failed is None:
            number += 1
            with psycopg.connect(libpq_url(server.url()), autocommit=True) as connection:
                # The rest of the last file is not used any more, so that the next commits need another one.
                connection.execute("SELECT pg_switch_wal()")
            try:
                metastore.commit(to_request(table, number))
            except LakelogError as error:
                failed = error
        assert isinstance(failed, OutcomeUnknown | Unavailable), failed
        said = server.log.read_text()
        assert "PANIC" in said
        assert "No space left on device" in said
        # The server ends a moment after the process that panicked.
        give_up_s = time.monotonic() + 60
        while asyncio.run(answers(server.url())):
            assert time.monotonic() < give_up_s, "metastores say that they do not serve"
            time.sleep(0.1)
        for call in (lambda: metastore.commit(to_request(table, number)), metastore.list_databases):
            with pytest.raises(Unavailable, match="cannot be reached; nothing happened"):
                call()
        disk.resize(ROOM)
        server.start()
        repeat(lambda: metastore.commit(to_request(table, number)))
        assert list_identifiers(metastore, table) == list(range(1, number + 1))
        assert asyncio.run(answers(server.url()))
        metastore.close()
