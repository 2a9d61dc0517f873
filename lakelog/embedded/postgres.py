"""A real Postgres 18 in a folder.

Objectives, in the order of their weight:
1. Committed data survives everything that can happen to processes: fsync stays on, and Postgres recovers from a crash.
2. The folder is never blocked for ever: a server ends when its parent is killed, and the next start ends any processes
   that are left. A lock file of the living parent (`flock`, which the kernel releases) distinguishes the two cases.
3. No one else gets in: only the owner can open the unix socket; TCP exists only on request, and needs a password.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from contextlib import suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from lakelog.embedded.folder_server import FolderServer
from lakelog.embedded.ports import free_port
from lakelog.embedded.postgres_files import find_postgres_programs, find_server_user, let_user_reach
from lakelog.embedded.processes import ManagedProcess
from lakelog.embedded.spawn import RunAs
from lakelog.errors import InternalError, ResourceExhausted

_SUPERUSER: Final = "postgres"
_SOCKET_PORT: Final = 5432
"""The port in the name of the socket file if there is no TCP."""
_LONGEST_SOCKET_PATH: Final = 107
"""The bytes of `sockaddr_un.sun_path`, without the final zero."""
_DATA: Final = "/proc/self/cwd"
"""The data folder's name for the server and initdb, which work in it.

SUBTLE: root's server runs as another user. With this name, that user needs no permission on the folders above. These
may be private, and others, such as pytest, keep making them private again.
"""
_ORPHAN_ENDS_WITHIN_S: Final = 20.0


class EmbeddedPostgres(FolderServer):
    """One Postgres server with its data, socket and log in a folder.

    Args:
        folder: The folder for all its files; made if it is missing. At most one server at a time runs in it.
        port: None: unix socket only. 0: also a free port of 127.0.0.1, the same for the life of this object. Otherwise
            that port.
        log: The file for its log; None: a file in the folder.
        ready_within_s: The limit for a start, crash recovery included.
    """

    name = "postgres"

    def __init__(
        self, folder: Path, port: int | None = None, *, log: Path | None = None, ready_within_s: float = 60.0
    ) -> None:
        super().__init__(folder, log, ready_within_s)
        self._port = free_port() if port == 0 else port
        self._socket_port = self._port or _SOCKET_PORT
        self._socket_folder: Path | None = None

    @property
    def database_url(self) -> str:
        """`url("postgres")`: the superuser's own database, over the unix socket."""
        return self.url()

    def url(self, database: str = "postgres", *, over_tcp: bool = False) -> str:
        """The address of a database, for SQLAlchemy with psycopg 3.

        Args:
            database: Its name; it need not exist.
            over_tcp: Through 127.0.0.1, with the password in the address, instead of the unix socket.

        Returns:
            A URL that stays valid while this object lives, even after restarts.

        Raises:
            InternalError: The server was never started, or it has no TCP port.
        """
        if self._socket_folder is None:
            raise InternalError("The address of an embedded Postgres was asked for before its start: start it first.")
        if not over_tcp:
            place = f"host={quote(str(self._socket_folder))}&port={self._socket_port}"
            return f"postgresql+psycopg://{_SUPERUSER}@/{database}?{place}"
        if self._port is None:
            raise InternalError("This embedded Postgres has no TCP port: make it with port=0.")
        password = self._password_file.read_text().strip()
        return f"postgresql+psycopg://{_SUPERUSER}:{password}@127.0.0.1:{self._port}/{database}"

    def start(self) -> None:
        """Starts the server and blocks until it accepts connections; does nothing if it runs.

        The first start in a folder makes the data (about 0.8 s). It first ends a server that an earlier, killed process
        left here.

        Raises:
            AlreadyExists: A living process uses the folder.
            Unavailable: The server ended or was not ready in time; the message has the last lines of its log.
            NotFound, PermissionDenied, ResourceExhausted: No programs, no user to run as, no space for the data.
        """
        if self.is_running:
            return
        programs = find_postgres_programs()
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        user = find_server_user()
        if user is not None:
            let_user_reach(programs / "postgres", user)
        self._acquire_lock()
        try:
            self._end_orphans()
            self._make_data(programs, user)
            self._socket_folder = self._find_socket_folder()
            self._process = self._server_process(programs, user)
            self._process.start()
        except BaseException:
            self._release_lock()
            raise

    def stop(self) -> None:
        """Stops the server in order (open transactions are rolled back) and blocks until it is gone; idempotent."""
        if self._process is not None and self._lock is not None:
            self._process.stop()
            self._end_orphans()
        self._release_lock()

    def kill(self) -> None:
        """Kills the server and all its backends by SIGKILL, as a crash would, and blocks until they are gone."""
        if self._process is not None and self._lock is not None:
            # The server first: otherwise it would react to a backend's death with a recovery of its own.
            self._process.kill()
            self._end_orphans()

    def pause(self) -> None:
        """Freezes the server and its backends by SIGSTOP: connections stay open, but nothing answers."""
        self._signal_all(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets a paused server go on."""
        self._signal_all(signal.SIGCONT)

    @property
    def _password_file(self) -> Path:
        return self.folder / "password"

    def _server_pids(self) -> list[int]:
        """The server and its backends, whatever started them: each works in the data folder."""
        found = []
        for entry in Path("/proc").iterdir():
            # A process may end meanwhile, and other users' processes cannot be inspected.
            with suppress(OSError):
                is_postgres = entry.name.isdigit() and (entry / "comm").read_text().strip() == "postgres"
                if is_postgres and (entry / "cwd").readlink() == self._data.resolve():
                    found.append(int(entry.name))
        return found

    def _signal_all(self, number: signal.Signals) -> None:
        if self._lock is None:
            # A server in the folder may belong to another process.
            return
        for pid in self._server_pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def _end_orphans(self) -> None:
        """Ends every server process in the folder; we hold the lock, so no other living parent owns one."""
        # SIGQUIT is Postgres's "immediate" shutdown: the next start recovers from the log. It also ends backends
        # without a server.
        signals = {0.0: signal.SIGQUIT, _ORPHAN_ENDS_WITHIN_S / 2: signal.SIGKILL}
        began_s = time.monotonic()
        while self._server_pids():
            waited_s = time.monotonic() - began_s
            for due_s in [due_s for due_s in signals if waited_s >= due_s]:
                self._signal_all(signals.pop(due_s))
                self._signal_all(signal.SIGCONT)
            if waited_s > _ORPHAN_ENDS_WITHIN_S:
                raise InternalError(
                    f"Postgres processes {self._server_pids()} in {self._data} do not end, not even by SIGKILL: "
                    "look at them by hand.",
                    reason="POSTGRES_STUCK",
                )
            time.sleep(0.02)
        # The process ids in these locks may belong to other programs by now; then Postgres would refuse to start.
        for lock in [*self._data.glob("postmaster.pid"), *self._data.glob(".s.PGSQL.*")]:
            # A kill during our start may remove them, too.
            lock.unlink(missing_ok=True)

    def _make_data(self, programs: Path, user: RunAs | None) -> None:
        if self._data.exists():
            return
        # Made under another name, then renamed: an interrupted start leaves nothing that looks like data.
        unfinished = self.folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(mode=0o700)
        password = secrets.token_urlsafe(24) + "\n"
        self._password_file.unlink(missing_ok=True)
        self._password_file.touch(mode=0o600)
        self._password_file.write_text(password)
        read_end, write_end = os.pipe()
        if user is not None:
            os.chown(unfinished, user.user_id, user.group_id)
            # The other user may open the pipe by its name only if they own it.
            os.fchown(read_end, user.user_id, user.group_id)
        with open(write_end, "w") as pipe:
            pipe.write(password)
        # The built-in collation sorts by code point on every machine, with any locales.
        arguments = ["--username", _SUPERUSER, "--pwfile=/dev/stdin", "--encoding=UTF8", "--locale=C"]
        arguments += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--auth-local=trust"]
        arguments += ["--auth-host=scram-sha-256", "--no-instructions", "--pgdata", _DATA]
        with open(read_end, "rb") as standard_input:
            done = subprocess.run(
                [str(programs / "initdb"), *arguments],
                stdin=standard_input,
                capture_output=True,
                text=True,
                errors="replace",
                check=False,
                env=_server_environment(programs),
                cwd=unfinished,
                user=None if user is None else user.user_id,
                group=None if user is None else user.group_id,
                extra_groups=None if user is None else [],
            )
        if done.returncode != 0:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise ResourceExhausted(
                f"Postgres could not make its data in {self.folder} (initdb ended with {done.returncode}): "
                f"{done.stderr.strip()}. Check the free space and the permissions of that folder.",
                reason="POSTGRES_INITDB_FAILED",
                metadata={"folder": str(self.folder)},
            )
        unfinished.rename(self._data)

    def _find_socket_folder(self) -> Path:
        """The path for clients to reach the socket: the data folder, or a link to it if its path is too long."""
        if self._socket_folder is not None:
            return self._socket_folder
        if len(os.fsencode(self._data / f".s.PGSQL.{self._socket_port}")) <= _LONGEST_SOCKET_PATH:
            return self._data
        links = Path(tempfile.mkdtemp(prefix="lakelog-", dir="/tmp"))
        weakref.finalize(self, shutil.rmtree, links, ignore_errors=True)
        (links / "pg").symlink_to(self._data)
        return links / "pg"

    def _server_process(self, programs: Path, user: RunAs | None) -> ManagedProcess:
        settings = {
            "listen_addresses": "" if self._port is None else "127.0.0.1",
            "port": str(self._socket_port),
            # Relative to the data folder, so never too long for the server.
            "unix_socket_directories": ".",
            "unix_socket_permissions": "0700",
            "fsync": "on",
            "synchronous_commit": "on",
            "max_connections": "200",
            "timezone": "UTC",
            "log_timezone": "UTC",
            "log_line_prefix": "%m [%p] ",
        }
        command = [str(programs / "postgres"), "-D", _DATA]
        for name, value in settings.items():
            command += ["-c", f"{name}={value}"]
        return ManagedProcess(
            "Postgres",
            command,
            log=self.log,
            is_ready=self._is_ready,
            ready_within_s=self._ready_within_s,
            stop_signal=signal.SIGINT,
            death_signal=signal.SIGINT,
            environment=_server_environment(programs),
            working_directory=self._data,
            run_as=user,
        )

    def _is_ready(self) -> bool:
        """Reads `postmaster.pid`: process id in line 1, state in line 8 (Postgres, `utils/pidfile.h`)."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[0].strip() == str(self.pid) and lines[7].strip() == "ready"


def _server_environment(programs: Path) -> dict[str, str]:
    # Messages in English, and none of the caller's PG* variables.
    return {"PATH": f"{programs}:{os.defpath}", "LC_ALL": "C", "TZ": "UTC"}
