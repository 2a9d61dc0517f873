"""The formats of the command's output; a separate module, since `printer` has imports that few commands need."""

from __future__ import annotations

import enum


class OutputFormat(enum.Enum):
    """The reader of the output, people or programs, and what programs read."""

    TABLE = "table"
    JSON = "json"
    JSONL = "jsonl"
    CSV = "csv"
    YAML = "yaml"

    @property
    def for_programs(self) -> bool:
        """Whether programs read the output."""
        return self is not OutputFormat.TABLE
