"""What the headers of a call say by which its lines of logs and its spans are found."""

from __future__ import annotations

from typing import Any

from lakelog.client.connection.status import REQUEST_ID
from lakelog.tracing.request_ids import FORM
from lakelog.tracing.spans import TRACEPARENT


def find_request_id(metadata: Any) -> str:
    """The id among the headers of a call; empty: none, or one that is no proper id. Pure."""
    for key, value in metadata or ():
        if key == REQUEST_ID:
            return value if isinstance(value, str) and FORM.fullmatch(value) else ""
    return ""


def find_traceparent(metadata: Any) -> str:
    """The span of the caller among the headers of a call; empty: none. Pure."""
    return next((value for key, value in metadata or () if key == TRACEPARENT and isinstance(value, str)), "")
