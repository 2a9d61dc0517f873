"""Overwrites: the arguments that name partitions and states, and the rows, which must lie in a named partition."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.arguments import check_snapshot, check_tag
from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import RestoreState
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES, encode_key
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.cast import cast_batch, show_value
from lakelog.storage.write.routing import partition_too_large


@dataclass(frozen=True)
class StaticPartition:
    """Values of some or all partition columns.

    Args:
        table_name: For messages.
        values: By column, in the column's type.
        encoded: The same in the encoding of `lakelog.format.keys.encoding`.
    """

    table_name: str
    values: Mapping[str, pa.Scalar]
    encoded: Mapping[str, bytes]

    def fill_in(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Adds the partition columns that the rows lack, and checks those that they have.

        Raises:
            InvalidArgument: A row lies in another partition, or a column has another type.
        """
        for name, value in self.values.items():
            given = batch.schema.names.count(name)
            if given == 0:
                batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
            if given != 1:
                # Duplicate columns are refused later, with everything else that does not fit the table.
                continue
            field = pa.field(name, value.type)
            own = cast_batch(batch.select([name]), pa.schema([field])).column(name)
            same = pc.is_null(own) if not value.is_valid else pc.fill_null(pc.equal(own, value), False)
            if not pc.all(same, min_count=0).as_py():
                row = pc.index(same, False).as_py()
                raise InvalidArgument(
                    f"Row {row} has {name}={show_value(own[row])}, but only the partition {name}={show_value(value)} "
                    f"of {self.table_name} is overwritten. Filter the rows, or overwrite with partition='dynamic'.",
                    metadata={"column": name},
                )
        return batch


def check_dynamic(partition: str, info: TableInfo) -> None:
    """Checks a text argument that says which partitions are replaced.

    Raises:
        InvalidArgument: It is not `dynamic`, or the table has no partitions.
    """
    if partition != "dynamic":
        raise InvalidArgument(
            f"partition='{partition[:80]}' is not possible: give a dict such as {{'dt': '2024-05-01'}}, 'dynamic', or "
            "None for the whole table.",
            metadata={"field": "partition"},
        )
    if not info.schema.partition_by:
        raise InvalidArgument(
            f"Table {info.name} has no partitions, so 'dynamic' would replace nothing or everything. Leave partition "
            "out to replace the whole table.",
            metadata={"field": "partition"},
        )


def to_static_partition(partition: Any, info: TableInfo) -> StaticPartition:
    """Reads the argument `partition` of `overwrite`.

    Args:
        partition: Values by the name of a partition column; some columns are enough.
        info: The table.

    Raises:
        InvalidArgument: It is no mapping, is empty, names another column, or a value does not fit its column.
    """
    columns = info.schema.partition_by
    if not isinstance(partition, Mapping):
        raise InvalidArgument(
            f"partition is a {type(partition).__name__}: give a dict such as {{'dt': '2024-05-01'}}, 'dynamic', or "
            "None for the whole table.",
            metadata={"field": "partition"},
        )
    if not columns:
        raise InvalidArgument(
            f"Table {info.name} has no partitions. Leave partition out to replace the whole table.",
            metadata={"field": "partition"},
        )
    if not partition:
        raise InvalidArgument(
            "partition={} names no partition. Leave it out to replace the whole table.", metadata={"field": "partition"}
        )
    values: dict[str, pa.Scalar] = {}
    for name, value in partition.items():
        if name not in columns:
            raise InvalidArgument(
                f"'{name}' is no partition column of {info.name}; these are {', '.join(columns)}.",
                metadata={"field": "partition", "column": str(name)},
            )
        values[name] = _to_scalar(name, value, info)
    encoded = {name: encode_key([value]) for name, value in values.items()}
    if sum(map(len, encoded.values())) > MAX_PARTITION_BYTES:
        raise partition_too_large(values)
    return StaticPartition(str(info.name), values, encoded)


def to_restore(snapshot_id_or_tag: int | str) -> RestoreState:
    """Reads the argument of `rollback_to`.

    Raises:
        InvalidArgument: It is neither a snapshot's id nor the name of a tag.
    """
    if isinstance(snapshot_id_or_tag, str):
        if snapshot_id_or_tag.isdecimal():
            raise InvalidArgument(
                f"snapshot_id_or_tag='{snapshot_id_or_tag:.80}' is no name of a tag. A number means a snapshot: give "
                f"{snapshot_id_or_tag:.80} without quotes for that one.",
                metadata={"field": "snapshot_id_or_tag", "value": snapshot_id_or_tag[:80]},
            )
        check_tag(snapshot_id_or_tag, "snapshot_id_or_tag")
        return RestoreState(tag=snapshot_id_or_tag)
    check_snapshot(snapshot_id_or_tag, "snapshot_id_or_tag")
    return RestoreState(snapshot_id_or_tag)


def _to_scalar(name: str, value: Any, info: TableInfo) -> pa.Scalar:
    field = info.schema.arrow.field(name)
    try:
        given = pa.array([value])
        if isinstance(value, str) and not (pt.is_string(field.type) or pt.is_binary(field.type)):
            # Partitions are often written as texts: {'dt': '2024-05-01'} for a column of any type.
            given = given.cast(field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidArgument(
            f"partition has {value!r:.80} for column '{name}', which is of type {field.type}. Give a value of that "
            "type, or its text as in '2024-05-01'.",
            metadata={"field": "partition", "column": name},
        ) from error
    try:
        return cast_batch(pa.RecordBatch.from_arrays([given], names=[name]), pa.schema([field])).column(0)[0]
    except InvalidArgument as error:
        # The message of cast_batch is about rows.
        if value is None:
            remedy = ", so that there is no such partition. Name the partition by a value"
        else:
            remedy = " and cannot hold it. Give a value of that type, or its text as in '2024-05-01'"
        kind = f"{field.type}{'' if field.nullable else ' NOT NULL'}"
        raise InvalidArgument(
            f"partition has {value!r:.80} for column '{name}', which is {kind}{remedy}.",
            metadata={"field": "partition", "column": name},
        ) from error
