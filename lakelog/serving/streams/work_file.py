"""What the files of pipelines and streams have in common: names, tables, triggers, folders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from lakelog.serving.streams.yaml_section import Section

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}\.[A-Za-z_][A-Za-z0-9_]{0,127}")


def read_name(top: Section, example: str) -> str:
    """The name of the pipeline or stream that the file describes."""
    name = top.required_text("name", example)
    if name and not _NAME.fullmatch(name):
        top.problem("name", f"'{name[:80]}' is not possible; use letters, digits, _ and -, at most 64, no digit first.")
    return name


def read_table(section: Section, example: str) -> str:
    """A table's full name, from the key `table`."""
    table = section.required_text("table", example)
    if table and not _TABLE.fullmatch(table):
        section.problem("table", f"'{table[:80]}' is not a table's full name; write it as database.table.")
    return table


def read_trigger(section: Section, default_s: float, first_s: float) -> float | None:
    """The time between two triggers, in seconds; None: the stream ends when it has read all available data.

    Args:
        section: The section with `interval` or `available_now`.
        default_s: The interval if none is given.
        first_s: The shortest interval.
    """
    now = section.flag("available_now", False)
    interval_s = section.seconds("interval", default_s, first_s, 86_400.0)
    if now and "interval" in section.names:
        section.problem("available_now", "an interval contradicts it; leave one of them out.")
    section.finish()
    return None if now else interval_s


def to_path(file: Path, text: str) -> Path:
    """A path from a file; a relative one starts at the file's own folder. Pure."""
    return (file.parent / text.removeprefix("file://")).absolute()
