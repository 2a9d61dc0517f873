"""Whether a pipeline fits its table: `check` reports it, and `run` checks it before it begins."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakelog.format.tables.table import TableInfo
from lakelog.format.types.convert import find_mismatch
from lakelog.options.declared.tables import IGNORE_DELETE, ROWKIND_FIELD, SEQUENCE_FIELD
from lakelog.options.values import TableOptions
from lakelog.records.bad_records import FileRefused
from lakelog.records.text_options import EPOCH_FORMATS
from lakelog.records.text_values import is_parsable
from lakelog.serving.streams.mismatches import Mismatches

from .kafka.header_kinds import KIND_COLUMN
from .pipeline.kafka_spec import KafkaSource, RecordFormat
from .pipeline.spec import FileSource, Format, Mode, Pipeline, RowKindSource
from .records.coercion import Coercion, check_csv


def make_coercion(
    pipeline: Pipeline, info: TableInfo, mismatches: Mismatches, added: frozenset[str] = frozenset()
) -> Coercion:
    """How the pipeline's rows become rows of the table; mismatches are noted.

    Args:
        pipeline: The pipeline.
        info: Its table.
        mismatches: Takes them.
        added: Columns that the table got after it was made.
    """
    schema, source = info.schema, pipeline.source
    says_kinds = isinstance(source, KafkaSource) and source.format is RecordFormat.DEBEZIUM_JSON
    options = TableOptions(info.options)
    rowkind_field = options.get(ROWKIND_FIELD)
    heeded = heeds_headers(pipeline, info)
    coercion = Coercion(
        schema=schema,
        mode=pipeline.mode,
        columns=source.columns,
        row_kind=RowKindSource(KIND_COLUMN) if says_kinds or heeded else pipeline.row_kind,
        rowkind_field=rowkind_field,
        ignore_unknown=source.ignore_unknown,
        fill_missing=source.fill_missing,
        text=source.text,
        sequence=() if options.get(IGNORE_DELETE) else options.get(SEQUENCE_FIELD),
        added=added,
        table=str(info.name),
    )
    problems = []
    if isinstance(source, FileSource):
        if source.format is Format.CSV:
            problems += [f"table: {problem}" for problem in check_csv(schema)]
    elif source.avro is not None:
        keys = [f"source.{name}" for name in ("schema_file", "schemas", "schema")]
        key = next((key for key in keys if key in pipeline.marks), keys[-1])
        for form in source.avro.all:
            which = f"schema {form.registry_id}: " if source.avro.others else ""
            found = _avro_problems(coercion, form.schema.arrow, heeded)
            problems += [f"{key}: {which}{problem}" for problem in found]
        problems += [
            f"{key}: {problem}" for problem in _unlike_problems([form.schema.arrow for form in source.avro.all])
        ]
    if says_kinds:
        problems += _debezium_problems(pipeline, info)
    if pipeline.mode is not Mode.APPEND and not schema.primary_key:
        problems.append(
            f"mode: '{pipeline.mode.value}' needs a primary key, and table {info.name} has none; use mode: append."
        )
    if pipeline.mode is Mode.APPEND and schema.primary_key:
        problems.append(
            f"mode: table {info.name} has a primary key ({', '.join(schema.primary_key)}), so rows cannot simply be "
            "added; use mode: upsert."
        )
    if coercion.row_kind is not None and coercion.rowkind_field is not None:
        key = "source.format" if says_kinds else "row_kind"
        problems.append(
            f"{key}: table {info.name} takes the kinds of its rows from its column '{coercion.rowkind_field}' "
            f"(rowkind.field), which contradicts it; {'unset that option' if says_kinds else 'leave row_kind out'}."
        )
    problems += _column_problems(pipeline, info)
    problems += _header_problems(coercion, pipeline)
    for problem in problems:
        key, _, what = problem.partition(": ")
        mismatches.add(key, what)
    return coercion


def heeds_headers(pipeline: Pipeline, info: TableInfo) -> bool:
    """Whether the headers of a topic's records may give row kinds, because nothing else does. Pure."""
    return (
        isinstance(pipeline.source, KafkaSource)
        and pipeline.mode is Mode.UPSERT
        and bool(info.schema.primary_key)
        and pipeline.row_kind is None
        and TableOptions(info.options).get(ROWKIND_FIELD) is None
    )


def _debezium_problems(pipeline: Pipeline, info: TableInfo) -> list[str]:
    problems = []
    what = "messages of Debezium say by themselves what each row does"
    if pipeline.mode is not Mode.UPSERT:
        problems.append(f"mode: {what}, which mode '{pipeline.mode.value}' contradicts; use mode: upsert.")
    if pipeline.row_kind is not None:
        problems.append(f"row_kind: {what}; leave it out.")
    return problems


def _avro_problems(coercion: Coercion, given: pa.Schema, heeded: bool) -> list[str]:
    """The parts of an Avro schema that do not fit the table: columns, and types without any value that fits."""
    problems = []
    try:
        beside = [coercion.row_kind.column] if heeded and coercion.row_kind is not None else []
        coercion.check_columns([*given.names, *beside], "it")
    except FileRefused as error:
        problems.append(f"{error}.")
    for field in coercion.schema.arrow:
        name = coercion.sources[field.name].name
        if name not in given.names:
            continue
        type_ = given.field(name).type
        is_text = pa.types.is_string(type_) and is_parsable(field.type)
        mismatch = None if is_text else find_mismatch(type_, field.type)
        is_number_of_time = pa.types.is_integer(type_) and pa.types.is_timestamp(field.type)
        if is_number_of_time and (coercion.sources[field.name].formats or coercion.text.timestamp_formats):
            continue
        if mismatch is not None:
            problems.append(
                f"its field '{name}' is {type_}, the table's column '{field.name}' is {field.type}: {mismatch}."
            )
    return problems


def _unlike_problems(given: Sequence[pa.Schema]) -> list[str]:
    """The fields whose types in several schemas have no common type that can hold all their values."""
    problems = []
    for name in dict.fromkeys(name for schema in given for name in schema.names):
        fields = [schema.field(name) for schema in given if name in schema.names]
        try:
            pa.unify_schemas([pa.schema([field]) for field in fields], promote_options="permissive")
            is_exact = all(map(_is_exact_together, _collect_leaves([field.type for field in fields]).values()))
        except pa.ArrowException:
            is_exact = False
        if not is_exact:
            types = " and ".join(dict.fromkeys(str(field.type) for field in fields))
            problems.append(f"its field '{name}' is {types}, which cannot be read side by side.")
    return problems


def _collect_leaves(types: Sequence[pa.DataType]) -> dict[tuple[str, ...], list[pa.DataType]]:
    """The types inside several types that are not nested themselves, by their path."""
    leaves: dict[tuple[str, ...], list[pa.DataType]] = {}
    left: list[tuple[tuple[str, ...], pa.DataType]] = [((), type_) for type_ in types]
    while left:
        place, type_ = left.pop()
        if pa.types.is_struct(type_) or pa.types.is_list(type_):
            left += [((*place, inner.name), inner.type) for inner in map(type_.field, range(type_.num_fields))]
        elif pa.types.is_map(type_):
            left += [((*place, "key"), type_.key_type), ((*place, "value"), type_.item_type)]
        else:
            leaves.setdefault(place, []).append(type_)
    return leaves


def _is_exact_together(types: Sequence[pa.DataType]) -> bool:
    """Whether Arrow's common type holds each value unchanged: a double has 53 bits and is no decimal."""
    is_float = any(map(pa.types.is_floating, types))
    return not (is_float and any(pa.types.is_decimal(each) or pa.types.is_int64(each) for each in types))


def _column_problems(pipeline: Pipeline, info: TableInfo) -> list[str]:
    problems = []
    names = info.schema.arrow.names
    for name, source in pipeline.source.columns.items():
        if name not in names:
            problems.append(
                f"source.columns.{name}: table {info.name} has no such column; it has {', '.join(names[:30])}."
            )
            continue
        type_ = info.schema.arrow.field(name).type
        is_time = str(type_).startswith("timestamp")
        if source.formats and not (is_time or str(type_).startswith("date")):
            problems.append(f"source.columns.{name}.format: the column is {type_}; only dates and times have a format.")
        if not is_time and any(item in EPOCH_FORMATS for item in source.formats):
            problems.append(f"source.columns.{name}.format: the column is {type_}; numbers of this kind are for times.")
    return problems


def _header_problems(coercion: Coercion, pipeline: Pipeline) -> list[str]:
    names = pipeline.source.text.names
    if not names or pipeline.source.format is not Format.CSV:
        return []
    try:
        coercion.check_columns(list(names), "source.options.names")
    except FileRefused as error:
        return [f"source.options.names: {error}."]
    return []
