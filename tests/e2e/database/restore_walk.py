"""The page on backup and restore, command by command, on a stack of real processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
from psycopg.conninfo import conninfo_to_dict

from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.embedded.postgres_files import find_postgres_programs, find_server_user, let_user_reach
from lakelog.embedded.stack import EmbeddedStack
from metastore.postgres.connection.connections import libpq_url
from tests.support.forked import ForkedProcess, preload
from tests.support.repository import ROOT
from tests.support.spark.python_path import PYTHON_PATH

preload("writer.config", "writer.wiring")

PAGE = ROOT / "docs" / "restore.md"
WAIT_S = 60.0
_BLOCK = re.compile(r"^( *)```bash\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)


def find_commands(words: str) -> str:
    """The one block of the page that has these words."""
    found = [
        "\n".join(line.removeprefix(indent) for line in text.splitlines())
        for indent, text in _BLOCK.findall(PAGE.read_text())
        if words in text
    ]
    assert len(found) == 1, f"{len(found)} blocks of {PAGE} have {words!r}"
    return found[0]


class Page:
    """Runs what the page says.

    Args:
        stack: The stack, with a Postgres of its own.
        folder: For backups; the database server can reach it.
    """

    def __init__(self, stack: EmbeddedStack, folder: Path) -> None:
        assert stack.postgres is not None
        self.stack, self.postgres = stack, stack.postgres
        self._backup, self._archive = folder / "backup", folder / "archive"
        self._user = find_server_user()
        self.done: list[str] = []
        for each in (self._backup, self._archive):
            each.mkdir()
            self._give(each)
        if self._user is not None:
            let_user_reach(self._archive / "file", self._user)

    def run(self, words: str, *, may_fail: bool = False, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs the block with these words, as a shell does."""
        address = conninfo_to_dict(libpq_url(self.postgres.url()))
        environment = {
            **os.environ,
            "PATH": f"{find_postgres_programs()}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": PYTHON_PATH,
            "PGHOST": str(address["host"]),
            "PGPORT": str(address["port"]),
            "PGUSER": "postgres",
            "PGDATA": str(self.postgres.folder / "data"),
            "BACKUP": str(self._backup),
            "ARCHIVE": str(self._archive),
            "DATABASE": "postgres",
            "LAKELOG_TARGET": self.stack.target,
            **variables,
        }
        # The command of the checkout, whatever is installed.
        lakelog = f'lakelog() {{ "{sys.executable}" -m lakelog "$@"; }}\n'
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", lakelog + find_commands(words)],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert may_fail or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        self.done.append(words)
        return done

    def run_command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command `lakelog`."""
        environment = {**os.environ, "PYTHONPATH": PYTHON_PATH, "LAKELOG_TARGET": self.stack.target}
        command = [sys.executable, "-m", "lakelog", *words]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)

    def use_database(self, name: str) -> None:
        """Gives a database the name that the metastores have, which is what giving them its name comes to."""
        url = libpq_url(self.postgres.url("template1"))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'postgres'")
            connection.execute("ALTER DATABASE postgres RENAME TO before_restore")
            connection.execute(f"ALTER DATABASE {name} RENAME TO postgres")

    def query(self, statement: str) -> object:
        with psycopg.connect(libpq_url(self.postgres.url()), autocommit=True) as connection:
            row = connection.execute(statement).fetchone()
        return None if row is None else row[0]

    def archive_all(self) -> None:
        """Waits until all that happened until now is archived, as it is sooner or later."""
        segment = self.query("SELECT pg_walfile_name(pg_switch_wal())")
        wait_for(lambda: (self._archive / str(segment)).exists(), f"{segment} is not archived")

    def give_back(self) -> None:
        """What was copied belongs to the server's user, who copies it in real life."""
        self._give(self.postgres.folder / "data")

    def _give(self, folder: Path) -> None:
        if self._user is not None:
            for path in [folder, *folder.rglob("*")]:
                os.chown(path, self._user.user_id, self._user.group_id, follow_symlinks=False)


def is_restored(server: EmbeddedPostgres) -> bool:
    """Whether the server has reached its target and takes writes."""
    with psycopg.connect(libpq_url(server.url()), autocommit=True) as connection:
        row = connection.execute("SELECT pg_is_in_recovery()").fetchone()
    return row == (False,)


def wait_for(happens: Callable[[], object], what: str, within_s: float = WAIT_S) -> None:
    give_up_s = time.monotonic() + within_s
    while not happens():
        assert time.monotonic() < give_up_s, what
        time.sleep(0.05)


class Pipeline:
    """A pipeline of a folder of files, one a batch, that ends when all is read."""

    def __init__(self, stack: EmbeddedStack, folder: Path, table: str) -> None:
        self._stack, self._folder, self._files = stack, folder, 0
        (folder / "in").mkdir(parents=True)
        (folder / "pipeline.yaml").write_text(
            f"name: imports\ntable: {table}\nmode: append\n"
            "source: {type: files, path: ./in, format: csv, max_files_per_batch: 1}\n"
            "trigger: {available_now: true}\ncheckpoint: ./state\n"
        )

    def add_file(self, *values: str) -> None:
        path = self._folder / "in" / f"{self._files:03d}.csv"
        path.write_text("k,v\n" + "".join(f"{number},{value}\n" for number, value in enumerate(values)))
        self._files += 1

    def run(self, *arguments: str) -> tuple[int, str]:
        """Runs it to its end; its exit code and its log."""
        log = self._folder / "pipeline.log"
        words = ["run", str(self._folder / "pipeline.yaml"), "--target", self._stack.target]
        with killed_in_the_end(
            ForkedProcess(
                "writer",
                [*words, "--spark-master", "local[1]", *arguments],
                folder=ROOT,
                environment={**os.environ, "PYTHONPATH": PYTHON_PATH},
                output=log,
                leads=True,
            )
        ) as process:
            return process.wait(180), log.read_text()


@contextmanager
def killed_in_the_end(process: ForkedProcess) -> Iterator[ForkedProcess]:
    try:
        yield process
    finally:
        if process.poll() is None:
            process.signal_session(signal.SIGKILL)
            process.wait(30)


def read_values(recording: Path) -> list[str]:
    """The values of all records that a plain consumer has seen, in JSON."""
    lines = recording.read_text().splitlines()
    return [json.loads(json.loads(line)["value"])["after"]["v"] for line in lines]
