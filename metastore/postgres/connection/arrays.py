"""Lists as array parameters.

psycopg checks the type of each element in Python; joining text is several times faster. One text type for all also
keeps one prepared statement for each query, where integers of different sizes would make several. The statement gives
the array's type: `%s::bigint[]`.
"""

from __future__ import annotations

from collections.abc import Iterable


def integers(values: Iterable[int | None]) -> str:
    """An array of integers."""
    return "{" + ",".join(["NULL" if value is None else str(value) for value in values]) + "}"


def words(values: Iterable[str]) -> str:
    """An array of texts that contain only letters, digits and `_-=./`; an empty one stands for NULL."""
    return "{" + ",".join([value or "NULL" for value in values]) + "}"


def texts(values: Iterable[str | None]) -> str:
    """An array of any texts."""
    return "{" + ",".join(["NULL" if value is None else _quoted(value) for value in values]) + "}"


def blobs(values: Iterable[bytes | None]) -> str:
    r"""An array of bytes, in hexadecimal; the backslash of `\x` is escaped once for the array."""
    return "{" + ",".join(["NULL" if value is None else f'"\\\\x{value.hex()}"' for value in values]) + "}"


def places(values: Iterable[tuple[bytes, int | None]]) -> tuple[str, str]:
    """Pairs of bytes and integers as an array of each."""
    pairs = list(values)
    return blobs([first for first, _ in pairs]), integers([second for _, second in pairs])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
