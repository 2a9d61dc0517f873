"""What an instance does with Spark before it has its lease, so that it takes over in an instant."""

from __future__ import annotations

from collections.abc import Callable

from lakelog.errors import LakelogError
from lakelog.serving.logging_setup import Logger
from lakelog.serving.streams.exit_status import may_pass
from lakelog.spark.task_errors import in_one_line


def start_before_lease(check: Callable[[], object], start: Callable[[], object]) -> None:
    """Starts Spark if it is worth that: a process that cannot start it must not take the lease from one that can.

    Args:
        check: Checks table and source without the lease. What does not fit is found again, and reported, under it.
        start: Starts Spark; what it raises ends the instance.
    """
    try:
        check()
    except LakelogError as error:
        if not may_pass(error):
            return
    start()


def prepare(warm_up: Callable[[], object], log: Logger) -> None:
    """Warms Spark up; never raises: without it the first batch is slow, and still sooner than a new start."""
    try:
        warm_up()
    except Exception as error:
        log.warning("not warmed up, the first batch will be slow", error=in_one_line(error))
    else:
        log.info("ready to take over")
