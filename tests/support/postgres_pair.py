"""A Postgres with a standby that receives its WAL, and the failover to a standby that lacks the last commits."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.embedded.postgres_files import find_postgres_programs, find_server_user
from metastore.postgres.connection.connections import libpq_url
from metastore.server.startup import to_libpq_url

WAIT_S = 30.0
STANDBY = "standby"


class PostgresPair:
    """Two servers with the same data.

    Args:
        primary: The first one.
        standby: It replays what it gets from the primary.
    """

    def __init__(self, primary: EmbeddedPostgres, standby: EmbeddedPostgres) -> None:
        self.primary = primary
        self.standby = standby

    @property
    def url(self) -> str:
        """The address of both, as operators give it: clients use the one that takes writes."""
        first, second = _address(self.primary), _address(self.standby)
        hosts = f"{first['host']}:{first['port']},{second['host']}:{second['port']}"
        attributes = "target_session_attrs=read-write"
        return to_libpq_url(f"postgresql://postgres:{first['password']}@{hosts}/postgres?{attributes}")

    def catch_up(self) -> None:
        """Waits until the standby has all that was committed."""
        reached = _query(self.primary, "SELECT pg_current_wal_flush_lsn()::text")
        _wait(
            lambda: _query(self.standby, f"SELECT pg_last_wal_replay_lsn() >= '{reached}'::pg_lsn"),
            "the standby has not caught up",
        )

    def begin_to_lag(self) -> None:
        """From now on the standby gets nothing."""
        self.catch_up()
        _configure(self.standby, "primary_conninfo", "")
        _wait(
            lambda: not _query(self.primary, "SELECT count(*) FROM pg_stat_replication"),
            "the standby goes on receiving",
        )

    def require_standby(self) -> None:
        """From now on commits wait for the standby: synchronous replication."""
        _configure(self.primary, "synchronous_standby_names", STANDBY)
        _wait(
            lambda: _query(self.primary, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'"),
            "the standby is not a synchronous one",
        )

    def fail_over(self) -> None:
        """The primary crashes for ever, and the standby takes its place."""
        self.primary.kill()
        self.promote()

    def promote(self) -> None:
        """Makes the standby a primary."""
        assert _query(self.standby, "SELECT pg_promote(true, 30)")

    def query(self, statement: str) -> object:
        """The first value of a query, from the server that takes writes."""
        with psycopg.connect(libpq_url(self.url), autocommit=True) as connection:
            row = connection.execute(statement).fetchone()
        return None if row is None else row[0]


class PairTemplate:
    """The data of two servers that were never used; making it takes as long as several copies.

    Args:
        folder: For the data.
        prepare: Prepares the first server's database, of whose URL it is given, before the second one copies it.
    """

    def __init__(self, folder: Path, prepare: Callable[[str], object]) -> None:
        self._folder = folder
        with EmbeddedPostgres(folder / "primary", port=0) as primary:
            prepare(primary.url())
            _back_up(primary, folder / "standby")

    @contextmanager
    def open_pair(self) -> Iterator[PostgresPair]:
        """A copy of both, running for the length of the block."""
        with tempfile.TemporaryDirectory(prefix="ll-pair-", ignore_cleanup_errors=True) as name:
            for server in ("primary", "standby"):
                subprocess.run(["cp", "--archive", str(self._folder / server), name], check=True)
            with EmbeddedPostgres(Path(name) / "primary", port=0) as primary:
                # By TCP: the standby's user cannot pass the folders above the socket.
                source = make_conninfo("", **_source(primary), application_name=STANDBY)
                with (Path(name) / "standby" / "data" / "postgresql.auto.conf").open("a") as settings:
                    settings.write(f"primary_conninfo = '{source}'\n")
                with EmbeddedPostgres(Path(name) / "standby", port=0) as standby:
                    yield PostgresPair(primary, standby)


def _back_up(primary: EmbeddedPostgres, folder: Path) -> None:
    """Copies a running server's data; the copy starts as a standby."""
    folder.mkdir(mode=0o700)
    source = make_conninfo("", **_source(primary))
    command = [str(find_postgres_programs() / "pg_basebackup"), "--pgdata", str(folder / "data"), "--dbname", source]
    subprocess.run([*command, "--checkpoint=fast", "--no-sync"], check=True, capture_output=True)
    (folder / "data" / "standby.signal").touch(mode=0o600)
    user = find_server_user()
    if user is not None:
        for path in [folder / "data", *(folder / "data").rglob("*")]:
            os.chown(path, user.user_id, user.group_id, follow_symlinks=False)
    shutil.copy(primary.folder / "password", folder / "password")


def _address(server: EmbeddedPostgres) -> dict[str, str]:
    found = conninfo_to_dict(libpq_url(server.url(over_tcp=True)))
    return {name: str(value) for name, value in found.items()}


def _source(primary: EmbeddedPostgres) -> dict[str, str]:
    """Where a standby gets everything from; no value needs quotes."""
    return {name: value for name, value in _address(primary).items() if name != "dbname"}


def _configure(server: EmbeddedPostgres, name: str, value: str) -> None:
    with psycopg.connect(libpq_url(server.url()), autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER SYSTEM SET {} = {}").format(sql.Identifier(name), sql.Literal(value)))
        connection.execute("SELECT pg_reload_conf()")


def _query(server: EmbeddedPostgres, statement: str) -> object:
    with psycopg.connect(libpq_url(server.url()), autocommit=True) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def _wait(happens: Callable[[], object], what: str) -> None:
    give_up_s = time.monotonic() + WAIT_S
    while not happens():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.02)
