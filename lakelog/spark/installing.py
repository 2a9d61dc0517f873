"""`install`: makes lakelog's tables known to a session of Spark."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import warnings
from typing import Final

import pyspark
from pyspark.java_gateway import ensure_callback_server_started
from pyspark.sql import DataFrame, SparkSession

from lakelog.arguments import parse_table_name
from lakelog.errors import InvalidArgument
from lakelog.spark.connection import SparkConnection, make_connection
from lakelog.spark.installation import CATALOG_CONF, Installation, installation_of, make_installation
from lakelog.spark.java.batch_calls import BatchCalls
from lakelog.spark.java.compiling import source_installer
from lakelog.spark.java.table_stream import read_by_java
from lakelog.spark.session.gateway import was_forked_beside_channels
from lakelog.spark.session.remote import is_remote, make_remote_connection
from lakelog.spark.source.data_source import LakelogSource, make_python_source, register_data_source
from lakelog.spark.source.marking import mark_remote_streams, mark_streams
from lakelog.spark.source.options import SourceOptions

_OLDEST_SPARK: Final = (4, 2)

_SOURCE_CONF: Final = "spark.lakelog.source"
"""Names the installation whose tables `Driver.java` knows: not that of `install_for_writes`, which has no source."""


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
    connection = make_connection(target, tls=None, tls_ca=None, tls_cert=None, tls_key=None, token=None)
    make_installation(spark, connection)


def _install(spark: SparkSession, connection: SparkConnection) -> None:
    name, installation = make_installation(spark, connection)
    if is_remote(spark):
        register_data_source(spark, connection)
        mark_remote_streams()
        return
    if not _install_source(spark, name, installation):
        register_data_source(spark, connection)
    mark_streams(_convert_stream)


def _install_source(spark: SparkSession, name: str, installation: Installation) -> bool:
    """Lets Spark find `DefaultSource.java` for `format("lakelog")`; False: this Spark cannot use it."""
    installer = source_installer(spark)
    if installer is None:
        return False
    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    python = make_python_source(spark, installation.connection)
    installer.install(spark._jsparkSession, name, BatchCalls(spark, installation), python)
    spark.conf.set(_SOURCE_CONF, name)
    spark.conf.set(CATALOG_CONF, "lakelog.Catalog")
    return True


def _convert_stream(frame: DataFrame) -> DataFrame:
    """Lets Spark's own reader read the files of a stream."""
    installation = installation_of(frame.sparkSession)
    given = frame._jdf.queryExecution().analyzed().extraOptions().asCaseSensitiveMap()
    options = SourceOptions.of(dict(given))
    table = installation.metastore.get_table(parse_table_name(options.table))
    return read_by_java(frame, table, installation.connection, LakelogSource(dict(given)), options)


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
