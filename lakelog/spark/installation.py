"""The result of `install` in the driver program: the connection of a session and the caches for it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import uuid
import warnings
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import pyspark
from pyspark.sql import DataFrame, SparkSession

from lakelog.arguments import parse_table_name
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument
from lakelog.spark.batch.deletion_vectors import SectionVectorCache
from lakelog.spark.connection import SparkConnection, make_connection, open_metastore
from lakelog.spark.executor_check import VERSION, VERSION_PROPERTY
from lakelog.spark.java.table_stream import read_by_java
from lakelog.spark.older_files.native_versions import NativeVersions
from lakelog.spark.session.frames import FrameCache
from lakelog.spark.session.gateway import was_forked_beside_channels
from lakelog.spark.session.remote import is_remote, make_remote_connection
from lakelog.spark.source.data_source import LakelogSource, register_data_source
from lakelog.spark.source.marking import mark_remote_streams, mark_streams
from lakelog.spark.source.options import SourceOptions
from lakelog.writes.attempts_ahead import AttemptsAhead

_OLDEST_SPARK: Final = (4, 2)
_INSTALLATION_CONF: Final = "spark.lakelog.installation"
"""Names the installation in a session's conf, since sessions made from this one (those of streams) copy it."""

_FIELD_IDS_CONF: Final = "spark.sql.parquet.fieldId.read.enabled"
_CACHE_BYTES: Final = 256 << 20


@dataclass(frozen=True)
class Installation:
    """State shared by the sessions in which lakelog was installed together."""

    connection: SparkConnection
    deletion_vectors: SectionVectorCache
    frames: FrameCache
    native_versions: NativeVersions = field(default_factory=NativeVersions)

    @cached_property
    def attempts_ahead(self) -> AttemptsAhead:
        """Attempts for writes that follow each other; connects when it is first used."""
        return AttemptsAhead(self.metastore, SystemClock())

    @property
    def metastore(self) -> Metastore:
        """The metastore; connects when it is first used."""
        return open_metastore(self.connection)


_INSTALLATIONS: Final[dict[str, Installation]] = {}


def install(
    spark: SparkSession,
    target: str | None = None,
    *,
    token: str | None = None,
    tls: bool | None = None,
    tls_ca: str | None = None,
    tls_cert: str | None = None,
    tls_key: str | None = None,
) -> None:
    """Makes lakelog's tables known to a Spark session: `format("lakelog")`, `read_table`, `write`, `write_stream`.

    It does not call the metastore yet: like `lakelog.connect` it connects when it is first used, so the first read or
    write reports a wrong target. Warns if PySpark started Java, by a fork, beside an open connection of lakelog.

    Sets `spark.sql.parquet.fieldId.read.enabled`, which finds columns in files from before a rename; it does not affect
    reads whose schema has no field ids. A token given here is written to a private file of this process, because Spark
    would show it otherwise; `LAKELOG_TOKEN` or `LAKELOG_TOKEN_FILE` must be set before the session is made.

    Args:
        spark: A session of PySpark 4.2 or newer. In one of Spark Connect (`sc://`) only `format("lakelog")` and
            `changes` are possible; there the connection is the server's: its environment has the token.
        target: `host:port` of the metastore; by default LAKELOG_TARGET. Executors need not reach it.
        token: As of `lakelog.connect`, as are the following ones. TLS files must be readable on the driver's machine.
        tls: See `token`.
        tls_ca: See `token`.
        tls_cert: See `token`.
        tls_key: See `token`.

    Raises:
        InvalidArgument: The session is not suitable: its kind, version or Python; or the connection's arguments do not
            fit.
    """
    _check_session(spark)
    if is_remote(spark):
        connection = make_remote_connection(target, tls, tls_ca, tls_cert, tls_key, token)
        _install(spark, connection)
        return
    if was_forked_beside_channels():
        warnings.warn(
            "PySpark started Java while a connection of lakelog was open. That fails now and then, with "
            "JAVA_GATEWAY_EXITED: make the session by lakelog.spark.build_session, or before lakelog.connect.",
            RuntimeWarning,
            stacklevel=2,
        )
    connection = make_connection(target, tls=tls, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key, token=token)
    _install(spark, connection)


def install_for_writes(spark: SparkSession, target: str | None = None) -> None:
    """As `install`, for a service that only writes: `format("lakelog")` stays unknown.

    To make a source in Python known, Spark starts two processes and waits for them: a second of each start.
    """
    _connect(spark, make_connection(target, tls=None, tls_ca=None, tls_cert=None, tls_key=None, token=None))


def _install(spark: SparkSession, connection: SparkConnection) -> None:
    _connect(spark, connection)
    register_data_source(spark, connection)
    if is_remote(spark):
        mark_remote_streams()
    else:
        mark_streams(_convert_stream)


def _convert_stream(frame: DataFrame) -> DataFrame:
    """Lets Spark's own reader read the files of a stream."""
    installation = installation_of(frame.sparkSession)
    given = frame._jdf.queryExecution().analyzed().extraOptions().asCaseSensitiveMap()
    options = SourceOptions.of(dict(given))
    table = installation.metastore.get_table(parse_table_name(options.table))
    return read_by_java(frame, table, installation.connection, LakelogSource(dict(given)), options)


def _connect(spark: SparkSession, connection: SparkConnection) -> None:
    name = uuid.uuid4().hex
    _INSTALLATIONS[name] = Installation(connection, SectionVectorCache(_CACHE_BYTES), FrameCache())
    spark.conf.set(_INSTALLATION_CONF, name)
    spark.conf.set(_FIELD_IDS_CONF, "true")
    spark.conf.set(VERSION_PROPERTY, VERSION)


def installation_of(spark: SparkSession) -> Installation:
    """The installation of a session, or of the session it was made from.

    Raises:
        InvalidArgument: There is none, or a setting that lakelog needs was removed since.
    """
    found = _INSTALLATIONS.get(spark.conf.get(_INSTALLATION_CONF, "") or "")
    if found is None:
        raise InvalidArgument(
            "lakelog is not installed in this Spark session: call lakelog.spark.install(spark, target) first."
        )
    if spark.conf.get(_FIELD_IDS_CONF) != "true":
        raise InvalidArgument(
            f"{_FIELD_IDS_CONF} was switched off after lakelog was installed; without it renamed columns would be read "
            "wrongly. Set it to true."
        )
    return found


def _check_session(spark: SparkSession) -> None:
    version = tuple(int(part) for part in pyspark.__version__.split(".")[:2])
    if version < _OLDEST_SPARK:
        oldest = ".".join(map(str, _OLDEST_SPARK))
        raise InvalidArgument(
            f"PySpark is {pyspark.__version__}, and lakelog needs {oldest} or newer: pip install 'pyspark>={oldest}'.",
            metadata={"version": pyspark.__version__},
        )
    if not is_remote(spark):
        _check_workers(spark)


def _check_workers(spark: SparkSession) -> None:
    """Finds early what would otherwise be a ModuleNotFoundError deep inside a failed job."""
    context = spark.sparkContext
    if not (context.master or "").startswith("local"):
        return  # What other machines have is found out there.
    program = shutil.which(context.pythonExec) or context.pythonExec
    if os.path.dirname(os.path.abspath(program)) == os.path.dirname(os.path.abspath(sys.executable)):
        return
    try:
        done = subprocess.run([program, "-c", "import lakelog, pyarrow"], capture_output=True, text=True, check=False)
        problem = done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except OSError as error:
        problem = [str(error)]
    if problem:
        raise InvalidArgument(
            f"Spark starts its Python workers with {program}, in which lakelog cannot be used ({problem[0][:200]}). "
            f"Set the environment variable PYSPARK_PYTHON={sys.executable} before the session is made, or make it with "
            "lakelog.spark.build_session.",
            metadata={"field": "PYSPARK_PYTHON", "program": program},
        )
