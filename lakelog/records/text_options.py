"""How text is to be understood."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

DEFAULT_MAX_RECORD_BYTES: Final = 64 << 20
"""Values of 10 MB are ordinary; without any limit one file without a line end would fill the memory."""

EPOCH_FORMATS: Final[Mapping[str, int]] = {"epoch_s": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}
"""Formats of timestamps as numbers since 1970-01-01 UTC, and how many microseconds their unit has."""


@dataclass(frozen=True)
class TextOptions:
    """How the text of CSV and JSON files is to be understood.

    Args:
        header: Whether the first line of a CSV file names its columns.
        names: The columns of CSV files without a header, in order.
        delimiter: One ASCII character.
        quote: One ASCII character; None: values are never quoted.
        multiline: Whether quoted values may hold line ends.
        null_values: Unquoted texts that mean NULL in CSV.
        true_values: Texts that mean true, in lower case.
        false_values: Texts that mean false, in lower case.
        date_formats: Of `strptime`; empty: ISO 8601.
        timestamp_formats: Of `strptime`, or a key of `EPOCH_FORMATS`; empty: ISO 8601.
        timezone: Of instants that are written without an offset; None: such a record is bad.
        encoding: Of the text, a codec that Python knows.
        max_record_bytes: A longer record makes its whole file bad.
        loose_quotes: Whether lines are records where `max_record_bytes` end without the quote that closes a value.
        hexadecimal: Whether whole numbers may be written as `0x1F`.
        settings: Where people set these, for messages; None: nowhere.
    """

    header: bool = True
    names: tuple[str, ...] = ()
    delimiter: str = ","
    quote: str | None = '"'
    multiline: bool = False
    null_values: tuple[str, ...] = ("",)
    true_values: tuple[str, ...] = ("true", "1")
    false_values: tuple[str, ...] = ("false", "0")
    date_formats: tuple[str, ...] = ()
    timestamp_formats: tuple[str, ...] = ()
    timezone: str | None = None
    encoding: str = "utf-8"
    max_record_bytes: int = DEFAULT_MAX_RECORD_BYTES
    loose_quotes: bool = False
    hexadecimal: bool = False
    settings: str | None = "source.options"

    def advise(self, name: str, words: str) -> str:
        """`words` with the full name of an option for their `{}`; nothing where it cannot be set. Pure."""
        return "" if self.settings is None else words.format(f"{self.settings}.{name}")
