"""Logs: one JSON object a line on standard error, for our own lines and for those of libraries."""

from __future__ import annotations

import json
import logging
import re
import sys
from typing import Any, Final

import structlog
from structlog.typing import EventDict, Processor

LEVELS: Final = ("debug", "info", "warning", "error")
_URL_PASSWORD: Final = re.compile(r"(\w://[^/\s:@]*):[^@/\s]+@")


_encode_json: Final = json.JSONEncoder(default=repr).encode
"""Made once: `json.dumps` makes an encoder for each line that may hold other things than JSON has."""


class _StandardError:
    """A logger that asks for standard error at each line, so that whoever redirects it later gets the lines, too."""

    def msg(self, line: str) -> None:
        sys.stderr.write(line + "\n")
        sys.stderr.flush()

    debug = info = warning = error = msg

    def write(self, text: str) -> None:
        sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def set_up_logs(level: str) -> None:
    """Sends all logs of the process to standard error.

    Args:
        level: One of `LEVELS`; `debug` also writes a line for each read.
    """
    number = logging.getLevelNamesMapping()[level.upper()]
    shared: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
        blot_out_passwords,
    ]
    structlog.configure(
        processors=[*shared, _to_json],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=_StandardError,
        cache_logger_on_first_use=True,
    )
    handler = logging.StreamHandler(_StandardError())
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[*shared[:2], structlog.stdlib.add_logger_name],
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                *shared[2:],
                _to_json,
            ],
        )
    )
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(max(number, logging.INFO))
    # Migrations and pools tell each step at this level.
    for chatty in ("alembic", "sqlalchemy", "psycopg", "grpc"):
        logging.getLogger(chatty).setLevel(logging.WARNING)


def _to_json(_logger: Any, _method: str, event: EventDict) -> str:
    return _encode_json(event)


def blot_out_passwords(_logger: Any, _method: str, event: EventDict) -> EventDict:
    """Replaces passwords inside URLs, wherever they stand: the last defence, not the first."""
    for key, value in event.items():
        if isinstance(value, str) and "://" in value:
            event[key] = _URL_PASSWORD.sub(r"\1:***@", value)
    return event
