"""Passes errors from a task to the driver program: through text, since Spark passes on nothing else.

A task raises `TaskFailed`, whose text ends with what the user needs to read. A short readable line before it gives
`find_lakelog_error` the rest of the error, so that it makes the same error again in the driver program.
"""

from __future__ import annotations

import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Final, ParamSpec, TypeVar

from lakelog import errors
from lakelog.errors import FILE_MISSING, DataCorrupted, LakelogError
from lakelog.spark.executor_check import check_version, explain_failure

P = ParamSpec("P")
R = TypeVar("R")

_LINE: Final = re.compile(r"\[lakelog (\w+), (\w+), (\d+) characters, (?=\{)")
"""Kind, reason, length of the message; what follows is a JSON object of the metadata, `]`, a new line, the message."""
_KINDS: Final = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LakelogError)
}


class TaskFailed(Exception):
    """A lakelog error inside a task, as Spark will show it."""


@contextlib.contextmanager
def errors_to_driver() -> Iterator[None]:
    """Raises lakelog errors in a form that the driver program can read. Runs on executors.

    One of them is that this executor has another version of lakelog than the driver program.
    """
    try:
        check_version()
        yield
    except LakelogError as error:
        raise TaskFailed(to_driver_text(error)) from error


def to_driver_text(error: LakelogError) -> str:
    """The text from which `find_lakelog_error` makes an error again. Pure."""
    metadata = json.dumps(error.metadata)
    line = f"[lakelog {type(error).__name__}, {error.reason}, {len(error.message)} characters, {metadata}]"
    return f"{line}\n{error.message}"


def brief_errors(method: Callable[P, R]) -> Callable[P, R]:
    """Removes lakelog's own frames from the tracebacks of a method's lakelog errors.

    Spark puts the whole traceback before the message of an error of a data source, so a wrong option would be reported
    after a page of it.
    """

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except LakelogError as error:
            raise error.with_traceback(None) from None

    return call


def find_lakelog_error(error: BaseException) -> LakelogError | None:
    """The lakelog error of a task of a failed Spark job, or of what its executor lacks; None: it has another reason."""
    text = str(error)
    for found in _LINE.finditer(text):
        try:
            metadata, end = json.JSONDecoder().raw_decode(text, found.end())
        except ValueError:
            continue  # Cut on its way, or a message that only looks like it.
        begin = end + len("]\n")
        message = text[begin : begin + int(found[3])]
        return _KINDS.get(found[1], LakelogError)(message, reason=found[2], metadata=metadata)
    return explain_failure(text)


def find_unreadable_file(error: BaseException) -> DataCorrupted | None:
    """The error of a table's file that Spark's own reader could not read; None: a job failed for another reason."""
    found = _UNREADABLE.search(str(error))
    if found is None:
        return None
    return DataCorrupted(
        f"A data file is damaged or missing: {found[2][:500]} Restore the file from a backup of the warehouse.",
        reason=FILE_MISSING if found[1] == "FILE_NOT_EXIST" else "FILE_DAMAGED",
    )


_UNREADABLE: Final = re.compile(r"\[FAILED_READ_FILE\.(\w+)\] (.*)")
"""Spark's words for a file, and what hinders it."""


def is_from_java(error: BaseException) -> bool:
    """Whether Spark's Java raised it; its text then has Java's trace after the first line. Pure."""
    homes = {kind.__module__.partition(".")[0] for kind in type(error).__mro__}
    return not homes.isdisjoint({"py4j", "pyspark"})


def in_one_line(error: BaseException) -> str:
    """An error's text for one line: all of ours; of Spark's the cause without Java's trace. Pure.

    Spark wraps the cause once for each layer: the innermost one is used.
    """
    if not is_from_java(error):
        return str(error)
    text = str(error)
    causes = [line.strip() for line in text.splitlines() if line.strip().startswith(_CAUSE)]
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith("at ")]
    said = lines[0] if lines else type(error).__name__
    cause = causes[-1].removeprefix(_CAUSE) if causes else ""
    if cause and cause not in said:
        said = f"{said} Cause: {cause}"
    return f"{said[:_LONGEST_LINE]} (Spark's log has its traces.)"


_CAUSE: Final = "Caused by: "
_LONGEST_LINE: Final = 1000


@contextlib.contextmanager
def lakelog_errors() -> Iterator[None]:
    """Raises the lakelog error of a task instead of Spark's. Runs in the driver program."""
    try:
        yield
    except LakelogError:
        raise
    except Exception as error:
        own = find_lakelog_error(error)
        if own is None:
            raise
        raise own from error
