"""Records that cannot be read or do not fit, and files of which none can."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

EXPLAINED_BYTES: Final = 1 << 20
"""A longer bad record is not parsed again for a better reason: as Python's objects it takes thirty times its size."""


class FileRefused(Exception):
    """A file of which no further record can be read; `str` says why. Never leaves the tasks of a batch."""


@dataclass(frozen=True)
class BadRecord:
    """A record that was left out.

    Args:
        line: The line it begins in, or its row in a Parquet file, from 1; None: the whole file, or what is left of it.
            Of a record of a topic its offset.
        column: The table's column that it does not fit; None: the record as a whole.
        reason: Why, for people.
        raw: The record as it stands in the file; for Parquet its values as JSON; empty for a whole file.
    """

    line: int | None
    column: str | None
    reason: str
    raw: bytes

    def to_json(self, facts: dict[str, Any], place: str = "line") -> bytes:
        """The dead letter: one line of JSON, with `facts` of the batch at its front; `place` names the line. Pure."""
        letter = {**facts, place: self.line, "column": self.column, "reason": self.reason}
        try:
            letter["raw"] = self.raw.decode("utf-8")
        except UnicodeDecodeError:
            letter["raw"] = self.raw.decode("utf-8", "backslashreplace")
            letter["raw_base64"] = base64.b64encode(self.raw).decode("ascii")
        # Names of files may be no Unicode: what is none becomes escapes of JSON.
        return json.dumps(letter, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"


def to_printable(text: str) -> str:
    """The text with escapes for halves of surrogate pairs, which JSON can name and nothing can print. Pure."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


Report = Callable[[BadRecord], None]
"""Where bad records go, in the order in which they are found."""
