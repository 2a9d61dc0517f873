"""Logs: one JSON object a line on standard error, for our own lines and for those of libraries."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final, TextIO

import structlog
from structlog.typing import Processor

LEVELS: Final = ("debug", "info", "warning", "error")

Log = Any
"""A bound logger of structlog, which has no useful static type."""


def set_up_logs(level: str, stream: TextIO | None = None, **bound: str) -> Log:
    """Sends all logs of the process to a stream. Call once, at start.

    Args:
        level: One of `LEVELS`.
        stream: By default standard error.
        bound: Stands in every line of ours.
    """
    stream = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
    ]
    structlog.configure(
        processors=[*shared, structlog.processors.JSONRenderer()],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared[:2], structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                shared[2],
                structlog.processors.JSONRenderer(),
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.INFO))
    # Each call into Spark, and each of its callbacks, is a line at this level.
    for chatty in ("py4j", "grpc"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
    return structlog.get_logger(**bound)
