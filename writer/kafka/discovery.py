"""The fields that the records of a batch have, found before it is read. Runs on executors, or in the driver program."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing

import pyarrow as pa

from lakelog.log.codecs.avro.connect_types import read_connect_schema
from lakelog.log.codecs.changes import find_debezium_schemas
from lakelog.records.inferred_types import infer_json, join_schemas

from ..pipeline.kafka_spec import RecordFormat
from ..records.discovery import discoverer
from ..source import ReadTasks
from .tasks import KafkaReadTask, TakenRange, cut, fetch
from .topic import open_log


def range_discoverer(task: KafkaReadTask, groups: Sequence[Sequence[TakenRange]]) -> ReadTasks:
    """Returns the function for `mapInArrow`: from numbers of groups to the fields that their records have."""
    return discoverer(lambda number: (schema for taken in groups[number] for schema in _find_columns(task, taken)))


def _find_columns(task: KafkaReadTask, taken: TakenRange) -> Iterator[pa.Schema]:
    with closing(open_log(task.source).open_reader(taken.topic)) as reader:
        for records in fetch(reader, task, taken):
            mine = records.values.filter(pa.array(records.offsets < taken.end))
            for values in cut(mine):
                yield find_fields(values, task.source.format)


def find_fields(values: pa.Array, record_format: RecordFormat) -> pa.Schema:
    """The fields of rows in the values of records, by their schema or else by their values. Pure.

    Args:
        values: Binary.
        record_format: JSON or Debezium; records of Avro have all their fields in the schemas that the pipeline knows.
    """
    values = values.drop_null()
    if record_format is RecordFormat.JSON:
        return infer_json(values)
    said, is_said = find_debezium_schemas(values)
    plain = values.filter(pa.array(~is_said)) if is_said.any() else values
    messages = infer_json(plain) if len(plain) else pa.schema([])
    return join_schemas([*map(read_connect_schema, said), *_find_rows(messages)])


def _find_rows(messages: pa.Schema) -> Iterator[pa.Schema]:
    """The fields of old and new rows in messages without a schema around them."""
    for field in messages:
        if not pa.types.is_struct(field.type):
            continue
        if field.name in ("before", "after"):
            yield pa.schema(list(field.type))
        elif field.name == "payload":
            yield from _find_rows(pa.schema(list(field.type)))
