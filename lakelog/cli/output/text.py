"""Single values as text, for and from people. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from lakelog.byte_sizes import format_size
from lakelog.errors import InvalidArgument
from lakelog.time_parsing import parse_timestamp

_CONTROL: Final = {
    **{code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))},
    **{code: f"\\u{code:04x}" for code in (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))},
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
}
"""Characters that must not reach a terminal: some would move its cursor, direction marks would mislead."""

_UNICODE_ESCAPES: Final = {code: f"\\u{code:04x}" for code in _CONTROL if code != ord("\n")}

_MILLISECONDS: Final = re.compile(r"-?[0-9]{1,18}")


def format_time(time_ms: int | None) -> str:
    """Milliseconds since the epoch as ISO 8601 in UTC, `2013-01-01T10:00:00.000Z`; empty for None."""
    if time_ms is None:
        return ""
    seconds, milliseconds = divmod(time_ms, 1000)
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{time_ms} ms"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds:03d}Z"


def parse_time(text: str) -> int:
    """Milliseconds since the epoch from ISO 8601 (UTC where it names no zone) or a number of milliseconds.

    Raises:
        InvalidArgument: It is neither of them.
    """
    if _MILLISECONDS.fullmatch(text):
        return int(text)
    try:
        return parse_timestamp(text) // 1000
    except ValueError:
        raise InvalidArgument(
            f"The time {text!r} cannot be read: write it as 2013-07-01T12:00:00Z (UTC unless it says otherwise) or in "
            "milliseconds since 1970."
        ) from None


def format_age(milliseconds: int) -> str:
    """A duration in one or two units, for people: `3 s`, `2 min 5 s`, `3 h 20 min`, `4 d 2 h`."""
    seconds = max(milliseconds, 0) // 1000
    steps = (("d", 86_400), ("h", 3600), ("min", 60), ("s", 1))
    parts = []
    for unit, size in steps:
        count, seconds = divmod(seconds, size)
        parts.append((count, unit))
    first = next((i for i, (count, _) in enumerate(parts) if count), len(parts) - 1)
    return " ".join(f"{count} {unit}" for count, unit in parts[first : first + 2] if count) or "0 s"


def format_bytes(size: int | None) -> str:
    """A size for people, `1.4 MiB`; empty for None."""
    return "" if size is None else format_size(size)


def format_count(count: int | None) -> str:
    """A number with its thousands separated, `336,776`; empty for None."""
    return "" if count is None else f"{count:,}"


def plural(count: int, noun: str) -> str:
    """`1 row`, `3 rows`; for nouns that take an s."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def clean_text(text: str) -> str:
    """The text with escapes instead of characters that would change other parts of a terminal."""
    return text if text.isprintable() else text.translate(_CONTROL)


def escape_controls(text: str) -> str:
    """Lines of JSON, YAML or CSV, with escapes as JSON has them instead of such characters, but for line ends."""
    return text if text.isprintable() else text.translate(_UNICODE_ESCAPES)
