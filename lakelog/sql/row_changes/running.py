"""Runs DELETE, UPDATE, MERGE and TRUNCATE: each becomes the SDK's call of its name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lakelog.errors import InvalidArgument, SnapshotExpired
from lakelog.format.filter.condition import parse_filter
from lakelog.format.filter.tokens import Source, split_tokens
from lakelog.options.declared.reads_and_writes import COMMIT_USER
from lakelog.options.values import WriteOptions
from lakelog.sdk.row_changes import RowChanges
from lakelog.sdk.tables.row_changes import CountedWrite, change_rows
from lakelog.sql.named_tables import NamedTables
from lakelog.sql.query.row_selection import QueriedRows
from lakelog.sql.statements import ChangedTable, Delete, Merge, Truncate, Update
from lakelog.writes.commit_options import CommitOptions, read_guards
from lakelog.writes.row_changes.clauses import RowCounts, check_clauses
from lakelog.writes.row_changes.plan import SOURCE_NAME, TARGET_NAME, Names
from lakelog.writes.row_changes.selection import RowSelection

if TYPE_CHECKING:
    from lakelog.sdk.tables.table import Table

_BEYOND_FILTERS: Final = ("FILTER_SYNTAX", "UNKNOWN_FUNCTION")
"""Reasons why a condition is no filter, though it may be one of SQL: a subquery, CASE, another function."""

_COUNTS: Final = {"updated": "updated", "deleted": "deleted", "inserted": "inserted", "upserted": "updated or inserted"}


def run_update(names: NamedTables, statement: Update) -> tuple[Table, CountedWrite]:
    """Runs an UPDATE; errors as of `lakelog.Table.update`."""
    table = names.table(statement.table.name)
    own = Names(target=find_names(statement.table, table))
    where = find_rows(names, statement.table, table, statement.where)
    done = change_rows(
        table, "UPDATE", lambda changes: changes.update(statement.set, where, None, own), _to_commit(statement.table)
    )
    return table, done


def run_merge(names: NamedTables, statement: Merge) -> tuple[Table, CountedWrite]:
    """Runs a MERGE; errors as of `lakelog.Table.merge`.

    The query of the source runs again with each try. If it reads the table itself, the merge also relies on these rows.
    """
    from lakelog.sql.query.duckdb_query import run_query

    table = names.table(statement.table.name)
    clauses = check_clauses(statement.clauses)
    own = Names(find_names(statement.table, table), statement.source_names)
    if {name.casefold() for name in own.target} & {name.casefold() for name in own.source}:
        raise InvalidArgument(
            f"Both sides of the MERGE are named '{own.source[0]}'. Give them aliases: MERGE INTO "
            f"{statement.table.name} AS {TARGET_NAME} USING ... AS {SOURCE_NAME}.",
            reason="SQL_SYNTAX",
        )

    def merge(changes: RowChanges) -> RowCounts:
        read: dict[str, int] = {}
        rows = run_query(names, statement.source.sql, read).read_all()
        if table.uuid in read:
            changes.rely_on(read[table.uuid])
        return changes.merge(rows, statement.on, clauses, None, own)

    return table, change_rows(table, "MERGE", merge, _to_commit(statement.table))


def run_delete(names: NamedTables, statement: Delete) -> tuple[Table, CountedWrite]:
    """Runs a DELETE; errors as of `lakelog.Table.delete_where`."""
    table = names.table(statement.table.name)
    where = find_rows(names, statement.table, table, statement.where)
    commit = _to_commit(statement.table)
    if isinstance(where, RowSelection):
        return table, change_rows(table, "DELETE", lambda changes: changes.delete(where), commit)
    done = table.delete_where("TRUE" if where is None else where, **commit)
    return table, CountedWrite(done, RowCounts(deleted=done.deleted_rows or 0))


def run_truncate(names: NamedTables, statement: Truncate) -> tuple[Table, CountedWrite]:
    """Empties a table by an overwrite without rows, and counts those of the snapshot that it has replaced."""
    table = names.table(statement.name)
    result = table.overwrite(table.schema.empty_table())
    if result.snapshot_id is None or result.snapshot_id == 1:
        return table, CountedWrite(result, RowCounts())
    # Counted afterwards: other rows may come until the overwrite takes effect, and it removes these as well.
    try:
        count = table.scan(snapshot_id=result.snapshot_id - 1).count()
    except SnapshotExpired:
        return table, CountedWrite(result, None)
    return table, CountedWrite(result, RowCounts(deleted=count))


def describe_counts(counts: RowCounts | None) -> str:
    """What was done with how many rows: `3 rows updated, 1 row inserted`; None: it is not known. Pure."""
    if counts is None:
        return "the number of rows is not known"
    found = [(getattr(counts, name), done) for name, done in _COUNTS.items() if getattr(counts, name)]
    if not found:
        return "no row changed"
    return ", ".join(f"{count:,} {'row' if count == 1 else 'rows'} {done}" for count, done in found)


def find_names(changed: ChangedTable, table: Table) -> tuple[str, ...]:
    """The names of a table in the expressions of a statement. Pure."""
    if changed.alias is not None:
        return (changed.alias,)
    return tuple(dict.fromkeys((changed.name.table, str(changed.name), table.name)))


def find_rows(names: NamedTables, changed: ChangedTable, table: Table, where: str | None) -> str | QueriedRows | None:
    """The rows that a DELETE or UPDATE is for: a filter of scans, what DuckDB has to find, or None for all.

    Raises:
        InvalidArgument: The condition can be neither.
    """
    condition = find_condition(find_names(changed, table), where)
    if condition is None or where is None:
        return None
    try:
        parse_filter(condition, table.info.schema.arrow)
    except InvalidArgument as error:
        if error.reason not in _BEYOND_FILTERS:
            raise
        try:
            return QueriedRows(names, changed, table, where)
        except InvalidArgument:
            raise error from None
    return condition


def find_condition(names: Sequence[str], where: str | None) -> str | None:
    """A condition without the table's names before its columns, as filters of scans have them. Pure.

    Raises:
        InvalidArgument: Something in it is no word.
    """
    if where is None:
        return None
    tokens = split_tokens(Source(where))
    parts: list[str] = []
    end = 0
    place = 0
    while place < len(tokens):
        length = _count_name(names, [token.text.casefold() for token in tokens[place : place + 6]])
        if length and (place == 0 or tokens[place - 1].word != "."):
            parts.append(where[end : tokens[place].start])
            end = tokens[place + length].start
            place += length
        place += 1
    return "".join([*parts, where[end:]])


def read_write_options(options: Mapping[str, str], statement: str) -> WriteOptions:
    """The options of a hint after the table that a statement writes to.

    Raises:
        InvalidArgument: One is unknown or not possible here.
    """
    given = WriteOptions(options)
    if given.get(COMMIT_USER) is not None:
        raise InvalidArgument(
            f"'{COMMIT_USER.key}' needs an identifier for each write, and {statement} cannot give one. Write with the "
            "SDK (writer= and identifier=), or leave the option out.",
            metadata={"option": COMMIT_USER.key},
        )
    return given


def _count_name(names: Sequence[str], words: list[str]) -> int:
    """How many words at the beginning are the table's name and the dot after it; 0: none."""
    for name in names:
        parts = name.casefold().split(".")
        spelled = [word for part in parts for word in (part, ".")]
        if words[: len(spelled)] == spelled and len(words) > len(spelled):
            return len(spelled)
    return 0


def _to_commit(table: ChangedTable) -> CommitOptions:
    guards = read_guards(read_write_options(table.options, "a change of rows"))
    return {"if_snapshot": guards.if_snapshot, "if_unchanged": guards.if_unchanged}
