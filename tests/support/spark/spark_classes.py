"""Options of Spark's Java in tests: classes as an earlier start left them, and no second compiler."""

from __future__ import annotations

import subprocess
import sys

from lakelog.spark.session.class_files import archive_folder, is_made, to_options
from lakelog.spark.session.gateway import find_spark_home
from tests.support.repository import ROOT

JAVA_OPTIONS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
"""What runs for seconds or minutes is over before Java's second compiler has paid for itself. A session and two jobs
take 10 s of CPU instead of 21, sixty jobs more 21 instead of 48."""


def options_with_classes() -> str:
    """Options for Spark's Java in tests. That no file fits is nothing to talk of in logs that tests read."""
    return " ".join([*JAVA_OPTIONS, *to_options(archive_folder(find_spark_home()))])


def start_making() -> subprocess.Popen[bytes] | None:
    """Makes the file in a process of its own, which takes half a minute of CPU once on a machine; None: it is there.

    Unlike the process that services start, it is no background work: each Java that starts without the file costs
    5 s of CPU more, and beside all that a test run does, work of low priority would take minutes.
    """
    if is_made(archive_folder(find_spark_home())):
        return None
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-m", "tests.support.spark.spark_classes"]
    return subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=quiet, cwd=ROOT, start_new_session=True)


if __name__ == "__main__":
    from lakelog.spark.class_archive import make

    make(archive_folder(find_spark_home()))
