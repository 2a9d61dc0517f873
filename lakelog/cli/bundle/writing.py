"""Writes a support bundle: a gzipped tar, whose every byte was masked, with a manifest of what is inside."""

from __future__ import annotations

import io
import json
import os
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from lakelog.cli.bundle import parts
from lakelog.cli.commands.health.doctor import examine
from lakelog.cli.doctor.situation import Situation
from lakelog.cli.output.text import format_time
from lakelog.errors import AlreadyExists, LakelogError
from lakelog.log.secrets import SECRETS_FOLDER_VARIABLE
from lakelog.privacy.masking import mask, mask_all
from lakelog.privacy.redaction import remember_secret, remember_secrets

FOLDER: Final = "lakelog-support"

_MAX_SECRET_BYTES: Final = 64 << 10

_PARTS: Final[Mapping[str, tuple[str, Callable[[Situation], dict[str, Any]]]]] = {
    "versions.json": ("lakelog, Python, packages, the machine", parts.describe_versions),
    "configuration.json": ("address and variables of the environment", parts.describe_configuration),
    "doctor.json": ("what lakelog doctor finds", lambda situation: parts.describe_checks(examine(situation))),
    "status.json": ("what lakelog status shows", parts.describe_status),
    "overview.json": ("what waits, by name", parts.describe_overview),
    "tables.json": ("definitions and options of tables, newest snapshots without statistics", parts.describe_tables),
    "jobs.json": ("jobs of compactors without partitions", parts.describe_jobs),
    "pipelines.json": ("pipelines as they report", parts.describe_pipelines),
}
"""The parts by the name of their file, and what each is."""


@dataclass
class Manifest:
    """What is inside a bundle.

    Args:
        files: Of each file its name, size, and what it is.
        left_out: What could not be found, and why.
    """

    files: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[dict[str, str]] = field(default_factory=list)

    def describe(self) -> dict[str, Any]:
        """Its record."""
        return {
            "made_at": format_time(time.time_ns() // 1_000_000),
            "masked": "Secrets are replaced by ***. There are no rows of tables, but logs and errors may name values.",
            "files": self.files,
            "left_out": self.left_out,
        }


def write_bundle(path: Path, situation: Situation) -> Manifest:
    """Writes a bundle, for its owner alone; it is there as a whole or not at all.

    Raises:
        AlreadyExists: There is such a file.
        LakelogError: It cannot be written.
    """
    if path.exists():
        raise _exists(path)
    remember_all(situation)
    manifest = Manifest()
    try:
        # A name of its own: two commands may make bundles at once.
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".unfinished", dir=path.parent)
    except OSError as error:
        raise _cannot_write(path, error) from error
    try:
        with os.fdopen(handle, "wb") as out, tarfile.open(fileobj=out, mode="w:gz") as tar:
            for member, about, text in _list_files(situation, manifest):
                _add(tar, member, text)
                manifest.files.append({"name": member, "bytes": len(text.encode()), "about": about})
            _add(tar, "manifest.json", _to_json(manifest.describe()))
        # Unlike a rename it replaces nothing.
        os.link(name, path)
    except FileExistsError as error:
        raise _exists(path) from error
    except OSError as error:
        raise _cannot_write(path, error) from error
    finally:
        with suppress(OSError):
            os.unlink(name)
    return manifest


def _exists(path: Path) -> AlreadyExists:
    return AlreadyExists(f"{path} exists already: choose another file by -o, or remove it.")


def _cannot_write(path: Path, error: OSError) -> LakelogError:
    return LakelogError(f"{path} cannot be written: {error.strerror}. Choose another file by -o.")


def remember_all(situation: Situation) -> None:
    """Lets this process know all secrets that it can find, so that they are masked at any place."""
    invocation, environment = situation.invocation, situation.environment
    remember_secrets(environment)
    remember_secrets({"LAKELOG_DATABASE_URL": situation.database_url or ""})
    remember_secret(invocation.token or "")
    folder = environment.get(SECRETS_FOLDER_VARIABLE)
    named = [
        invocation.token_file or environment.get("LAKELOG_TOKEN_FILE"),
        invocation.tls_key or environment.get("LAKELOG_TLS_KEY"),
        *(str(file) for file in (Path(folder).glob("*") if folder else ())),
    ]
    for name in named:
        with suppress(OSError, ValueError):
            file = Path(name or "")
            if name and file.stat().st_size <= _MAX_SECRET_BYTES:
                text = file.read_text(errors="replace")
                remember_secret(text)
                for line in text.splitlines():
                    remember_secret(line)


def _list_files(situation: Situation, manifest: Manifest) -> Iterator[tuple[str, str, str]]:
    """Name, meaning and masked text of each file."""
    for name, (about, describe) in _PARTS.items():
        try:
            yield name, about, _to_json(describe(situation))
        except LakelogError as error:
            manifest.left_out.append({"name": name, "why": mask(error.message)})
        except Exception as error:
            # A part that fails must not keep the others from those who help.
            manifest.left_out.append({"name": name, "why": mask(f"{type(error).__name__}: {error}")})
    try:
        for name, text in parts.list_logs(situation.data):
            yield f"logs/{mask(name)}", "the newest part of a log of lakelog up", mask(text)
    except OSError as error:
        manifest.left_out.append({"name": "logs", "why": mask(str(error))})
    if not (situation.data / "logs").is_dir():
        why = f"{situation.data / 'logs'} is no folder; --data names that of lakelog up"
        manifest.left_out.append({"name": "logs", "why": mask(why)})


def _to_json(value: Any) -> str:
    return json.dumps(mask_all(value), ensure_ascii=False, indent=2) + "\n"


def _add(tar: tarfile.TarFile, name: str, text: str) -> None:
    content = text.encode()
    info = tarfile.TarInfo(f"{FOLDER}/{name}")
    info.size, info.mtime, info.mode = len(content), int(time.time()), 0o600
    tar.addfile(info, io.BytesIO(content))
