"""From a pipeline's file to a `Pipeline`: which keys there are, what they may hold, which of them fit together."""

from __future__ import annotations

import codecs
import zoneinfo
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from lakelog.format.types.rowkind import RowKind
from lakelog.records.text_options import DEFAULT_MAX_RECORD_BYTES, EPOCH_FORMATS, TextOptions
from lakelog.serving.streams.work_file import read_name, read_table, read_trigger, to_path
from lakelog.serving.streams.yaml_section import Section, load_section

from .columns import ColumnSource
from .kafka_reading import read_kafka_source
from .kafka_spec import KafkaSource
from .spec import (
    DEFAULT_FILES_PER_BATCH,
    DEFAULT_INTERVAL_S,
    BadRecords,
    Evolution,
    FileSource,
    Format,
    Mode,
    Order,
    Pipeline,
    RowKindSource,
)

_KINDS: Final = tuple(kind.text for kind in RowKind)
_FILES: Final = "files"
_KAFKA: Final = "kafka"
_CSV_ONLY: Final = ("header", "names", "delimiter", "quote", "multiline", "null_values")


def read_pipeline(file: Path) -> Pipeline:
    """Reads and checks a pipeline's file; relative paths in it start at its own folder.

    Raises:
        InvalidArgument: With every problem found: file, line, column, key, value and what to do, a line each.
    """
    file = file.absolute()
    top = load_section(file, "pipeline", "name, table, source, mode and checkpoint")
    name = read_name(top, "flights")
    table = read_table(top, "nyc.flights")
    target = top.optional_text("target")
    source_section = top.section("source")
    source = _read_source(source_section, file)
    mode = Mode(top.choice("mode", [mode.value for mode in Mode], None))
    row_kind = _read_row_kind(top, mode)
    interval_s = read_trigger(top.section("trigger"), DEFAULT_INTERVAL_S, 0.05)
    checkpoint = top.required_text("checkpoint", "./state/flights")
    bad_records = BadRecords(top.choice("bad_records", [choice.value for choice in BadRecords], BadRecords.STOP.value))
    dead_letters = top.optional_text("dead_letters")
    if bad_records is BadRecords.DEAD_LETTER and dead_letters is None:
        top.problem("bad_records", "'dead-letter' needs a folder; add for instance `dead_letters: ./dead-letters`.")
    if bad_records is BadRecords.STOP and dead_letters is not None:
        top.problem(
            "dead_letters", "the folder would stay empty, since bad_records is 'stop'; add `bad_records: dead-letter`."
        )
    properties = top.text_map("properties")
    evolution = _read_evolution(top, source_section)
    if evolution in (Evolution.ADD_COLUMNS, Evolution.IGNORE):
        # What has a value is added before a batch is read.
        source = replace(source, ignore_unknown=True)
    top.finish()
    letters = None if dead_letters is None else to_path(file, dead_letters)
    if isinstance(source, FileSource) and source_section.is_readable and source_section.node("path") is not None:
        # A missing path was reported already, and is no folder.
        given = {"checkpoint": to_path(file, checkpoint) if checkpoint else None, "dead_letters": letters}
        _check_folders(top, source.path, given)
    top.problems.check()
    return Pipeline(
        file,
        name,
        table,
        target,
        source,
        mode,
        row_kind,
        interval_s,
        to_path(file, checkpoint),
        bad_records,
        letters,
        properties,
        evolution,
        top.problems.marks,
    )


def _read_evolution(top: Section, source: Section) -> Evolution | None:
    section = top.section("schema")
    if not section.exists:
        return None
    found = Evolution(section.choice("evolution", [choice.value for choice in Evolution], None))
    section.finish()
    if source.is_readable and source.node("unknown_columns") is not None:
        section.problem("evolution", "source.unknown_columns says the same; leave that out.")
    return found


def _check_folders(top: Section, source: Path, others: Mapping[str, Path | None]) -> None:
    for key, path in others.items():
        if path is not None and path.resolve().is_relative_to(source.resolve()):
            top.problem(key, f"'{path}' lies inside the source's folder {source}; put it elsewhere.")


def _read_source(section: Section, file: Path) -> FileSource | KafkaSource:
    if not section.exists:
        section.problems.add(section.place, "source", "it is missing; it says what is read (type, path, format).")
    if section.is_readable and section.choice("type", (_FILES, _KAFKA), None) == _KAFKA:
        return read_kafka_source(section, _read_columns, _read_record_options, file)
    return _read_files(section, file)


def _read_files(section: Section, file: Path) -> FileSource:
    path = section.required_text("path", "./incoming") if section.is_readable else ""
    if "://" in path and not path.startswith("file://"):
        section.problem("path", f"'{path[:80]}' is not a folder that can be read here; give a path of a file system.")
    format_ = Format(section.choice("format", [item.value for item in Format], None if section.is_readable else "csv"))
    pattern = section.text("pattern", "*")
    if "/" in pattern or not pattern:
        section.problem("pattern", f"'{pattern[:80]}' is not possible; it is for names without folders, as `*.csv`.")
    source = FileSource(
        path=to_path(file, path),
        format=format_,
        pattern=pattern,
        recursive=section.flag("recursive", False),
        order=Order(section.choice("order", [order.value for order in Order], Order.NAME.value)),
        max_files_per_batch=section.whole("max_files_per_batch", DEFAULT_FILES_PER_BATCH, 1, 10_000),
        columns=_read_columns(section.section("columns")),
        ignore_unknown=section.choice("unknown_columns", ("error", "ignore"), "error") == "ignore",
        fill_missing=section.choice("missing_columns", ("error", "null"), "error") == "null",
        text=_read_text_options(section.section("options"), format_),
    )
    section.finish()
    return source


def _read_columns(section: Section) -> dict[str, ColumnSource]:
    columns = {}
    for name in section.names:
        node = section.node(name)
        if node is not None and not hasattr(node, "value"):
            continue
        if node is not None and isinstance(node.value, str):
            columns[name] = ColumnSource(section.text(name, name))
            continue
        inner = section.section(name)
        formats = inner.texts("format", ())
        _check_formats(inner, "format", formats, epoch=True)
        columns[name] = ColumnSource(inner.text("from", name), formats)
        inner.finish()
    return columns


def _read_record_options(section: Section, format_: Format) -> TextOptions:
    """Of records that are JSON, or have types of their own as Parquet files have."""
    return _read_text_options(section, format_, "records of Avro, whose schema says what they hold")


def _read_text_options(
    section: Section, format_: Format, typed: str = "Parquet files, which say by themselves what they hold"
) -> TextOptions:
    if format_ is Format.PARQUET:
        known: tuple[str, ...] = ("date_format", "timestamp_format", "timezone", "true_values", "false_values")
        what = typed
    elif format_ is Format.JSON:
        known, what = (), "JSON"
    else:
        known, what = (), ""
    for name in section.names:
        if what and name in (*_CSV_ONLY, *(("encoding", "max_record_bytes") if known else ())):
            section.problem(name, f"the option has no meaning for {what}; leave it out.")
    quote = section.text("quote", '"')
    options = TextOptions(
        header=section.flag("header", True),
        names=section.texts("names", ()),
        delimiter=section.text("delimiter", ","),
        quote=quote or None,
        multiline=section.flag("multiline", False),
        null_values=section.texts("null_values", ("",)),
        true_values=tuple(text.lower() for text in section.texts("true_values", ("true", "1"))),
        false_values=tuple(text.lower() for text in section.texts("false_values", ("false", "0"))),
        date_formats=section.texts("date_format", ()),
        timestamp_formats=section.texts("timestamp_format", ()),
        timezone=section.optional_text("timezone"),
        encoding=section.text("encoding", "utf-8"),
        max_record_bytes=section.whole("max_record_bytes", DEFAULT_MAX_RECORD_BYTES, 1024, 1 << 30),
    )
    section.finish()
    _check_text_options(section, options)
    return options


def _check_text_options(section: Section, options: TextOptions) -> None:
    for key, value in (("delimiter", options.delimiter), ("quote", options.quote)):
        if value is not None and (len(value) != 1 or not value.isascii() or value in "\r\n"):
            section.problem(key, f'{value[:20]!r} is not possible; give one ASCII character, as `"\\t"` or `";"`.')
    if options.delimiter == options.quote:
        section.problem("quote", "it is the same character as the delimiter; give another.")
    if options.header and options.names:
        section.problem("names", "files with a header name their columns; leave it out, or set `header: false`.")
    if not options.header and not options.names:
        section.problem("header", "without a header the columns need `names: [...]`.")
    if len(set(options.names)) < len(options.names):
        section.problem("names", "a name stands there twice; rename one.")
    if options.timezone is not None:
        try:
            zoneinfo.ZoneInfo(options.timezone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
            section.problem("timezone", f"'{options.timezone[:80]}' is not a zone; write it as UTC or Europe/Paris.")
    try:
        is_text = codecs.lookup(options.encoding)._is_text_encoding
    except LookupError:
        is_text = False
    if not is_text:
        section.problem("encoding", f"'{options.encoding[:80]}' is not known; write it as utf-8 or latin-1.")
    _check_formats(section, "date_format", options.date_formats, epoch=False)
    _check_formats(section, "timestamp_format", options.timestamp_formats, epoch=True)


def _check_formats(section: Section, key: str, formats: tuple[str, ...], *, epoch: bool) -> None:
    for item in formats:
        if "%" not in item and not (epoch and item in EPOCH_FORMATS):
            also = f", or one of {', '.join(EPOCH_FORMATS)}" if epoch else ""
            section.problem(key, f"'{item[:80]}' is no format; write it with %Y, %m, %d, %H, %M, %S, %z{also}.")


def _read_row_kind(top: Section, mode: Mode) -> RowKindSource | None:
    node = top.node("row_kind")
    if node is None:
        return None
    if isinstance(node.value, str):
        found = RowKindSource(top.text("row_kind", ""))
    else:
        section = top.section("row_kind")
        values = section.text_map("values")
        for text, kind in values.items():
            if kind not in _KINDS:
                section.problem("values", f"'{text}: {kind[:20]}' is not possible; a kind is {', '.join(_KINDS)}.")
        found = RowKindSource(section.required_text("column", "op"), values)
        section.finish()
    if mode is not Mode.UPSERT:
        top.problem("row_kind", f"it says what each row does, which mode '{mode.value}' contradicts; use mode: upsert.")
    return found
