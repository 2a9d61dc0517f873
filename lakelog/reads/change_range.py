"""Requests the files of a range of snapshots, some of which may have a changelog and others none."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import SnapshotExpired
from lakelog.format.filter.condition import Filter
from lakelog.format.tables.files import FILE_SCHEMA
from lakelog.format.tables.plan import InRange, Plan
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.reads_and_writes import INCREMENTAL_BETWEEN
from lakelog.reads.change_plan import find_other_snapshots, has_changelog_producer
from lakelog.reads.complete_changes import check_complete
from lakelog.reads.continued_columns import ContinuedColumns
from lakelog.reads.expired_position import to_expired_position
from lakelog.reads.reading import plan_files
from lakelog.storage.parquet.live_file import LiveFile, to_live_files

BEGIN_BETWEEN: Final = f"begin '{INCREMENTAL_BETWEEN.key}' with {{}} or more, or read the whole table"
"""A remedy for `naming_what_is_kept`."""


@dataclass(frozen=True)
class ChangeRange:
    """The files of a range of snapshots.

    Args:
        plan: The plan of the range; its files are of one sort.
        condition: The condition of the read, on the plan's schema.
        expects: Whether snapshots should have a changelog, by the table's option.
        data: Data files, at least of the snapshots that have no changelog.
        changelog: Changelog files.
    """

    plan: Plan
    condition: Filter | None
    expects: bool
    data: Sequence[LiveFile] = ()
    changelog: Sequence[LiveFile] = ()


def find_begin(metastore: Metastore, table: TableInfo, until: int | None, *, raw: bool) -> int:
    """Returns the snapshot after which a read of all retained changes begins; asks the metastore.

    Args:
        metastore: Knows what is retained.
        table: The table.
        until: The end of the read; None: the newest snapshot. An expired one is an error of the read.
        raw: Rows are read as they were written, from data files, even if changelogs live longer.
    """
    (kept,) = metastore.list_latest([table.table_uuid])
    begin = max((kept.earliest_snapshot_id if raw else kept.earliest_change_id) - 1, 0)
    return begin if until is None else min(begin, max(until - 1, 0))


@contextmanager
def naming_what_is_kept(metastore: Metastore, table: TableInfo, after: int, remedy: str) -> Iterator[None]:
    """Adds the readable range to the error of a range that begins too early (semantics 5.6).

    Args:
        metastore: Knows what is retained.
        table: The table.
        after: The range begins after this snapshot.
        remedy: What to give instead, as a clause with `{}` for the first possible beginning.
    """
    try:
        yield
    except SnapshotExpired as error:
        (kept,) = metastore.list_latest([table.table_uuid])
        earliest = kept.earliest_change_id
        if after >= earliest - 1:
            raise
        raise to_expired_position(
            "The read of changes",
            str(table.name),
            after,
            earliest=earliest,
            latest=kept.snapshot_id,
            remedy=remedy.format(earliest - 1),
        ) from error


def plan_range(
    metastore: Metastore,
    info: TableInfo,
    after: int,
    until: int,
    parse: Callable[[TableSchema], Filter | None],
    *,
    raw: bool,
    continued: ContinuedColumns | None = None,
) -> ChangeRange:
    """Requests the files of a range; blocks. One call is enough if all its snapshots match the table's option.

    Args:
        metastore: Plans the read.
        info: The table.
        after: Excluded.
        until: Included.
        parse: Resolves the condition of the read on a schema; None: no condition.
        raw: Data files only, even if there is a changelog.
        continued: As of `plan_files`.

    Raises:
        NotFound: There is no such snapshot yet.
        SnapshotExpired: A snapshot of the range has expired.
        Unavailable: A changelog of the range is still pending (`lakelog.reads.complete_changes`).
    """
    keyed = bool(info.schema.primary_key) and not raw
    expects = keyed and has_changelog_producer(info)
    if after == until:
        return ChangeRange(
            Plan(info, info.schema, {}, None, files=FILE_SCHEMA.empty_table()), parse(info.schema), expects
        )
    plan, condition = plan_files(metastore, info, InRange(after, until), parse, changelog=expects, continued=continued)
    if keyed:
        check_complete(info, plan.range_snapshots)
    first = to_live_files(plan.files)
    others = find_other_snapshots(plan.range_snapshots, expects) if keyed else []
    second: Sequence[LiveFile] = ()
    if others:
        at = InRange(others[0] - 1, others[-1])
        rest, _ = plan_files(metastore, info, at, parse, changelog=not expects, continued=continued)
        second = to_live_files(rest.files)
    data, changelog = (second, first) if expects else (first, second)
    return ChangeRange(plan, condition, expects, data, changelog)
