"""Which partitions a requested compaction covers: named by values, or by a condition on partition columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from lakelog.arguments import to_list
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.filter.condition import Filter, parse_filter
from lakelog.format.keys.encoding import decode_partition
from lakelog.format.keys.parts import split_key
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.tables.table import TableInfo
from lakelog.writes.overwrite import StaticPartition, to_static_partition


@dataclass(frozen=True)
class PartitionChoice:
    """Partitions of a table that have the values of a named partition and fulfil the condition.

    Args:
        info: The table.
        named: Values of some or all partition columns; empty: all partitions.
        condition: Uses only partition columns; None: all partitions.
    """

    info: TableInfo
    named: tuple[StaticPartition, ...]
    condition: Filter | None

    def to_request(self) -> PlanRequest:
        """A request that lists at least the files of these partitions. Pure."""
        columns = self.info.schema.partition_by
        whole = [part for part in self.named if len(part.encoded) == len(columns)]
        partitions: tuple[bytes, ...] = ()
        if len(whole) == len(self.named):
            partitions = tuple({b"".join(part.encoded[name] for name in columns): None for part in whole})
        predicate = None if self.condition is None else self.condition.to_predicate(self.info.schema.field_ids)
        return PlanRequest(self.info.table_uuid, predicate=predicate, partitions=partitions)

    def pick(self, partitions: Sequence[bytes]) -> dict[bytes, dict[str, Any]]:
        """Returns the chosen partitions with the values of their columns. Pure.

        Args:
            partitions: All partitions that have files, encoded, each once.

        Raises:
            NotFound: A named partition is not among them.
        """
        schema = self.info.schema
        fields = [schema.arrow.field(name) for name in schema.partition_by]
        types = [each.type for each in fields]
        chosen = list(partitions)
        if self.named:
            parts = {partition: dict(zip(schema.partition_by, split_key(partition, types), strict=True))
                     for partition in chosen}  # fmt: skip
            matches = [
                {partition for partition in chosen if part.encoded.items() <= parts[partition].items()}
                for part in self.named
            ]
            for part, found in zip(self.named, matches, strict=True):
                # With a condition, the condition alone may have left the partition out.
                if not found and self.condition is None:
                    raise _no_such_partition(part)
            chosen = [partition for partition in chosen if any(partition in found for found in matches)]
        values = {partition: decode_partition(partition, types) for partition in chosen}
        if self.condition is not None and chosen:
            columns = [pa.array([values[each][place] for each in chosen], field.type)
                       for place, field in enumerate(fields)]  # fmt: skip
            rows = pa.table([*columns, pa.array(range(len(chosen)))], names=[*schema.partition_by, _PLACE])
            places = rows.filter(self.condition.to_arrow())[_PLACE].to_pylist()
            chosen = [chosen[place] for place in places]
        return {
            partition: {field.name: value.as_py() for field, value in zip(fields, values[partition], strict=True)}
            for partition in chosen
        }


_PLACE: Final = "\0place"
"""No column has this name."""


def read_partition(text: str, called: str, otherwise: str) -> dict[str, str]:
    """Reads a partition as `dt=2024-05-01,hour=1`. Pure.

    Args:
        text: As a user wrote it.
        called: The user's name for this argument, for the message.
        otherwise: How users name values that cannot be written in this form, for the message.

    Raises:
        InvalidArgument: The text does not have this form.
    """
    values: dict[str, str] = {}
    for part in text.split(","):
        column, equals, value = part.partition("=")
        if not equals or not column.strip() or column.strip() in values:
            raise InvalidArgument(
                f"{called} {text[:200]!r} is not of the form COLUMN=VALUE, or COLUMN=VALUE,COLUMN=VALUE for several "
                f"columns, each once. Choose values with commas, and NULL, by {otherwise}.",
                metadata={"field": "partition"},
            )
        values[column.strip()] = value
    return values


def to_choice(info: TableInfo, partitions: Any, where: Any) -> PartitionChoice:
    """Reads which partitions a user means. Pure.

    Args:
        info: The table.
        partitions: Dicts of values by partition column, some columns are enough; None: all.
        where: An SQL condition on partition columns; None: none.

    Raises:
        InvalidArgument: The table has no partitions, a column is no partition column, a value does not fit its column,
            or the condition is not possible; names the argument, the value and the remedy.
    """
    columns = info.schema.partition_by
    given = {"partitions": partitions, "where": where}
    field = next((name for name, value in given.items() if value is not None), None)
    if field is not None and not columns:
        raise InvalidArgument(
            f"Table {info.name} has no partitions that {field}={given[field]!r:.80} could choose. Leave {field} out to "
            "compact the whole table.",
            metadata={"field": field},
        )
    return PartitionChoice(info, _read_partitions(info, partitions), _read_condition(info, where))


def _read_partitions(info: TableInfo, partitions: Any) -> tuple[StaticPartition, ...]:
    if partitions is None:
        return ()
    example = f"[{{'{info.schema.partition_by[0]}': ...}}]"
    if isinstance(partitions, Mapping):
        raise InvalidArgument(
            f"partitions={partitions!r:.80} is one dict: give a list of them, here [{partitions!r:.80}].",
            metadata={"field": "partitions"},
        )
    named = to_list(partitions, "partitions", f"dicts of values by partition column, such as {example}")
    if not named:
        raise InvalidArgument(
            "partitions=[] names no partition. Leave it out to compact all of them.", metadata={"field": "partitions"}
        )
    for each in named:
        if not isinstance(each, Mapping) or not each:
            raise InvalidArgument(
                f"partitions has {each!r:.80}: give dicts of values by partition column, such as {example}; the "
                f"partition columns of {info.name} are {', '.join(info.schema.partition_by)}.",
                metadata={"field": "partitions"},
            )
    return tuple(to_static_partition(each, info) for each in named)


def _read_condition(info: TableInfo, where: Any) -> Filter | None:
    if where is None:
        return None
    condition = parse_filter(where, info.schema.arrow)
    columns = info.schema.partition_by
    other = next((name for name in condition.columns if name not in columns), None)
    if other is not None:
        raise InvalidArgument(
            f"where={where!r:.200} uses '{other}', which is no partition column of {info.name}. Files are compacted "
            f"whole, whatever rows they hold: use only {', '.join(columns)}.",
            metadata={"field": "where", "column": other},
        )
    return condition


def _no_such_partition(part: StaticPartition) -> NotFound:
    shown = ", ".join(f"{name}={value.as_py()}" for name, value in part.values.items())
    return NotFound(
        f"Table {part.table_name} has no partition {shown}: no file of it is live. See files() for the partitions "
        "that there are, or leave this one out.",
        reason="PARTITION_NOT_FOUND",
        metadata={"field": "partitions", "partition": shown},
    )
