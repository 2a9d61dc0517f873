"""The fields that the records of a batch have, found before it is read. Runs on executors, or in the driver program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing

import numpy as np
import pyarrow as pa

from lakelog.log.codecs.avro.connect_types import read_connect_schema
from lakelog.log.codecs.changes import find_debezium_schemas
from lakelog.records.blocks import Indices
from lakelog.records.inferred_types import infer_json, join_schemas, leave_out_untyped

from ..pipeline.kafka_spec import RecordFormat
from ..pipeline.spec import Evolution
from ..records.discovery import discoverer
from ..records.new_columns import to_refusal, to_unclear_refusal
from ..source import ReadTasks
from .tasks import KafkaReadTask, TakenRange, cut, fetch
from .topic import open_log


def range_discoverer(task: KafkaReadTask, groups: Sequence[Sequence[TakenRange]]) -> ReadTasks:
    """Returns the function for `mapInArrow`: from numbers of groups to the fields that their records have."""
    return discoverer(lambda number: (schema for taken in groups[number] for schema in _find_columns(task, taken)))


def _find_columns(task: KafkaReadTask, taken: TakenRange) -> Iterator[pa.Schema]:
    with closing(open_log(task.source).open_reader(taken.topic)) as reader:
        for records in fetch(reader, task, taken):
            offsets = records.offsets[records.offsets < taken.end]
            first = 0
            for values in cut(records.values.slice(0, len(offsets))):
                fields, unclear = find_fields(values, task.source.format)
                if task.evolution is not Evolution.IGNORE:
                    _check_clear(task, taken, unclear, values, offsets[first:])
                if task.evolution is Evolution.FAIL:
                    _check_known(task, taken, fields, values, offsets[first:])
                first += len(values)
                yield fields
                if task.evolution is Evolution.IGNORE:
                    # What it leaves out is reported only, and the first records say enough for that.
                    return


def _check_known(task: KafkaReadTask, taken: TakenRange, fields: pa.Schema, values: pa.Array, offsets: Indices) -> None:
    """Raises InvalidArgument if records have a field that the table does not have, with the first such record."""
    new = leave_out_untyped(pa.schema([each for each in fields if each.name not in task.coercion.source_names]))
    if not len(new):
        return
    field = new.field(0)

    def has_field(part: pa.Array) -> bool:
        return field.name in leave_out_untyped(find_fields(part, task.source.format)[0]).names

    where, metadata = _locate(task, taken, int(offsets[_find_first(values, has_field)]))
    raise to_refusal(where, field, task.coercion.table, **metadata)


def _check_clear(
    task: KafkaReadTask, taken: TakenRange, unclear: Mapping[str, str], values: pa.Array, offsets: Indices
) -> None:
    """Raises InvalidArgument if a schema has a field that the table does not have, without a type that it could get."""
    name = next((each for each in unclear if each not in task.coercion.source_names), None)
    if name is None:
        return
    first = _find_first(values, lambda part: name in find_fields(part, task.source.format)[1])
    where, metadata = _locate(task, taken, int(offsets[first]))
    raise to_unclear_refusal(where, name, unclear[name], task.coercion.table, **metadata)


def _locate(task: KafkaReadTask, taken: TakenRange, offset: int) -> tuple[str, dict[str, str]]:
    """A record, for messages and for programs."""
    where = (
        f"Pipeline '{task.pipeline}': the record at offset {offset} of partition {taken.partition} of topic "
        f"'{taken.topic}'"
    )
    return where, {"topic": taken.topic, "partition": str(taken.partition), "offset": str(offset)}


def _find_first(values: pa.Array, has_it: Callable[[pa.Array], bool]) -> int:
    """The place of the first value by which some values have something; there is one."""
    start, end = 0, len(values)
    while end - start > 1:
        middle = (start + end) // 2
        start, end = (start, middle) if has_it(values.slice(start, middle - start)) else (middle, end)
    return start


def find_fields(values: pa.Array, record_format: RecordFormat) -> tuple[pa.Schema, Mapping[str, str]]:
    """The fields of rows in the values of records, by their schema or else by their values. Pure.

    Args:
        values: Binary.
        record_format: JSON or Debezium; records of Avro have all their fields in the schemas that the pipeline knows.

    Returns:
        The fields, and by name what schemas say of fields whose type they do not tell.
    """
    values = values.drop_null()
    if record_format is RecordFormat.JSON:
        return infer_json(values), {}
    schemas = find_debezium_schemas(values)
    said = [read_connect_schema(text) for text in schemas.dictionary.to_pylist()]
    is_clear = np.array([each is not None for each in said] + [False])
    plain = values.filter(pa.array(~is_clear[np.asarray(schemas.indices.fill_null(len(said)))]))
    messages = infer_json(plain) if len(plain) else pa.schema([])
    columns = [each for each in said if each is not None]
    unclear = {name: text for each in columns for name, text in each.unclear.items()}
    return join_schemas([*(each.arrow for each in columns), *_find_rows(messages)]), unclear


def _find_rows(messages: pa.Schema) -> Iterator[pa.Schema]:
    """The fields of old and new rows in messages without a schema around them."""
    for field in messages:
        if not pa.types.is_struct(field.type):
            continue
        if field.name in ("before", "after"):
            yield pa.schema(list(field.type))
        elif field.name == "payload":
            yield from _find_rows(pa.schema(list(field.type)))
