from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

import lakelog.embedded
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.errors import AlreadyExists, InternalError, Unavailable

ROOT = Path(lakelog.embedded.__file__).parents[2]


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[EmbeddedPostgres]:
    with EmbeddedPostgres(tmp_path / "pg") as server:
        yield server


def query(url: str, statement: str) -> list[tuple[object, ...]]:
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        cursor = connection.execute(statement.encode())
        return cursor.fetchall() if cursor.description else []


def test_a_crash_loses_nothing_that_was_committed(postgres: EmbeddedPostgres) -> None:
    query(postgres.url(), "CREATE TABLE t AS SELECT generate_series(1, 1000) AS n")
    first_pid = postgres.pid
    postgres.kill()
    assert not postgres.is_running
    with pytest.raises(psycopg.OperationalError):
        query(postgres.url(), "SELECT 1")
    postgres.start()
    assert postgres.pid != first_pid
    assert query(postgres.url(), "SELECT count(*), sum(n) FROM t") == [(1000, 500500)]
    assert any("not properly shut down" in line for line in postgres.last_log_lines(50))


def test_durability_is_on_and_sorting_is_by_code_point(postgres: EmbeddedPostgres) -> None:
    settings = query(
        postgres.url(),
        "SELECT name, setting FROM pg_settings WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')",
    )
    assert dict(settings) == {"fsync": "on", "full_page_writes": "on", "synchronous_commit": "on"}  # type: ignore[arg-type]
    assert query(
        postgres.url(), "SELECT string_agg(x, '' ORDER BY x) FROM (VALUES ('b'), ('A'), ('a'), ('B')) v(x)"
    ) == [("ABab",)]


def test_a_restart_keeps_data_and_address(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "pg", port=0) as server:
        query(server.url(), "CREATE TABLE t (n int)")
        before = (server.url(), server.url(over_tcp=True))
        server.restart()
        assert (server.url(), server.url(over_tcp=True)) == before
        assert query(server.url(over_tcp=True), "SELECT count(*) FROM t") == [(0,)]
    with EmbeddedPostgres(tmp_path / "pg") as again:
        assert query(again.url(), "SELECT count(*) FROM t") == [(0,)]


def test_tcp_needs_the_password(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "pg", port=0) as server:
        url = server.url(over_tcp=True)
        assert query(url, "SELECT 1") == [(1,)]
        password = url.split("@")[0].rsplit(":")[-1]
        with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
            query(url.replace(password, "guess"), "SELECT 1")


def test_without_a_port_nobody_listens_on_tcp(postgres: EmbeddedPostgres) -> None:
    assert query(postgres.url(), "SHOW listen_addresses") == [("",)]
    with pytest.raises(InternalError, match="port=0"):
        postgres.url(over_tcp=True)


def test_two_in_different_folders_at_once(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "a") as one, EmbeddedPostgres(tmp_path / "b") as two:
        query(one.url(), "CREATE TABLE only_in_one (n int)")
        assert query(two.url(), "SELECT to_regclass('only_in_one')") == [(None,)]


def test_a_folder_in_use_is_refused_and_left_alone(postgres: EmbeddedPostgres) -> None:
    second = EmbeddedPostgres(postgres.folder)
    with pytest.raises(AlreadyExists, match=rf"in use by the running process {os.getpid()}"):
        second.start()
    second.stop()
    second.kill()
    assert query(postgres.url(), "SELECT 1") == [(1,)]


def test_a_stopped_object_does_not_touch_the_next_owners_server(tmp_path: Path) -> None:
    first = EmbeddedPostgres(tmp_path / "pg")
    first.start()
    first.stop()
    with EmbeddedPostgres(tmp_path / "pg") as owner:
        first.stop()
        first.kill()
        first.pause()
        assert query(owner.url(), "SELECT 1") == [(1,)]


def test_a_path_too_long_for_a_socket(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / ("long" * 30)) as server:
        assert query(server.url(), "SELECT 1") == [(1,)]
        server.kill()
        server.start()
        assert query(server.url(), "SELECT 1") == [(1,)]


def test_a_stale_process_id_of_another_program_does_not_block(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "pg") as server:
        server.kill()
        pid_file = tmp_path / "pg" / "data" / "postmaster.pid"
        # The process id in the file is by now ours: a living program that is no Postgres.
        pid_file.write_text(f"{os.getpid()}\n{tmp_path}/pg/data\n1\n5432\n\n\n\nready   \n")
        server.start()
        assert query(server.url(), "SELECT 1") == [(1,)]


_PARENT = """
import sys, time
from pathlib import Path
from lakelog.embedded.postgres import EmbeddedPostgres
server = EmbeddedPostgres(Path(sys.argv[1]))
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


def start_parent(folder: Path) -> tuple[subprocess.Popen[str], int]:
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, str(folder)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert parent.stdout is not None
    with parent.stdout:
        return parent, int(parent.stdout.readline())


def is_alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False


def test_the_server_ends_with_a_killed_parent(tmp_path: Path) -> None:
    parent, server_pid = start_parent(tmp_path / "pg")
    assert is_alive(server_pid)
    parent.kill()
    parent.wait()
    deadline = time.monotonic() + 15
    while is_alive(server_pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_alive(server_pid)


def test_a_server_left_by_a_killed_parent_is_ended_by_the_next_start(tmp_path: Path) -> None:
    parent, server_pid = start_parent(tmp_path / "pg")
    # Frozen, the server cannot follow its parent's death: it is left over, with the folder in its hands.
    os.kill(server_pid, signal.SIGSTOP)
    parent.kill()
    parent.wait()
    assert is_alive(server_pid)
    with EmbeddedPostgres(tmp_path / "pg") as server:
        assert not is_alive(server_pid)
        assert query(server.url(), "SELECT 1") == [(1,)]


def test_a_paused_server_answers_after_it_is_resumed(postgres: EmbeddedPostgres) -> None:
    postgres.pause()
    with pytest.raises(psycopg.OperationalError, match="timeout"):
        query(postgres.url() + "&connect_timeout=2", "SELECT 1")
    assert postgres.is_running
    postgres.resume()
    assert query(postgres.url(), "SELECT 1") == [(1,)]


def test_a_start_that_fails_says_why_and_frees_the_folder(tmp_path: Path) -> None:
    with EmbeddedPostgres(tmp_path / "pg"):
        pass
    control = tmp_path / "pg" / "data" / "global" / "pg_control"
    kept = control.read_bytes()
    control.write_bytes(b"damaged")
    server = EmbeddedPostgres(tmp_path / "pg")
    with pytest.raises(Unavailable, match=r"before it was ready(.|\n)*pg_control"):
        server.start()
    control.write_bytes(kept)
    server.start()
    server.stop()


def test_every_test_gets_an_empty_database(postgres_url: str) -> None:
    query(postgres_url, "CREATE TABLE left_over (n int)")


def test_nothing_is_left_of_the_test_before(postgres_url: str) -> None:
    assert query(postgres_url, "SELECT to_regclass('left_over')") == [(None,)]


def test_private_folders_above_do_not_matter(tmp_path: Path) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    with EmbeddedPostgres(private / "pg") as server:
        assert query(server.url(), "SELECT 1") == [(1,)]
        server.kill()
        server.start()
        # Whoever runs the server got no permission on what is not the server's.
        assert private.stat().st_mode & 0o777 == 0o700
