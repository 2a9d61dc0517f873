"""The two formats of the command's output; a separate module, since `printer` has imports that few commands need."""

from __future__ import annotations

import enum


class OutputFormat(enum.Enum):
    """The reader of the output: people or programs."""

    TABLE = "table"
    JSON = "json"
