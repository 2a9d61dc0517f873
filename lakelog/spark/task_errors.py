"""Errors on their way from a task to the driver program: through text, since Spark hands on nothing else.

A task raises `TaskFailed`, whose text is what the user needs to read, followed by one line from which
`find_lakelog_error` makes the same error again, of the same kind, in the driver program.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import re
from collections.abc import Callable, Iterator
from typing import Final, ParamSpec, TypeVar

from lakelog import errors
from lakelog.errors import LakelogError

P = ParamSpec("P")
R = TypeVar("R")

_LINE: Final = re.compile(r"\[lakelog error ([A-Za-z0-9+/=]+)\]")
_KINDS: Final = {
    kind.__name__: kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LakelogError)
}


class TaskFailed(Exception):
    """A lakelog error inside a task, as Spark will show it."""


@contextlib.contextmanager
def told_to_driver() -> Iterator[None]:
    """Raises lakelog errors in a form that the driver program can read. Runs on executors."""
    try:
        yield
    except LakelogError as error:
        facts = {
            "kind": type(error).__name__,
            "message": error.message,
            "reason": error.reason,
            "metadata": error.metadata,
        }
        line = base64.b64encode(json.dumps(facts).encode()).decode()
        raise TaskFailed(f"{error.message}\n[lakelog error {line}]") from error


def told_briefly(method: Callable[P, R]) -> Callable[P, R]:
    """Has lakelog errors come out of a method without the way they took inside of lakelog.

    Spark puts the whole traceback before the message of whatever a data source raises, so that a wrong option would be
    told behind a page of it.
    """

    @functools.wraps(method)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except LakelogError as error:
            raise error.with_traceback(None) from None

    return call


def find_lakelog_error(error: BaseException) -> LakelogError | None:
    """The lakelog error that a task of a failed Spark job raised; None where it failed for another reason."""
    found = _LINE.search(str(error))
    if found is None:
        return None
    facts = json.loads(base64.b64decode(found.group(1)))
    kind = _KINDS.get(facts["kind"], LakelogError)
    return kind(facts["message"], reason=facts["reason"], metadata=facts["metadata"])


@contextlib.contextmanager
def lakelog_errors() -> Iterator[None]:
    """Raises the lakelog error that a task raised, instead of Spark's. Runs in the driver program."""
    try:
        yield
    except LakelogError:
        raise
    except Exception as error:
        own = find_lakelog_error(error)
        if own is None:
            raise
        raise own from error
