"""Logs: one JSON object a line on standard error, for our own lines and for those of libraries."""

from __future__ import annotations

import json
import sys
from typing import Any, Final

from structlog.typing import EventDict

from lakelog.serving.logging_setup import route_logging

_encode_json: Final = json.JSONEncoder(default=repr).encode
"""Made once: `json.dumps` makes an encoder for each line when it gets a `default`."""


class _StandardError:
    """Looks up standard error for each line, so that a later redirection gets the lines, too."""

    def write(self, text: str) -> None:
        sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def set_up_logging(level: str) -> None:
    """Sends all logs of the process to standard error.

    Args:
        level: One of `LEVELS`; `debug` also writes a line for each read.
    """
    stream: Any = _StandardError()
    # Migrations and pools log each step at the level info.
    route_logging(
        level,
        stream,
        chatty=("alembic", "sqlalchemy", "psycopg", "grpc"),
        to_line=_to_json,
    )


def _to_json(_logger: Any, _method: str, event: EventDict) -> str:
    return _encode_json(event)
