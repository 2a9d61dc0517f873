"""Builds requests: first one that an honest client might send, then extreme values in place of a few of its values."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, cast

from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from bench.requests.methods import METASTORE_METHODS, READER_METHODS, is_map, make_message
from bench.requests.values import Known, extreme, key, odd_name, option, partition, sensible
from lakelog.rpc.v1 import catalog_pb2, snapshots_pb2, types_pb2

_DEPTH: Final = 6
_MANY: Final = (100, 1_000, 1_001, 10_000, 10_001)
_MANY_BYTES: Final = 1 << 20
"""Most requests have a bound of bytes, which other tests check."""


@dataclass(frozen=True)
class Target:
    """A table that commits go to.

    Args:
        table_uuid: The table.
        partitioned: Whether it has the partition column `day`.
        bucket_count: The bucket count that commits state.
        schema_id: Its current schema.
    """

    table_uuid: str
    partitioned: bool
    bucket_count: int
    schema_id: int


class Generator:
    """Requests by method; the same seed and the same answers give the same requests.

    Args:
        known: The things that exist on the server.
        stage: Opens an attempt for a table and returns its id.
    """

    def __init__(self, known: Known, stage: Callable[[str], str]) -> None:
        self._known = known
        self._dice: random.Random = known.dice
        self._stage = stage
        self._identifier = 0
        self.targets: list[Target] = []
        self.database = ""

    def request(self, method: str) -> Message:
        """A request to a method."""
        name = method.rpartition("/")[2]
        made = _TEMPLATES.get(name)
        of = (METASTORE_METHODS.get(method) or READER_METHODS[method]).input_type
        message = (
            made(self) if made is not None and self.targets and self._dice.random() < 0.8 else self._fill(of, _DEPTH)
        )
        for _ in range(self._dice.choice([0, 0, 1, 1, 2, 3])):
            self._spoil(message)
        self._spare(message)
        return message

    def _spare(self, message: Message) -> None:
        """Keeps the tables that requests use; other tables are dropped."""
        if isinstance(message, catalog_pb2.DropDatabaseRequest) and message.name == self.database:
            message.name = "other"
        if isinstance(message, catalog_pb2.DropTableRequest) and message.database == self.database:
            message.name = "other"

    def _fill(self, of: Descriptor, depth: int) -> Message:
        message = make_message(of)
        skipped = {
            field.name
            for one_of in of.oneofs
            if len(one_of.fields) > 1
            for field in self._dice.sample(list(one_of.fields), len(one_of.fields) - 1)
        }
        for field in of.fields:
            if field.name in skipped or (field.message_type is not None and depth <= 0):
                continue
            if field.has_presence and self._dice.random() < (0.5 if field.message_type is None else 0.1):
                continue
            self._set(message, field, depth, lambda part: sensible(self._known, of.name, part))
        fit = _FITS.get(of.name)
        if fit is not None:
            fit(self, message)
        return message

    def _set(
        self, message: Message, field: FieldDescriptor, depth: int, value: Callable[[FieldDescriptor], Any]
    ) -> None:
        dice = self._dice
        if is_map(field):
            assert field.message_type is not None, "a map has an entry"
            self._put(message, field, field.message_type, value)
        elif field.is_repeated:
            message.ClearField(field.name)
            target = getattr(message, field.name)
            named = set()
            for _ in range(dice.choice([0, 1, 1, 1, 1, 2, 3])):
                element = value(field) if field.message_type is None else self._fill(field.message_type, depth - 1)
                # Most requests may name a thing only once.
                name = getattr(element, "table_uuid", element if field.message_type is None else id(element))
                if name not in named:
                    named.add(name)
                    target.append(element)
        elif field.message_type is not None:
            getattr(message, field.name).CopyFrom(self._fill(field.message_type, depth - 1))
        else:
            setattr(message, field.name, value(field))

    def _put(
        self, message: Message, field: FieldDescriptor, entry: Descriptor, value: Callable[[FieldDescriptor], Any]
    ) -> None:
        entries = getattr(message, field.name)
        entries.clear()
        for _ in range(self._dice.choice([0, 1, 1, 2])):
            if "options" in field.name and self._dice.random() < 0.9:
                name, text = option(self._dice)
                entries[name] = text
            elif entry.fields_by_name["value"].message_type is None:
                entries[value(entry.fields_by_name["key"])] = value(entry.fields_by_name["value"])

    def _spoil(self, message: Message) -> None:
        """Replaces one value somewhere in a request by an extreme one, or changes how often it is there."""
        slots = _slots(message, _DEPTH)
        if not slots:
            return
        message, field = self._dice.choice(slots)
        of = message.DESCRIPTOR.name
        dice = self._dice
        if is_map(field):
            self._set(message, field, 1, lambda part: extreme(self._known, of, part))
        elif field.is_repeated:
            values = getattr(message, field.name)
            chance = dice.random()
            if chance < 0.2:
                message.ClearField(field.name)
            elif chance < 0.4 and len(values) > 1:
                order = [_copy(value) for value in values]
                dice.shuffle(order)
                message.ClearField(field.name)
                values.extend(order)
            elif chance < 0.6 and values:
                size = max(len(str(values[0])), 1)
                values.extend([_copy(values[0])] * min(dice.choice(_MANY), _MANY_BYTES // size))
            elif field.message_type is None:
                values.append(extreme(self._known, of, field))
            else:
                values.add().CopyFrom(self._fill(field.message_type, 2))
        elif field.message_type is not None:
            if dice.random() < 0.5:
                message.ClearField(field.name)
            else:
                getattr(message, field.name).CopyFrom(self._fill(field.message_type, 2))
        elif field.has_presence and dice.random() < 0.2:
            message.ClearField(field.name)
        else:
            spoilt = extreme(self._known, of, field)
            folder = str(getattr(message, field.name)).rpartition("/")[0]
            if "path" in field.name and folder and dice.random() < 0.8:
                # It lies in the right folder, so that nothing else is wrong with it.
                spoilt = f"{folder}/{odd_name(dice)}"
            setattr(message, field.name, spoilt)

    def commit(self) -> snapshots_pb2.CommitRequest:
        """A commit of each kind."""
        dice, target = self._dice, self._dice.choice(self.targets)
        attempt = self._stage(target.table_uuid)
        self._identifier += 1
        change = snapshots_pb2.Change(
            table_uuid=target.table_uuid, schema_id=target.schema_id, bucket_count=target.bucket_count
        )
        kind = dice.choice(["append"] * 4 + ["overwrite"] * 2 + ["compact"] * 2 + ["restore"])
        if kind in ("append", "overwrite"):
            change.kind = types_pb2.SNAPSHOT_KIND_APPEND if kind == "append" else types_pb2.SNAPSHOT_KIND_OVERWRITE
            for number in range(dice.choice([1, 1, 2, 3])):
                change.add_files.add().CopyFrom(self._file(target, attempt, number))
        if kind == "overwrite":
            removal = self._fill(snapshots_pb2.Removal.DESCRIPTOR, 3)
            change.remove.MergeFromString(removal.SerializeToString())
        elif kind == "restore":
            change.kind = types_pb2.SNAPSHOT_KIND_OVERWRITE
            change.remove.restore.snapshot_id = self._known.number("snapshot_id") or 1
        elif kind == "compact":
            change.kind = types_pb2.SNAPSHOT_KIND_COMPACT
            file = self._file(target, attempt, 0)
            group = change.groups.add(output_count=1, level=dice.choice([0, 1, 1]))
            group.bucket.partition, group.bucket.bucket = file.partition, file.bucket
            group.input_file_ids.extend({self._known.number("file_id") or 1, dice.randrange(1, 30)})
            file.level = group.level
            change.add_files.add().CopyFrom(file)
        if dice.random() < 0.2:
            change.watermark_ms = dice.choice([0, 10**12])
        if dice.random() < 0.2:
            change.properties["p"] = "v"
        request = snapshots_pb2.CommitRequest(writer="committer", identifier=self._identifier, attempt_id=attempt)
        request.changes.add().CopyFrom(change)
        return request

    def chance(self, share: float) -> bool:
        """True with this probability."""
        return self._dice.random() < share

    def table_name(self) -> str:
        """The full name of one of the tables that requests use."""
        return f"{self.database}.{self._dice.choice(('parts', 'keyed', 'log'))}"

    def any_file(self) -> types_pb2.DataFile:
        """A file of a known attempt."""
        attempt = self._known.text("attempt_id") or "0" * 32
        return self._file(self._dice.choice(self.targets), attempt, self._dice.randrange(5))

    def _file(self, target: Target, attempt: str, number: int) -> types_pb2.DataFile:
        dice = self._dice
        return types_pb2.DataFile(
            path=f"data/{attempt}/{number}.parquet",
            partition=partition(dice.choice("ab")) if target.partitioned else b"",
            bucket=dice.randrange(max(target.bucket_count, 1)),
            row_count=dice.choice([1, 10, 1000]),
            size_bytes=dice.choice([100, 10**6]),
            min_key=key(1),
            max_key=key(9),
            schema_id=target.schema_id,
        )


def _slots(message: Message, depth: int) -> list[tuple[Message, FieldDescriptor]]:
    """All fields of a message and of its sub-messages, set or not; for a repeated one, those of its first elements."""
    slots: list[tuple[Message, FieldDescriptor]] = [
        (message, cast("FieldDescriptor", field)) for field in message.DESCRIPTOR.fields
    ]
    if depth:
        for field, value in message.ListFields():
            if field.message_type is None or is_map(field):
                continue
            for each in list(value)[:3] if field.is_repeated else [value]:
                slots += _slots(each, depth - 1)
    return slots


def _copy(value: Any) -> Any:
    if not isinstance(value, Message):
        return value
    copied = type(value)()
    copied.CopyFrom(value)
    return copied


def _fit_file(generator: Generator, message: Any) -> None:
    message.CopyFrom(generator.any_file())


def _fit_range(generator: Generator, message: Any) -> None:
    message.until = max(message.until, message.after + 1)


def _fit_plan(generator: Generator, message: Any) -> None:
    if message.WhichOneof("at") == "range":
        message.ClearField("below_bytes")
        message.ClearField("added_after")
        message.baseline = False
    else:
        message.changelog = message.log = False
    message.log = message.log and not message.changelog
    if message.first_key > message.last_key:
        message.ClearField("last_key")


def _fit_comparison(generator: Generator, message: Any) -> None:
    message.field_id = 2 if generator.chance(0.7) else 1
    del message.values[:]
    operators = types_pb2.Comparison
    if message.operator not in (operators.OPERATOR_IS_NULL, operators.OPERATOR_IS_NOT_NULL):
        message.values.append(key(3) if message.field_id == 2 else partition("a"))


def _fit_predicate(generator: Generator, message: Any) -> None:
    node = message.WhichOneof("node")
    if node is None or (node != "comparison" and not getattr(message, node).operands):
        message.comparison.operator = types_pb2.Comparison.OPERATOR_IN
        _fit_comparison(generator, message.comparison)


def _fit_table(generator: Generator, message: Any) -> None:
    keyed, partitioned = generator.chance(0.6), generator.chance(0.4)
    del message.primary_key[:], message.partition_by[:]
    message.primary_key.extend((["day", "id"] if partitioned else ["id"]) if keyed else [])
    message.partition_by.extend(["day"] if partitioned else [])


def _fit_staging(generator: Generator, message: Any) -> None:
    if message.attempt_id and generator.chance(0.8):
        message.ClearField("count")
        message.ClearField("attempt_id")


def _fit_report(generator: Generator, message: Any) -> None:
    if not message.next_index or not message.next_uuid:
        message.ClearField("next_index")
        message.ClearField("next_uuid")


def _fit_jobs(generator: Generator, message: Any) -> None:
    message.kind = "compact"
    message.payload.clear()
    message.payload["strategy"] = "full"


def _fit_subscription(generator: Generator, message: Any) -> None:
    if message.WhichOneof("request") != "start" and generator.chance(0.8):
        message.start.tables.add(name=generator.table_name())


def _fit_stream_table(generator: Generator, message: Any) -> None:
    message.name = generator.table_name()
    message.ClearField("table_uuid")


def _stream(generator: Generator) -> Message:
    message = snapshots_pb2.CommitStreamRequest()
    message.commit.CopyFrom(generator.commit())
    return message


_FITS: Final[Mapping[str, Callable[[Generator, Any], None]]] = {
    "Comparison": _fit_comparison,
    "CreateTableRequest": _fit_table,
    "DataFile": _fit_file,
    "PlanRequest": _fit_plan,
    "Predicate": _fit_predicate,
    "ReportPublishedRequest": _fit_report,
    "RequestJobsRequest": _fit_jobs,
    "SnapshotRange": _fit_range,
    "StageAttemptRequest": _fit_staging,
    "StreamTable": _fit_stream_table,
    "SubscribeRequest": _fit_subscription,
}
"""Functions that make the fields of a message fit each other."""

_TEMPLATES: Final[Mapping[str, Callable[[Generator], Message]]] = {
    "Commit": Generator.commit,
    "CommitStream": _stream,
}
"""Requests that only mean something if their parts fit each other."""
