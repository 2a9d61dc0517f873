"""Reading the records of a batch; all of this runs on executors, for few rows in the driver program."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.errors import DataCorrupted, InvalidArgument, LakelogError, Unavailable
from lakelog.log.columns import take_fetched
from lakelog.log.protocol import LogReader
from lakelog.log.records import FetchedRecords
from lakelog.records.bad_records import BadRecord, FileRefused
from lakelog.records.blocks import BLOCK_BYTES
from lakelog.records.source_rows import SourceRows
from lakelog.spark.task_errors import errors_to_driver

from ..pipeline.kafka_spec import KafkaSource, RecordFormat
from ..pipeline.spec import Evolution
from ..records.coercion import Coercion
from ..records.dead_letters import LetterFile, letter_name
from ..records.sink import BadRecordSink
from ..records.tasks import BAD_RECORD, read_numbers
from ..source import ReadTasks
from .avro_values import read_avro_values
from .header_kinds import KIND_COLUMN, HeaderKinds, Sequences, find_uncommitted
from .topic import Topic, check_id, open_log
from .values import read_debezium_values, read_json_values

SENT_EARLY: Final = "SENT_EARLY"
"""The reason of the error for uncommitted records of a log whose `log.consistency` is `eventual`."""

_FETCH_RECORDS: Final = 20_000
_FETCH_TIMEOUT_S: Final = 0.2
_SILENT_FOR_S: Final = 60.0
"""After this long without any existing record, the brokers count as away."""
_NO_SEQUENCE: Final = "its header 'sequence' has not the values of the table's sequence.field"


@dataclass(frozen=True)
class TakenRange:
    """Offsets of a partition that belong to a batch.

    Args:
        batch_id: The batch.
        number: Its place in the batch, from 0; of rows with one key, those of the later range count.
        topic: The topic.
        topic_id: The broker's own id of it when the batch was planned.
        partition: The partition.
        start: The first offset.
        end: The offset after the last.
    """

    batch_id: int
    number: int
    topic: str
    topic_id: str
    partition: int
    start: int
    end: int


@dataclass(frozen=True)
class KafkaReadTask:
    """How the records of a batch are read. Picklable.

    Args:
        pipeline: The pipeline's name.
        batch_id: The batch.
        source: The topics.
        coercion: How rows become rows of the table.
        with_old_rows: Whether the table takes the old rows of updates too.
        dead_letters: The folder for them; None: the pipeline stops at the first one.
        heeds_headers: Whether records' headers may give row kinds, as those of lakelog's own logs.
        sequence_fields: The table's `sequence.field`, whose value a tombstone has in a header.
        letters_mark: The file that marks the dead letters' folder as the driver program's; None: it is certain.
        evolution: What becomes of fields that the table does not have.
    """

    pipeline: str
    batch_id: int
    source: KafkaSource
    coercion: Coercion
    with_old_rows: bool
    dead_letters: Path | None
    heeds_headers: bool = False
    sequence_fields: tuple[str, ...] = ()
    letters_mark: str | None = None
    evolution: Evolution | None = None


def range_reader(task: KafkaReadTask, groups: Sequence[Sequence[TakenRange]]) -> ReadTasks:
    """Returns the function for `mapInArrow`: from numbers of groups to the rows of the table in their ranges."""

    def read(batches: Iterator[pa.RecordBatch]) -> Generator[pa.RecordBatch]:
        with errors_to_driver():
            for number in read_numbers(batches):
                for taken in groups[number]:
                    yield from read_range(task, taken)

    return read


def read_range(task: KafkaReadTask, taken: TakenRange) -> Iterator[pa.RecordBatch]:
    """Reads one range; its bad records become dead letters, or the first of them raises an error.

    Yields:
        Rows of `task.coercion.output`, by rising offset.

    Raises:
        InvalidArgument: There is a bad record and the pipeline stops at those (reason `BAD_RECORD`).
        HistoryDiverged: The topic is not the one that the batch was planned for.
        SnapshotExpired: Records of the range are no longer retained.
        InvalidArgument: A record was sent before its commit, and the source does not accept such (reason `SENT_EARLY`).
        Unavailable: The brokers are away.
    """
    if task.batch_id != taken.batch_id:
        raise DataCorrupted(
            f"Batch {task.batch_id} was given records of batch {taken.batch_id}: the checkpoint of pipeline "
            f"'{task.pipeline}' has been changed. Restore it."
        )
    sink = BadRecordSink(_open_letters(task, taken), lambda record: _to_error(task, taken, record))
    topic, reader = Topic(task.source, taken.topic), open_log(task.source).open_reader(taken.topic)
    try:
        check_id(taken.topic, taken.topic_id, topic.find_id())
        for records in fetch(reader, task, taken):
            for rows in _read_rows(task, taken, records, sink):
                fitted = _coerce(task, taken, rows, sink)
                sink.flush()
                if fitted.num_rows:
                    yield fitted
            sink.flush()
        # SUBTLE: before the letters appear, because a topic that was made again meanwhile was read half old, half new.
        check_id(taken.topic, taken.topic_id, topic.find_id())
        sink.finish()
    finally:
        sink.abort()
        reader.close()
        topic.close()


def fetch(reader: LogReader, task: KafkaReadTask, taken: TakenRange) -> Iterator[FetchedRecords]:
    """The records of a range, and perhaps others after its end.

    Raises:
        Unavailable: The brokers are away.
    """
    reader.assign({taken.partition: taken.start})
    last_answer_s = time.monotonic()
    while (position := reader.positions()[taken.partition]) < taken.end:
        records = reader.fetch(_FETCH_RECORDS, _FETCH_TIMEOUT_S)
        if len(records):
            yield records
        if reader.positions()[taken.partition] > position:
            last_answer_s = time.monotonic()
        elif time.monotonic() - last_answer_s > _SILENT_FOR_S:
            raise Unavailable(
                f"Partition {taken.partition} of topic '{taken.topic}' returned nothing after offset {position} for "
                f"{_SILENT_FOR_S:g} s, though it holds records up to {taken.end}: its brokers are away.",
                reason="BROKERS_UNAVAILABLE",
            )


def _read_rows(
    task: KafkaReadTask, taken: TakenRange, records: FetchedRecords, sink: BadRecordSink
) -> Iterator[SourceRows]:
    count = int((records.offsets < taken.end).sum())
    if not count:
        return
    records = take_fetched(records, slice(0, count))
    for piece in _cut(records):
        yield from _read_piece(task, taken, piece, sink)


def cut(values: pa.Array) -> Iterator[pa.Array]:
    """Pieces of values that have few bytes."""
    numbers = np.cumsum(np.asarray(_to_lengths(values), dtype=np.int64)) // BLOCK_BYTES
    if not len(values):
        return
    starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    for start, end in zip(starts, np.append(starts[1:], len(values)), strict=True):
        yield values.slice(int(start), int(end) - int(start))


def _cut(records: FetchedRecords) -> Iterator[FetchedRecords]:
    """Pieces of few bytes: what is made of them takes up to 150 times their size."""
    sizes = np.asarray(pc.add(_to_lengths(records.values), _to_lengths(records.keys)), dtype=np.int64)
    numbers = np.cumsum(sizes) // BLOCK_BYTES
    starts = np.flatnonzero(np.append(True, numbers[1:] != numbers[:-1]))
    for start, end in zip(starts, np.append(starts[1:], len(records)), strict=True):
        yield take_fetched(records, slice(int(start), int(end)))


def _to_lengths(texts: pa.Array) -> pa.Array:
    return pc.binary_length(texts).cast(pa.int64()).fill_null(0)


def _read_piece(
    task: KafkaReadTask, taken: TakenRange, records: FetchedRecords, sink: BadRecordSink
) -> Iterator[SourceRows]:
    if not task.source.takes_uncommitted and (is_early := find_uncommitted(records)).any():
        raise _to_uncommitted_error(taken, records, int(np.flatnonzero(is_early)[0]))
    said = HeaderKinds.of(records)
    if not task.heeds_headers:
        yield from _read_format(task, records, said.nothing_deleted, sink)
        return
    sequences = Sequences.of(records, said.deletes, _to_sequence_types(task))
    if sequences.wrong.any():
        # A loop over bad records, of which there are few.
        for place in np.flatnonzero(sequences.wrong):
            sink.report(BadRecord(int(records.offsets[place]), None, _NO_SEQUENCE, records.keys[int(place)].as_py()))
        yield from _read_piece(task, taken, take_fetched(records, ~sequences.wrong), sink)
        return
    for rows in _read_format(task, records, said, sink):
        numbered = sequences.add_to(rows)
        yield numbered if KIND_COLUMN in numbered.columns else said.add_kinds(numbered)


def _to_sequence_types(task: KafkaReadTask) -> dict[str, pa.DataType | None]:
    """By the source's name of each sequence field: the type that the format's reader gives it; None: it has none."""
    coercion, source = task.coercion, task.source
    if source.avro is not None:
        types = {field.name: field.type for field in source.avro.arrow}
    elif source.format is RecordFormat.JSON:
        types = coercion.json_types()
    else:
        types = {coercion.sources[field.name].name: field.type for field in coercion.schema.arrow}
    names = [coercion.sources[name].name for name in task.sequence_fields]
    return {name: types.get(name) for name in names}


def _read_format(
    task: KafkaReadTask, records: FetchedRecords, said: HeaderKinds, sink: BadRecordSink
) -> Iterator[SourceRows]:
    coercion, source, offsets = task.coercion, task.source, records.offsets
    fields = pa.schema([(coercion.sources[field.name].name, field.type) for field in coercion.schema.arrow])
    key = pa.schema([fields.field(coercion.sources[name].name) for name in coercion.schema.primary_key])
    if source.format is RecordFormat.JSON:
        types = coercion.json_types()
        if task.heeds_headers:
            del types[KIND_COLUMN]
        # A key is a JSON object of its columns as well.
        values = pc.if_else(pa.array(said.deletes), records.keys, records.values)
        yield from read_json_values(values, offsets, coercion.text, types, coercion.ignore_unknown, sink.report)
        return
    if source.avro is not None:
        found = read_avro_values(
            records.values, records.keys, offsets, source.avro, key=key, deletes=said.deletes, report=sink.report
        )
    else:
        found = read_debezium_values(
            records.values,
            records.keys,
            offsets,
            fields,
            key=key,
            deletes=said.deletes,
            time_unit=source.time_unit,
            with_old_rows=task.with_old_rows,
            report=sink.report,
        )
    if found is not None:
        yield found


def _coerce(task: KafkaReadTask, taken: TakenRange, rows: SourceRows, sink: BadRecordSink) -> pa.RecordBatch:
    try:
        return task.coercion.coerce(rows, sink.report)
    except FileRefused as error:
        raise InvalidArgument(
            f"Records of partition {taken.partition} of topic '{taken.topic}' do not fit the table: {error}.",
            reason=BAD_RECORD,
        ) from error


def _open_letters(task: KafkaReadTask, taken: TakenRange) -> LetterFile | None:
    if task.dead_letters is None:
        return None
    facts: dict[str, Any] = {
        "pipeline": task.pipeline,
        "batch_id": task.batch_id,
        "topic": taken.topic,
        "partition": taken.partition,
    }
    name = letter_name(task.pipeline, task.batch_id, taken.number)
    return LetterFile(task.dead_letters, name, facts, place="offset", mark=task.letters_mark)


def _to_uncommitted_error(taken: TakenRange, records: FetchedRecords, place: int) -> LakelogError:
    offset = int(records.offsets[place])
    return InvalidArgument(
        f"The record at offset {offset} of partition {taken.partition} of topic '{taken.topic}' was sent before its "
        "commit (log.consistency = eventual): it may never be committed, and may come again. Nothing of this batch was "
        "committed. Read the log of a table with log.consistency = transactional, or set source.before_commit: take to "
        "take such records as they stand.",
        reason=SENT_EARLY,
        metadata={"topic": taken.topic, "partition": str(taken.partition), "offset": str(offset)},
    )


def _to_error(task: KafkaReadTask, taken: TakenRange, record: BadRecord) -> LakelogError:
    raw = record.raw.decode("utf-8", "backslashreplace")
    shown = f" Its value is: {raw[:200]}{'...' if len(raw) > 200 else ''}" if raw else ""
    shown += task.coercion.hint(record.reason)
    return InvalidArgument(
        f"The record at offset {record.line} of partition {taken.partition} of topic '{taken.topic}': "
        f"{record.reason}.{shown} The pipeline stops at bad records (bad_records: stop), and nothing of this batch was "
        "committed. Set bad_records: dead-letter to put such records aside.",
        reason=BAD_RECORD,
        metadata={"topic": taken.topic, "partition": str(taken.partition), "offset": str(record.line)},
    )
