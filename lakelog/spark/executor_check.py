"""What executors must have: Python, and the version of lakelog that the driver program has.

The driver program pickles what tasks do, and executors unpickle it with the lakelog that they have. Another version can
fail in any way, or do something else. So the driver program's version travels with each job, and each task compares it
first. Where lakelog or Python is missing altogether, Spark's error is translated.
"""

from __future__ import annotations

import re
import socket
from typing import TYPE_CHECKING, Final

import lakelog
from lakelog.errors import InvalidArgument

if TYPE_CHECKING:
    from pyspark import SparkContext

VERSION: Final = lakelog.__version__

VERSION_PROPERTY: Final = "spark.lakelog.version"
"""A setting of the session: Spark passes those that begin with `spark.` on to the tasks of its queries."""

EXECUTOR_UNFIT: Final = "EXECUTOR_UNFIT"
"""The reason of an error when executors lack what tasks need."""

_REMEDY: Final = (
    "Executors need the driver's version of lakelog, and its Python: install the wheel on each machine, or give them a "
    "packed environment (spark.archives), and set PYSPARK_PYTHON."
)

_NO_MODULE: Final = re.compile(r"No module named '((?:lakelog|writer|reader|compactor)\b[\w.]*)'")
_NO_ATTRIBUTE: Final = re.compile(r"Can't get attribute '([\w.]+)' on <module '(lakelog[\w.]*)'")
_NO_PROGRAM: Final = re.compile(r'Cannot run program "([^"]{1,300})"[^\n]{0,80}: (?:error=2\b|[^\n]{0,80}No such file)')


def mark_version(context: SparkContext) -> None:
    """Lets the jobs of this thread that are no queries carry the version, too."""
    context.setLocalProperty(VERSION_PROPERTY, VERSION)


def check_version() -> None:
    """Compares the version of this process with that of the driver program. Runs on executors.

    Raises:
        InvalidArgument: They differ (reason `EXECUTOR_UNFIT`).
    """
    # Imported here: the processes in which Spark plans are no tasks, and read this file as well.
    from pyspark import TaskContext

    context = TaskContext.get()
    wanted = None if context is None else context.getLocalProperty(VERSION_PROPERTY)
    if wanted and wanted != VERSION:
        host = socket.gethostname()
        raise InvalidArgument(
            f"The executor on {host} has lakelog {VERSION}, and the driver program {wanted}. {_REMEDY}",
            reason=EXECUTOR_UNFIT,
            metadata={"host": host, "version": VERSION, "wanted": wanted},
        )


def explain_failure(text: str) -> InvalidArgument | None:
    """What an executor lacks, by the text of Spark's error; None: the job failed for another reason. Pure."""
    if found := _NO_MODULE.search(text):
        return InvalidArgument(
            f"An executor of Spark cannot import {found[1]}. {_REMEDY}",
            reason=EXECUTOR_UNFIT,
            metadata={"module": found[1]},
        )
    if found := _NO_ATTRIBUTE.search(text):
        return InvalidArgument(
            f"An executor of Spark has another version of lakelog, without {found[2]}.{found[1]}. {_REMEDY}",
            reason=EXECUTOR_UNFIT,
            metadata={"module": found[2]},
        )
    if found := _NO_PROGRAM.search(text):
        return InvalidArgument(
            f"Spark cannot start Python as {found[1]} on one of its machines, where it is missing. {_REMEDY}",
            reason=EXECUTOR_UNFIT,
            metadata={"field": "PYSPARK_PYTHON", "program": found[1]},
        )
    return None
