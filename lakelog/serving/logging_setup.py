"""Logs: one JSON object for each line on standard error, for lakelog's own lines and for those of libraries."""

from __future__ import annotations

import logging
import sys
from collections.abc import Sequence
from typing import Any, Final, TextIO

from lakelog.privacy.redaction import blot_out
from lakelog.tracing.request_ids import current
from lakelog.without_pandas import hiding

# Rich draws errors in colours for terminals, and its import is a tenth of the start of a service. Ours write JSON.
with hiding("rich"):
    import structlog
    from structlog.typing import EventDict, Processor

LEVELS: Final = ("debug", "info", "warning", "error")

Logger = Any
"""A bound logger of structlog, which has no useful static type."""


def set_up_logging(level: str, stream: TextIO | None = None, **bound: str) -> Logger:
    """Sends all logs of the process to a stream. Call it once, at the start.

    Args:
        level: One of `LEVELS`.
        stream: By default standard error.
        bound: Values that every line of lakelog contains.
    """
    # At the level info, each call into Spark and each of its callbacks is a line.
    route_logging(level, stream or sys.stderr, chatty=("py4j", "grpc"))
    return structlog.get_logger(**bound)


def route_logging(
    level: str,
    stream: TextIO,
    *,
    chatty: Sequence[str],
    to_line: Processor | None = None,
) -> None:
    """Sends all logs of the process to a stream: lakelog's and those of libraries, without secrets.

    Args:
        level: One of `LEVELS`.
        stream: The stream for the lines.
        chatty: Libraries whose lines are only logged from the level warning on.
        to_line: Formats the line; by default as JSON.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    first: list[Processor] = [
        _add_request_id,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
    ]
    then: list[Processor] = [structlog.processors.format_exc_info]
    then += [to_line or structlog.processors.JSONRenderer(), _blot_out_line]
    structlog.configure(
        processors=[*first, *then],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=structlog.WriteLoggerFactory(stream),
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(stream)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*first, structlog.stdlib.add_logger_name],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *then],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.INFO))
    for name in chatty:
        logging.getLogger(name).setLevel(logging.WARNING)


def _add_request_id(_logger: Any, _method: str, event: EventDict) -> EventDict:
    request_id = current.get()
    if request_id:
        event.setdefault("request_id", request_id)
    return event


def _blot_out_line(_logger: Any, _method: str, line: Any) -> str:
    return blot_out(str(line))
