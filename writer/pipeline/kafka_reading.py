"""From the section `source` of a pipeline's file to a `KafkaSource`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import Final

from lakelog.errors import InvalidArgument
from lakelog.log.client_settings import to_option_names
from lakelog.options import KAFKA_SERVERS, KAFKA_TOPIC, LOG_SYSTEM, Scope, check_options
from lakelog.options.log_options import KAFKA
from lakelog.options.log_rules import check_log
from lakelog.serving.yaml_section import Section

from .kafka_spec import DEFAULT_RECORDS_PER_BATCH, SERVERS_OPTION, KafkaSource, RecordFormat, Start
from .spec import ColumnSource, TextOptions

_PREFIX: Final = "kafka."
_TIME_UNITS: Final = ("ms", "us", "ns")


def read_kafka_source(
    section: Section,
    read_columns: Callable[[Section], Mapping[str, ColumnSource]],
    read_text: Callable[[Section], TextOptions],
) -> KafkaSource:
    """Reads the section; notes every problem.

    Args:
        section: With `type: kafka`.
        read_columns: Reads `columns`.
        read_text: Reads `options`.
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
    source = KafkaSource(
        topics=topics,
        format=format_,
        options={SERVERS_OPTION: servers, **options},
        starting=_read_start(section),
        max_records_per_batch=section.whole("max_records_per_batch", DEFAULT_RECORDS_PER_BATCH, 1, 100_000_000),
        columns=read_columns(section.section("columns")),
        ignore_unknown=is_debezium or section.choice("unknown_columns", ("error", "ignore"), "error") == "ignore",
        text=TextOptions() if is_debezium else read_text(section.section("options")),
        time_unit=time_unit,
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
