"""Sessions of Spark Connect (`sc://host`): the program is a client, and the driver program is Spark's server.

Spark's server plans and commits data sources in processes of its own, so `format("lakelog")` works there as in a
classic session, and the server needs lakelog and the way to the metastore. What lakelog does in the driver program
itself is not possible: merging files before a scan, jobs of RDDs, functions for each batch of a stream.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Final

from pyspark.sql import SparkSession

from lakelog.errors import InvalidArgument
from lakelog.spark.connection import SparkConnection, make_connection

NOT_IN_CONNECT: Final = "NOT_IN_SPARK_CONNECT"
"""The reason of an error for what a session of Spark Connect cannot do."""


def is_remote(spark: SparkSession) -> bool:
    """Whether a session is one of Spark Connect."""
    # By its name: the class can be imported only where all packages of clients are installed.
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def check_not_remote(spark: SparkSession, what: str, instead: str) -> None:
    """Refuses what needs the driver program.

    Args:
        spark: The session.
        what: The name of a function.
        instead: What does nearly the same in such a session.

    Raises:
        InvalidArgument: It is a session of Spark Connect (reason `NOT_IN_SPARK_CONNECT`).
    """
    if is_remote(spark):
        raise InvalidArgument(
            f"{what} works in Spark's driver program, and this program is a client of Spark Connect. Use {instead}, or "
            "a classic session: SparkSession.builder.master(...).",
            reason=NOT_IN_CONNECT,
        )


def make_remote_connection(
    target: str | None,
    tls: bool | None,
    tls_ca: str | None,
    tls_cert: str | None,
    tls_key: str | None,
    token: str | None,
) -> SparkConnection:
    """Determines a connection that Spark's server uses; arguments as of `install`. Paths are the server's.

    Raises:
        InvalidArgument: A token is given: it would be needed on the server, and Spark would show it.
    """
    if token is not None:
        raise InvalidArgument(
            "token= stays in this program, and in Spark Connect the server calls the metastore. Set LAKELOG_TOKEN or "
            "LAKELOG_TOKEN_FILE in the environment of the server, and leave token= out here.",
            reason=NOT_IN_CONNECT,
            metadata={"field": "token"},
        )
    made = make_connection(target, tls=tls, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key, token=None)
    for name, given in (("tls_ca", tls_ca), ("tls_cert", tls_cert), ("tls_key", tls_key)):
        if given is not None and not os.path.isabs(given):
            raise InvalidArgument(
                f"{name} is {given!r}: in Spark Connect it names a file of the server. Give its absolute path there.",
                reason=NOT_IN_CONNECT,
                metadata={"field": name},
            )
    # Files that this machine's environment names are not the server's, which has variables of its own.
    return replace(made, tls_ca=tls_ca, tls_cert=tls_cert, tls_key=tls_key, token_file=None)
