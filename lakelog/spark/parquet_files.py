"""How Spark's own Parquet reader reaches and reads the files of a table."""

from __future__ import annotations

import logging
from typing import Final
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_log = logging.getLogger(__name__)

PARQUET_OPTIONS: Final = {
    # Missing or damaged files are errors, whatever the session's settings.
    "ignoreMissingFiles": "false",
    "ignoreCorruptFiles": "false",
    # Our files do not come from an old Spark: their dates and times need no rebasing.
    "datetimeRebaseMode": "CORRECTED",
}
"""Options of Spark's reader for files of tables."""


def to_hadoop_location(location: str) -> str:
    """A table's location in Hadoop's form: its paths are not percent-encoded, and its S3 is called s3a. Pure."""
    if location.startswith("s3://"):
        return "s3a://" + location.removeprefix("s3://").partition("?")[0]
    return unquote(location)


def can_read(spark: SparkSession, location: str, path: str) -> bool:
    """Whether Spark's Java can read a file of a table; blocks on the store, unless it is this machine's disk.

    It lacks classes for S3 unless they were added, and knows keys of its own only.

    Args:
        spark: The session.
        location: The table's location.
        path: A file that is there, relative to the location.
    """
    if location.startswith("file:"):
        return True
    java = spark._jvm
    assert java is not None, "the session is not one of Spark Connect"
    try:
        file = java.org.apache.hadoop.fs.Path(to_hadoop_location(location) + path)
        file.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf()).getFileStatus(file)
    except Py4JJavaError as error:
        _log.info(
            "Rows of %s go through Python: Spark itself cannot read its files (%.200s).", location, error.java_exception
        )
        return False
    return True
