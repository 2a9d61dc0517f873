"""How the processes of a Spark application reach the metastore and the files.

The driver program, the short-lived Python processes in which Spark plans and commits data sources (on the driver's
machine), and the tasks on executors are different processes. Only the first two read and change what the metastore has;
tasks use only files.

Addresses travel between them, never secrets. The token stays in the environment (`LAKELOG_TOKEN`, set before the
session is made) or in a file that only its owner can read, and only the file's path travels. Executors take the
credentials of S3 from their own environment (`LAKELOG_S3_*`, `AWS_*`). So neither Spark's UI, nor plans, nor confs show
a secret.

With `LAKELOG_S3_CREDENTIALS=vended` each process requests keys for the files of its tables from the metastore, by the
target and token of its own environment, and renews them as long as it needs them. Only then do tasks call a metastore.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from lakelog.client.connection.tokens import FileToken
from lakelog.client.metastore.metastore import Metastore
from lakelog.config import ConnectSettings, read_cache_folder, read_connect_settings, read_s3_settings
from lakelog.errors import InvalidArgument
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import open_store


@dataclass(frozen=True)
class SparkConnection:
    """The address of a metastore and the client's identity, without a secret. Picklable, hashable.

    Args:
        target: `host:port`.
        tls: Whether to use TLS.
        tls_ca: As of `lakelog.connect`.
        tls_cert: As of `lakelog.connect`.
        tls_key: As of `lakelog.connect`.
        token_file: A file on the driver's machine that holds the token; None: `LAKELOG_TOKEN`, or none.
        is_known: The metastore has answered there before, so a process that commits later waits for it.
    """

    target: str
    tls: bool
    tls_ca: str | None = None
    tls_cert: str | None = None
    tls_key: str | None = None
    token_file: str | None = None
    is_known: bool = False


def make_connection(
    target: str | None,
    *,
    tls: bool | None,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    token: str | None,
) -> SparkConnection:
    """Determines a connection in the driver program; arguments as of `lakelog.connect`.

    A given token is written to a file that only its owner can read, and that is deleted with the process.
    """
    settings = read_connect_settings(
        os.environ, target=target, tls=tls, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key, token=token
    )
    return SparkConnection(
        settings.target,
        settings.tls,
        _absolute(settings.tls_ca),
        _absolute(settings.tls_cert),
        _absolute(settings.tls_key),
        settings.token.path if isinstance(settings.token, FileToken) else _keep_token(token) if token else None,
    )


@functools.lru_cache(maxsize=16)
def open_metastore(connection: SparkConnection) -> Metastore:
    """The metastore of a connection, one client per process; for the driver's machine. Connects when first used."""
    # Imported here: tasks on executors use this file too, and most never call a metastore.
    from lakelog.client.grpc.metastore import GrpcMetastore

    settings = _read_settings(connection)
    return GrpcMetastore(settings.target, tls=settings.tls_files, token=settings.token, is_known=connection.is_known)


@functools.lru_cache(maxsize=256)
def open_table_store(location: str) -> ObjectStore:
    """The store of a table, one per process; runs on executors, where the environment says how to reach S3."""
    settings = read_s3_settings(os.environ)
    return open_store(location, settings, _open_vendor() if settings.credentials == "vended" else None)


@functools.cache
def _open_vendor() -> Metastore:
    """The metastore that vends keys to this process: by its environment, which alone says who it is."""
    settings = read_connect_settings(os.environ)
    return open_metastore(
        SparkConnection(
            settings.target,
            settings.tls,
            settings.tls_ca,
            settings.tls_cert,
            settings.tls_key,
            # Of the entry of LAKELOG_CATALOG; without it LAKELOG_TOKEN would go there.
            settings.token.path if isinstance(settings.token, FileToken) else None,
        )
    )


@functools.cache
def open_caches() -> Caches:
    """The caches of this process for tables it reads; runs on executors, where the environment sets the folder."""
    return Caches(read_cache_folder(os.environ))


def _read_settings(connection: SparkConnection) -> ConnectSettings:
    if connection.token_file is not None:
        try:
            Path(connection.token_file).read_bytes()
        except OSError as error:
            raise InvalidArgument(
                f"The token of {connection.target} cannot be read from {connection.token_file}: {error.strerror}. It "
                "goes with the program that called lakelog.spark.install: call it again, or set LAKELOG_TOKEN before "
                "the session is made.",
                metadata={"field": "token"},
            ) from error
    return read_connect_settings(
        os.environ,
        target=connection.target,
        tls=connection.tls,
        tls_ca=connection.tls_ca,
        tls_cert=connection.tls_cert,
        tls_key=connection.tls_key,
        token_file=connection.token_file,
    )


def _absolute(path: str | None) -> str | None:
    # Other processes may have another working directory.
    return None if path is None else os.path.abspath(path)


def _keep_token(token: str) -> str:
    descriptor, path = tempfile.mkstemp(prefix="lakelog-token-")  # Made with the mode 0600.
    with os.fdopen(descriptor, "w") as file:
        file.write(token)
    atexit.register(_remove, path)
    return path


def _remove(path: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(path)
