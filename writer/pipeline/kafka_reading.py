"""From the section `source` of a pipeline's file to a `KafkaSource`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.log.client_settings import to_option_names
from lakelog.log.codecs.avro.writer_schema import read_writer_schema
from lakelog.options.declared.kafka import KAFKA_SERVERS, KAFKA_TOPIC
from lakelog.options.declared.log import KAFKA, LOG_SYSTEM
from lakelog.options.log_rules import check_log
from lakelog.options.option import Scope
from lakelog.options.registry import check_options
from lakelog.records.text_options import TextOptions
from lakelog.serving.streams.work_file import to_path
from lakelog.serving.streams.yaml_section import Section

from .columns import ColumnSource
from .kafka_spec import DEFAULT_RECORDS_PER_BATCH, SERVERS_OPTION, AvroForm, KafkaSource, RecordFormat, Start
from .spec import Format

_PREFIX: Final = "kafka."
_LAST_ID: Final = 2**31 - 1
_TIME_UNITS: Final = ("ms", "us", "ns")


def read_kafka_source(
    section: Section,
    read_columns: Callable[[Section], Mapping[str, ColumnSource]],
    read_text: Callable[[Section, Format], TextOptions],
    file: Path,
) -> KafkaSource:
    """Reads the section; notes every problem.

    Args:
        section: With `type: kafka`.
        read_columns: Reads `columns`.
        read_text: Reads `options` of a format.
        file: The pipeline's.
    """
    servers = section.required_text("bootstrap_servers", "kafka-1:9092")
    if servers:
        _check_option(section, "bootstrap_servers", KAFKA_SERVERS.key, servers)
    topics = _read_topics(section)
    format_ = RecordFormat(section.choice("format", [item.value for item in RecordFormat], None))
    options = {f"{_PREFIX}{name}": value for name, value in section.text_map("kafka").items()}
    _check_options(section, {SERVERS_OPTION: servers or "localhost:9092"}, options)
    is_debezium = format_ is RecordFormat.DEBEZIUM_JSON
    if is_debezium:
        # Its messages say by themselves what they hold, and carry fields of databases' own.
        for key in ("unknown_columns", "options"):
            if section.node(key) is not None:
                section.problem(key, f"it has no meaning for {format_.value}; leave it out.")
    time_unit = section.optional_text("time_unit")
    if time_unit is not None and (not is_debezium or time_unit not in _TIME_UNITS):
        section.problem(
            "time_unit", f"it is for {RecordFormat.DEBEZIUM_JSON.value}, and one of {', '.join(_TIME_UNITS)}."
        )
    is_avro = format_ is RecordFormat.AVRO
    source = KafkaSource(
        topics=topics,
        format=format_,
        options={SERVERS_OPTION: servers, **options},
        starting=_read_start(section),
        max_records_per_batch=section.whole("max_records_per_batch", DEFAULT_RECORDS_PER_BATCH, 1, 100_000_000),
        columns=read_columns(section.section("columns")),
        ignore_unknown=is_debezium or section.choice("unknown_columns", ("error", "ignore"), "error") == "ignore",
        fill_missing=section.choice("missing_columns", ("error", "null"), "error") == "null",
        text=TextOptions()
        if is_debezium
        else read_text(section.section("options"), Format.PARQUET if is_avro else Format.JSON),
        time_unit=time_unit,
        avro=_read_avro(section, file, is_avro=is_avro),
        takes_uncommitted=section.choice("before_commit", ("refuse", "take"), "refuse") == "take",
    )
    section.finish()
    return source


def _read_topics(section: Section) -> tuple[str, ...]:
    """One topic, or a list of them."""
    topics = section.texts("topic", ())
    if not topics:
        section.problem("topic", "it is missing; give one, or a list, for instance `topic: orders`.")
        return ("",)
    for name in topics:
        _check_option(section, "topic", KAFKA_TOPIC.key, name)
    if doubled := sorted({name for name in topics if topics.count(name) > 1}):
        section.problem("topic", f"'{doubled[0][:100]}' stands there twice, and would be read twice; leave one out.")
    return topics


def _read_avro(section: Section, file: Path, *, is_avro: bool) -> AvroForm | None:
    """The schema, which stands here or in a file."""
    path, text = section.optional_text("schema_file"), section.optional_text("schema")
    registry_id = section.whole("schema_id", 0, 1, _LAST_ID) if section.node("schema_id") is not None else None
    by_id = section.text_map("schemas")
    if not is_avro:
        for key in ("schema", "schema_file", "schema_id", "schemas"):
            if section.node(key) is not None:
                section.problem(key, f"it is for {RecordFormat.AVRO.value}; leave it out.")
        return None
    if section.node("schemas") is not None:
        if path or text or registry_id is not None:
            section.problem("schemas", "it stands beside schema, schema_file or schema_id; give it alone.")
        return _read_forms(section, file, by_id)
    if (path is None) == (text is None):
        what = "both are given" if path is not None else "it is missing"
        section.problem(
            "schema_file", f"{what}; give the schema that records are written by in a file, as `./orders.avsc`, or as "
            "text in source.schema."
        )  # fmt: skip
        return None
    key = "schema" if path is None else "schema_file"
    try:
        return AvroForm(read_writer_schema(_load(file, path) if path is not None else text or ""), registry_id)
    except InvalidArgument as error:
        section.problem(key, error.message)
    return None


def _read_forms(section: Section, file: Path, by_id: Mapping[str, str]) -> AvroForm | None:
    """Several schemas, by their numbers."""
    forms: list[AvroForm] = []
    for number, path in by_id.items():
        if not (number.isascii() and number.isdigit() and 1 <= int(number) <= _LAST_ID):
            section.problem(
                "schemas", f"'{number[:80]}' is no number of a schema; give for instance {{7: ./first.avsc}}."
            )
            continue
        if any(each.registry_id == int(number) for each in forms):
            section.problem(
                "schemas", f"it has the number {int(number)} twice; give each schema by a number of its own."
            )
            continue
        try:
            forms.append(AvroForm(read_writer_schema(_load(file, path)), int(number)))
        except InvalidArgument as error:
            section.problem("schemas", f"{number}: {error.message}")
    if not by_id:
        section.problem("schemas", "it is empty; give each schema by its number, for instance {7: ./first.avsc}.")
    return replace(forms[0], others=tuple(forms[1:])) if forms else None


def _load(file: Path, path: str) -> str:
    found = to_path(file, path)
    try:
        return found.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidArgument(f"'{path[:200]}' cannot be read: {why}. Give the path of a file of JSON.") from error


def _check_option(section: Section, key: str, option: str, value: str) -> None:
    try:
        check_options({option: value}, Scope.TABLE)
    except InvalidArgument as error:
        section.problem(key, error.message)


def _check_options(section: Section, servers: Mapping[str, str], options: Mapping[str, str]) -> None:
    """Those of connections alone are possible, with the values that tables may give them."""
    problems = [problem for key, value in options.items() if (problem := _find_problem(key, value))]
    if not problems:
        try:
            check_log({LOG_SYSTEM.key: KAFKA, **servers, **options}, has_primary_key=False)
        except InvalidArgument as error:
            problems = [error.message]
    for problem in problems:
        section.problem("kafka", problem)


def _find_problem(key: str, value: str) -> str | None:
    known = to_option_names() - {KAFKA_SERVERS.key}
    try:
        check_options({key: value}, Scope.TABLE)
    except InvalidArgument as error:
        return error.message
    names = ", ".join(sorted(name.removeprefix(_PREFIX) for name in known))
    return None if key in known else f"'{key.removeprefix(_PREFIX)}' has no meaning here; known are {names}."


def _read_start(section: Section) -> Start | int:
    text = section.text("starting", Start.EARLIEST.value) if section.node("starting") is not None else "earliest"
    if text in (Start.EARLIEST.value, Start.LATEST.value):
        return Start(text)
    try:
        found = dt.datetime.fromisoformat(text)
        if found.tzinfo is None:
            raise ValueError
    except ValueError:
        section.problem(
            "starting", f"'{text[:80]}' is not possible; use earliest, latest, or a time as \"2026-01-31T12:00:00Z\"."
        )
        return Start.EARLIEST
    return int(found.timestamp() * 1000)
