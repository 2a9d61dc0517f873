"""Options of Spark's Java in tests: classes as an earlier start left them, and no second compiler."""

from __future__ import annotations

import subprocess

from lakelog.spark.session.class_files import archive_folder, make_in_background, to_options
from lakelog.spark.session.gateway import find_spark_home

JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""What runs for seconds or minutes is over before Java's second compiler has paid for itself. A session and two jobs
take 10 s of CPU instead of 21, sixty jobs more 21 instead of 48."""


def options_with_classes() -> str:
    """Options for Spark's Java in tests. That no file fits is nothing to talk of in logs that tests read."""
    return " ".join([*JAVA_OPTIONS, *to_options(archive_folder(find_spark_home()))])


def start_making() -> subprocess.Popen[bytes] | None:
    """Makes the file in a process of its own, which takes half a minute once on a machine; None: it is there."""
    return make_in_background(find_spark_home())
