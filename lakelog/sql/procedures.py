"""The procedures of `CALL sys.name(...)`: each is a call of the SDK whose result becomes a table."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from lakelog.arguments import parse_table_name
from lakelog.errors import InvalidArgument
from lakelog.sdk.maintenance.compaction_choice import read_partition
from lakelog.sql.call_arguments import Kind, Parameter, read_arguments
from lakelog.sql.named_tables import NamedTables
from lakelog.sql.statements import Call, Name

if TYPE_CHECKING:
    from lakelog.sdk.tables.table import Table

_TABLE: Final = Parameter("table", Kind.TEXT, required=True)
_STRATEGIES: Final = ("minor", "full")


@dataclass(frozen=True)
class Procedure:
    """A procedure.

    Args:
        parameters: Its parameters, in the order of places.
        run: Runs it with the table and the other arguments.
    """

    parameters: tuple[Parameter, ...]
    run: Callable[[Table, Mapping[str, Any]], pa.Table]


def run_call(names: NamedTables, call: Call) -> pa.Table:
    """Runs a procedure.

    Raises:
        InvalidArgument: There is no such procedure, or its arguments do not fit; shows the place.
        LakelogError: An error of the corresponding SDK call.
    """
    procedure = PROCEDURES.get(call.name.lower())
    if procedure is None:
        near = difflib.get_close_matches(call.name.lower()[:80], PROCEDURES, n=3, cutoff=0.5)
        meant = f"Nearest are {', '.join('sys.' + name for name in near)}. " if near else ""
        call.source.fail(
            call.start,
            f"There is no procedure sys.{call.name[:80]}. {meant}There are {', '.join(sorted(PROCEDURES))}.",
            "UNKNOWN_PROCEDURE",
        )
    arguments = read_arguments(call, procedure.parameters)
    return procedure.run(_find_table(names, arguments.pop("table")), arguments)


def _find_table(names: NamedTables, name: str) -> Table:
    if "." not in name:
        return names.table(Name(None, name))
    parsed = parse_table_name(name)
    return names.table(Name(parsed.database, parsed.name))


def _compact(table: Table, given: Mapping[str, Any]) -> pa.Table:
    strategy = str(given.get("compact_strategy", "minor")).lower()
    if strategy not in _STRATEGIES:
        raise InvalidArgument(
            f"compact_strategy is '{strategy[:80]}': give 'minor' for what is due and newly written, or 'full'.",
            metadata={"field": "compact_strategy"},
        )
    named: str | None = given.get("partitions")
    return table.compact(
        full=strategy == "full",
        partitions=None
        if named is None
        else [read_partition(each, "partitions", "where") for each in named.split(";")],
        where=given.get("where"),
        wait=given.get("wait", True),
        dry_run=given.get("dry_run", False),
    ).to_arrow()


def _create_tag(table: Table, given: Mapping[str, Any]) -> pa.Table:
    return _row(tag=given["tag"], snapshot_id=table.tags.create(given["tag"], given.get("snapshot_id")))


def _delete_tag(table: Table, given: Mapping[str, Any]) -> pa.Table:
    table.tags.delete(given["tag"])
    return _row(tag=given["tag"])


def _roll_back(table: Table, given: Mapping[str, Any]) -> pa.Table:
    names = [name for name in ("version", "snapshot_id", "tag") if name in given]
    if len(names) != 1:
        said = f"{' and '.join(names)} say the same" if names else "no state is named"
        raise InvalidArgument(
            f"sys.rollback_to: {said}. Give one of version (a snapshot's number, or a tag), snapshot_id and tag.",
            metadata={"field": "version"},
        )
    return _row(snapshot_id=table.rollback_to(given[names[0]], if_snapshot=given.get("if_snapshot")).snapshot_id)


def _expire_snapshots(table: Table, given: Mapping[str, Any]) -> pa.Table:
    return table.expire_snapshots(**given).to_arrow()


def _expire_partitions(table: Table, given: Mapping[str, Any]) -> pa.Table:
    return table.expire_partitions(**given).to_arrow()


def _reset_consumer(table: Table, given: Mapping[str, Any]) -> pa.Table:
    table.consumers.reset(given["consumer_id"], given["snapshot_id"])
    return _row(consumer_id=given["consumer_id"], snapshot_id=given["snapshot_id"])


def _delete_consumer(table: Table, given: Mapping[str, Any]) -> pa.Table:
    table.consumers.delete(given["consumer_id"])
    return _row(consumer_id=given["consumer_id"])


def _row(**values: str | int | None) -> pa.Table:
    types = {name: pa.string() if isinstance(value, str) else pa.int64() for name, value in values.items()}
    return pa.table({name: pa.array([value], types[name]) for name, value in values.items()})


PROCEDURES: Final[Mapping[str, Procedure]] = {
    "compact": Procedure(
        (
            _TABLE,
            Parameter("partitions", Kind.TEXT),
            Parameter("where", Kind.TEXT),
            Parameter("compact_strategy", Kind.TEXT),
            Parameter("wait", Kind.FLAG),
            Parameter("dry_run", Kind.FLAG),
        ),
        _compact,
    ),
    "create_tag": Procedure(
        (_TABLE, Parameter("tag", Kind.TEXT, required=True), Parameter("snapshot_id", Kind.WHOLE)), _create_tag
    ),
    "delete_tag": Procedure((_TABLE, Parameter("tag", Kind.TEXT, required=True)), _delete_tag),
    "rollback_to": Procedure(
        (
            _TABLE,
            Parameter("version", Kind.VERSION),
            Parameter("snapshot_id", Kind.WHOLE),
            Parameter("tag", Kind.TEXT),
            Parameter("if_snapshot", Kind.WHOLE),
        ),
        _roll_back,
    ),
    "expire_snapshots": Procedure(
        (
            _TABLE,
            Parameter("older_than", Kind.TIME),
            Parameter("retain_last", Kind.WHOLE),
            Parameter("dry_run", Kind.FLAG),
        ),
        _expire_snapshots,
    ),
    "expire_partitions": Procedure((_TABLE, Parameter("dry_run", Kind.FLAG)), _expire_partitions),
    "reset_consumer": Procedure(
        (
            _TABLE,
            Parameter("consumer_id", Kind.TEXT, required=True),
            Parameter("snapshot_id", Kind.WHOLE, required=True),
        ),
        _reset_consumer,
    ),
    "delete_consumer": Procedure((_TABLE, Parameter("consumer_id", Kind.TEXT, required=True)), _delete_consumer),
}
"""The procedures by name."""
