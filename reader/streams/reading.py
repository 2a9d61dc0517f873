"""From a stream's file to a `Stream`: which keys there are, what they may contain, which of them fit together."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from lakelog.errors import InvalidArgument, NotFound
from lakelog.serving.streams.work_file import read_name, read_table, read_trigger, to_path
from lakelog.serving.streams.yaml_section import FILE_MISFIT, Section, load_section

from .spec import DEFAULT_INTERVAL_S, DEFAULT_SHOWN_ROWS, Sink, SinkType, Source, Stream

_COLUMN: Final = re.compile(r"[^\x00-\x1f]{1,255}")
_FUNCTION: Final = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")
_OWN_KEYS: Final = ("table", "columns", "filter")
_SUFFIXES: Final = (".yaml", ".yml")


def read_streams(places: Sequence[Path]) -> list[Stream]:
    """Reads all streams of files and folders.

    Raises:
        NotFound: A place does not exist, or a folder has no such files.
        InvalidArgument: Problems of all files together, or two streams have one name or one checkpoint.
    """
    streams, problems = read_each(places)
    if problems:
        raise InvalidArgument("\n".join(problems), reason=FILE_MISFIT)
    return streams


def read_each(places: Sequence[Path]) -> tuple[list[Stream], list[str]]:
    """Reads the streams of files and folders that can be read, and says what is wrong with the others.

    Returns:
        The streams, and messages.

    Raises:
        NotFound: A place does not exist, or a folder has no such files.
    """
    streams: list[Stream] = []
    problems: list[str] = []
    for file in _find_files(places):
        try:
            streams.append(read_stream(file))
        except InvalidArgument as error:
            problems.append(error.message)
    for key in ("name", "checkpoint"):
        by_value: dict[object, Stream] = {}
        for stream in streams:
            value = getattr(stream, key)
            other = by_value.setdefault(value, stream)
            if other is not stream:
                what = f"'{value}' is that of {other.file}, too; give each stream its own."
                problems.append(stream.places.describe(key, what))
    return streams, problems


def read_stream(file: Path) -> Stream:
    """Reads and checks a stream's file; relative paths in it start at its own folder.

    Raises:
        InvalidArgument: The error has every problem found: file, line, column, key, value and what to do, a line each.
    """
    file = file.absolute()
    top = load_section(file, "stream", "name, source, sink and checkpoint")
    name = read_name(top, "orders-copy")
    target = top.optional_text("target")
    source = _read_source(top.section("source"))
    sink = _read_sink(top.section("sink"), file)
    interval_s = read_trigger(top.section("trigger"), DEFAULT_INTERVAL_S, 0.0)
    checkpoint = top.required_text("checkpoint", "./state/orders-copy")
    if "://" in checkpoint and not checkpoint.startswith("file://"):
        top.problem("checkpoint", f"'{checkpoint[:80]}' is no folder of a file system; give a path.")
    top.finish()
    if sink.path is not None and checkpoint and to_path(file, checkpoint).is_relative_to(sink.path):
        top.problem("checkpoint", f"it lies inside the sink's folder {sink.path}; put it elsewhere.")
    if sink.type is SinkType.TABLE and sink.table and sink.table == source.table:
        top.problem(
            "sink", f"its table is the source's, {source.table}: every batch would be read again; give another."
        )
    top.problems.check()
    return Stream(file, name, target, source, sink, interval_s, to_path(file, checkpoint), top.problems.marks)


def _find_files(places: Sequence[Path]) -> list[Path]:
    files: list[Path] = []
    for place in places:
        if place.is_dir():
            found = sorted(file for file in place.iterdir() if file.suffix in _SUFFIXES)
            if not found:
                raise NotFound(f"The folder {place} has no file that ends in .yaml or .yml.")
            files += found
        else:
            files.append(place)
    return list(dict.fromkeys(file.absolute() for file in files))


def _read_source(section: Section) -> Source:
    if not section.exists:
        section.problems.add(section.place, "source", "it is missing; it says what is read (table, options).")
    table = read_table(section, "shop.orders") if section.is_readable else ""
    columns = section.texts("columns", ()) if "columns" in section.names else None
    source = Source(table, columns, section.optional_text("filter"), section.text_map("options"))
    for name in source.options:
        if name.lower() in _OWN_KEYS:
            section.problem("options", f"'{name}' is no option here; give it as the key source.{name.lower()}.")
    section.finish()
    return source


def _read_sink(section: Section, file: Path) -> Sink:
    if not section.exists:
        section.problems.add(section.place, "sink", "it is missing; it says where rows go (type and what that needs).")
        return Sink(SinkType.CONSOLE)
    if not section.is_readable:
        return Sink(SinkType.CONSOLE)
    kind = SinkType(section.choice("type", [each.value for each in SinkType], None))
    table = path = function = ""
    rows, fill_missing = DEFAULT_SHOWN_ROWS, False
    if kind is SinkType.TABLE:
        table = read_table(section, "shop.orders_copy")
        fill_missing = section.choice("missing_columns", ("error", "null"), "error") == "null"
    elif kind in (SinkType.PARQUET, SinkType.JSON):
        path = section.required_text("path", "./out")
        if "://" in path and not path.startswith("file://"):
            section.problem("path", f"'{path[:80]}' is not a folder that can be written to here; give a path.")
    elif kind is SinkType.PYTHON:
        function = section.required_text("function", "billing:handle")
        if function and not _FUNCTION.fullmatch(function):
            section.problem("function", f"'{function[:80]}' is no function; write it as module:function.")
    else:
        rows = section.whole("rows", DEFAULT_SHOWN_ROWS, 1, 10_000)
    row_kind = section.optional_text("row_kind_column")
    if row_kind is not None and not _COLUMN.fullmatch(row_kind):
        section.problem("row_kind_column", f"'{row_kind[:80]}' is no name of a column; use up to 255 characters.")
    section.finish()
    return Sink(kind, table, to_path(file, path) if path else None, function, row_kind, rows, fill_missing)
