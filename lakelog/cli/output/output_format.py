"""The two formats of the command's output; of its own, as `printer` imports what only commands that print need."""

from __future__ import annotations

import enum


class OutputFormat(enum.Enum):
    """For whom the output is."""

    TABLE = "table"
    JSON = "json"
