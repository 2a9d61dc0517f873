"""Checks before the service reports that it is ready. Each failure is one line that says what to do."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import re
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final
from urllib.parse import parse_qs, quote, unquote, urlsplit

import pyarrow as pa
import pyarrow.fs

from lakelog.clock import Clock
from lakelog.config import read_s3_settings
from lakelog.errors import InvalidArgument, LakelogError, Unavailable
from lakelog.format.tables.paths import MAX_LOCATION_BYTES
from lakelog.privacy.redaction import blot_out_forms
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import open_store

log = logging.getLogger(__name__)

_PROBE_ATTEMPTS: Final = 3
_WAIT_PAUSE_S: Final = 0.5
_SCHEMES: Final = ("file", "s3")


class StartupFailure(Exception):
    """The service cannot start. The message is one line without secrets."""


def normalize_warehouse(text: str) -> str:
    """The warehouse's URI without a slash at its end. Pure.

    Args:
        text: An absolute path, `file:///path` or `s3://bucket/prefix`.

    Raises:
        StartupFailure: It is something else.
    """
    if text.startswith("/"):
        text = "file://" + quote(text)
    parts = urlsplit(text)
    shown = _without_credentials(text)
    if parts.scheme not in _SCHEMES:
        raise StartupFailure(
            f"The warehouse {shown} must be an absolute path, file:///path or s3://bucket/prefix (--warehouse)."
        )
    if parts.username or parts.password or parts.query or parts.fragment:
        raise StartupFailure(
            f"The warehouse {shown} must hold no credentials, query or fragment: give S3 credentials and the endpoint "
            "by AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_ENDPOINT_URL, or by LAKELOG_S3_*."
        )
    if parts.scheme == "file" and (parts.netloc or not parts.path.startswith("/")):
        raise StartupFailure(f"The warehouse {shown} must be an absolute path: write three slashes, file:///path.")
    if parts.scheme == "s3" and not parts.netloc:
        raise StartupFailure(f"The warehouse {shown} names no bucket: write s3://bucket/prefix.")
    return text.rstrip("/")


def check_warehouse(uri: str) -> None:
    """Shows that the warehouse can be written to, by writing and deleting a small object. Blocks.

    Args:
        uri: As `normalize_warehouse` returns it. A local folder is made when it is missing.

    Raises:
        StartupFailure: It cannot be written to.
    """
    try:
        if uri.startswith("file://"):
            folder = Path(unquote(urlsplit(uri).path))
            folder.mkdir(parents=True, exist_ok=True)
            _probe(pa.fs.LocalFileSystem(), str(folder))
        else:
            _check_prefix(uri)
            # One who starts a service with a wrong endpoint should see it soon.
            settings = read_s3_settings(os.environ)
            attempts = min(settings.attempts, _PROBE_ATTEMPTS)
            _probe_store(open_store(f"{uri}/", dataclasses.replace(settings, attempts=attempts)))
    except LakelogError as error:
        raise StartupFailure(
            f"The warehouse {uri} cannot be written to: {one_line(error.message)} (--warehouse)."
        ) from error
    except (OSError, pa.ArrowException) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else one_line(str(error))
        raise StartupFailure(
            f"The warehouse {uri} cannot be written to: {problem}. Check the path, its permissions and the credentials "
            "(--warehouse)."
        ) from error


def _check_prefix(uri: str) -> None:
    """Checks that keys of S3 have room for the longest paths below the folder of a table."""
    # There is a slash on each side of the table's uuid.
    longest = MAX_LOCATION_BYTES - 34
    prefix = urlsplit(uri).path.strip("/")
    if len(prefix.encode()) > longest:
        raise StartupFailure(
            f"The warehouse {uri} has a prefix of {len(prefix.encode())} bytes, and {longest} are possible: keys in S3 "
            "have 1024, and tables need the rest. Choose a shorter prefix (--warehouse)."
        )


def _probe(filesystem: pa.fs.FileSystem, folder: str) -> None:
    path = f"{folder.rstrip('/')}/.lakelog-probe-{uuid.uuid4().hex}"
    with filesystem.open_output_stream(path) as stream:
        stream.write(b"May be deleted.")
    filesystem.delete_file(path)


def _probe_store(store: ObjectStore) -> None:
    path = f"probe-{uuid.uuid4().hex}"
    writer = store.create(path)
    writer.sink.write(b"May be deleted.")
    writer.commit()
    store.delete(path)


async def wait_for_database(ping: Callable[[], Awaitable[object]], shown_url: str, wait_s: float, clock: Clock) -> None:
    """Pings the database until it answers.

    Args:
        ping: Checks once.
        shown_url: The database's URL without its password.
        wait_s: How long to try; 0: once.
        clock: For the time.

    Raises:
        StartupFailure: It did not answer in time.
    """
    give_up_s = clock.monotonic_s() + wait_s
    said = ""
    while True:
        try:
            await ping()
            return
        except Unavailable as error:
            problem = one_line(error.message)
            if problem != said and wait_s:
                # Else a wrong password would show only when the time is over.
                log.warning("waiting for the database %s: %s", shown_url, problem)
                said = problem
            if clock.monotonic_s() >= give_up_s:
                waited = f" within {wait_s:g} s" if wait_s else ""
                raise StartupFailure(
                    f"The database {shown_url} does not answer{waited}: {problem} Is it running, and "
                    "are host, port, user and password right (--database-url, --wait-for-database)?"
                ) from error
            await asyncio.sleep(_WAIT_PAUSE_S)
        except LakelogError as error:
            raise StartupFailure(f"The database {shown_url} cannot be used: {one_line(error.message)}") from error


def show_database_url(url: str) -> str:
    """A database URL for display: without password, and of the query only a socket's folder. Pure; never raises."""
    try:
        parts = urlsplit(url)
        *others, last = parts.netloc.rpartition("@")[2].split(",")
        if others:
            # libpq takes several servers, a primary and its standbys, which `urlsplit` does not know.
            hosts = ",".join([_check_address(address) for address in (*others, last)])
            where = f"{parts.username}@{hosts}" if parts.username else hosts
            return f"{parts.scheme.partition('+')[0]}://{where}{parts.path}"
        host, port, user = parts.hostname or "", parts.port, parts.username
        host = host or next(iter(parse_qs(parts.query).get("host", [])), "")
    except ValueError:
        return "(malformed URL)"
    if not parts.scheme:
        return "(malformed URL)"
    where = f"{user}@{host}" if user else host
    return f"{parts.scheme.partition('+')[0]}://{where}{f':{port}' if port else ''}{parts.path}"


def _check_address(address: str) -> str:
    """The `host:port` of one of several servers; ValueError: it is not one."""
    parts = urlsplit(f"//{address}")
    if not parts.hostname or (parts.port is None and ":" in address.rpartition("]")[2]):
        raise ValueError(address)
    return address


def to_libpq_url(url: str) -> str:
    """A database URL in the form that libpq takes. Pure; shows no secret.

    Args:
        url: `postgresql://...`, also with `postgres` or SQLAlchemy's `postgresql+psycopg` as its scheme.

    Raises:
        StartupFailure: It has another scheme, or is malformed.
    """
    scheme, separator, rest = url.partition("://")
    known = ("postgresql", "postgres", "postgresql+psycopg")
    if not separator or scheme not in known or show_database_url(url) == "(malformed URL)":
        raise StartupFailure(
            "The database URL must be of the form postgresql://user:password@host:port/database (--database-url)."
        )
    return f"postgresql://{rest}"


def one_line(text: str) -> str:
    """A text without line ends. Pure."""
    return re.sub(r"\s*\n\s*", "; ", text.strip())


def _without_credentials(uri: str) -> str:
    return blot_out_forms(re.sub(r"//[^/@]*@", "//***@", uri).partition("?")[0])


def as_startup_failure(error: InvalidArgument) -> StartupFailure:
    """An error in the configuration as a failure to start. Pure."""
    return StartupFailure(one_line(error.message))
