"""The id of a call, by which a line of the log is found: the caller's own, or one that the server draws."""

from __future__ import annotations

import re
from typing import Any, Final

from lakelog.client.connection.status import REQUEST_ID

_FORM: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")


def find_request_id(metadata: Any) -> str:
    """The id among the headers of a call; empty: none, or one that is no proper id. Pure."""
    for key, value in metadata or ():
        if key == REQUEST_ID:
            return value if isinstance(value, str) and _FORM.fullmatch(value) else ""
    return ""
