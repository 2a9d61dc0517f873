"""The clauses of a merge, as users write them: `when_matched("source.op = 'D'").delete()`. Pure values."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from lakelog.annotations import Value
from lakelog.errors import InvalidArgument


@dataclass(frozen=True)
class Literal:
    """A value that is itself, also a text; `lakelog.literal` makes it."""

    value: Any


@dataclass(frozen=True)
class ColumnDefault:
    """What a write stores that leaves the column out: DEFAULT of SQL."""

    def __str__(self) -> str:
        return "DEFAULT"


Assignments: TypeAlias = Mapping[str, Value | Literal | ColumnDefault]
"""New values by column: a text is an SQL expression, every other value is itself."""


class Rows(enum.Enum):
    """The rows that a clause is for."""

    MATCHED = "WHEN MATCHED"
    NOT_MATCHED = "WHEN NOT MATCHED"
    NOT_MATCHED_BY_SOURCE = "WHEN NOT MATCHED BY SOURCE"


class Action(enum.Enum):
    """What a clause does with a row."""

    UPDATE = "UPDATE"
    DELETE = "DELETE"
    INSERT = "INSERT"


@dataclass(frozen=True)
class Clause:
    """One clause of a merge.

    Args:
        rows: The rows that it is for.
        action: What it does with them.
        condition: An SQL condition that they must fulfil; None: all of them.
        values: The new values by column; None: those of the source, for each column of the table.
    """

    rows: Rows
    action: Action
    condition: str | None = None
    values: Assignments | None = None

    def __str__(self) -> str:
        condition = "" if self.condition is None else f" AND {self.condition:.80}"
        all_columns = " *" if self.values is None and self.action is not Action.DELETE else ""
        return f"{self.rows.value}{condition} THEN {self.action.value}{all_columns}"


@dataclass(frozen=True)
class WhenMatched:
    """What happens to a row of the table for which the source has a row: choose one method."""

    condition: str | None = None

    def update(self, set: Assignments) -> Clause:  # noqa: A002
        """Gives columns new values; the others keep theirs."""
        return Clause(Rows.MATCHED, Action.UPDATE, self.condition, check_assignments("update", set))

    def update_all(self) -> Clause:
        """Gives every column the value of the source's column of its name."""
        return Clause(Rows.MATCHED, Action.UPDATE, self.condition)

    def delete(self) -> Clause:
        """Deletes the row."""
        return Clause(Rows.MATCHED, Action.DELETE, self.condition)


@dataclass(frozen=True)
class WhenNotMatched:
    """What happens with a row of the source for which the table has no row: choose one method."""

    condition: str | None = None

    def insert(self, values: Assignments) -> Clause:
        """Adds a row of these values; columns that are left out get their defaults, else NULL."""
        return Clause(Rows.NOT_MATCHED, Action.INSERT, self.condition, check_assignments("insert", values))

    def insert_all(self) -> Clause:
        """Adds a row with the values of the source's columns of the same names."""
        return Clause(Rows.NOT_MATCHED, Action.INSERT, self.condition)


@dataclass(frozen=True)
class WhenNotMatchedBySource:
    """What happens to a row of the table for which the source has no row: choose one method."""

    condition: str | None = None

    def update(self, set: Assignments) -> Clause:  # noqa: A002
        """Gives columns new values; the others keep theirs."""
        values = check_assignments("update", set)
        return Clause(Rows.NOT_MATCHED_BY_SOURCE, Action.UPDATE, self.condition, values)

    def delete(self) -> Clause:
        """Deletes the row."""
        return Clause(Rows.NOT_MATCHED_BY_SOURCE, Action.DELETE, self.condition)


def literal(value: Value) -> Literal:
    """A value for `update` and `merge` that is itself: `{"status": lakelog.literal("paid")}`.

    Only texts need it: they would be SQL expressions otherwise.
    """
    return Literal(value)


def when_matched(condition: str | None = None) -> WhenMatched:
    """Begins a clause of `Table.merge` for rows of the table that have a row in the source.

    Args:
        condition: An SQL condition over `source.` and `target.`, the table's row; None: all of them.
    """
    return WhenMatched(_check_condition("when_matched", condition))


def when_not_matched(condition: str | None = None) -> WhenNotMatched:
    """Begins a clause of `Table.merge` for rows of the source that have no row in the table.

    Args:
        condition: An SQL condition over `source.`; None: all of them.
    """
    return WhenNotMatched(_check_condition("when_not_matched", condition))


def when_not_matched_by_source(condition: str | None = None) -> WhenNotMatchedBySource:
    """Begins a clause of `Table.merge` for rows of the table that have no row in the source.

    Args:
        condition: An SQL condition over `target.`; None: all of them.
    """
    return WhenNotMatchedBySource(_check_condition("when_not_matched_by_source", condition))


def check_clauses(clauses: tuple[object, ...]) -> tuple[Clause, ...]:
    """Returns the clauses of a merge.

    Raises:
        InvalidArgument: There is none, one is no clause, or one can never be reached.
    """
    if not clauses:
        raise _refuse(f"merge() has no clause, so it would change nothing. Give some, {_EXAMPLE}.")
    found: list[Clause] = []
    for clause in clauses:
        if isinstance(clause, WhenMatched | WhenNotMatched | WhenNotMatchedBySource):
            methods = ", ".join(f".{name}" for name in vars(type(clause)) if name in _METHODS)
            raise _refuse(f"A clause of merge() does not say what happens: choose one of {methods}.")
        if not isinstance(clause, Clause):
            raise _refuse(f"{clause!r:.80} is no clause of a merge. Give clauses, {_EXAMPLE}.")
        before = next((each for each in found if each.rows is clause.rows and each.condition is None), None)
        if before is not None:
            raise _refuse(
                f"'{clause}' is never reached: '{before}' before it has no condition, and the first clause that holds "
                "wins. Put it last, or give it a condition."
            )
        found.append(clause)
    return tuple(found)


_METHODS: Final = ("update", "update_all", "insert", "insert_all", "delete")
_EXAMPLE: Final = "for instance lakelog.when_matched().update_all(), lakelog.when_not_matched().insert_all()"


def _check_condition(call: str, condition: object) -> str | None:
    if condition is not None and not isinstance(condition, str):
        raise _refuse(
            f"{call}({condition!r:.80}): a condition is SQL text, such as \"source.op = 'D'\", not a "
            f"{type(condition).__name__}."
        )
    return condition


def check_assignments(call: str, values: object) -> Assignments:
    """Returns new values by column; InvalidArgument if they are no dict of at least one."""
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise _refuse(
            f"{call}({values!r:.80}): new values are a dict by column, such as {{'price': 'source.price'}}. A text is "
            "an SQL expression; lakelog.literal('text') is a text itself."
        )
    if not values:
        raise _refuse(f"{call}({{}}) names no column. Give at least one with its new value.")
    return dict(values)


def _refuse(message: str) -> InvalidArgument:
    return InvalidArgument(message, reason="MERGE_INVALID", metadata={"field": "clauses"})


@dataclass
class RowCounts:
    """How many rows a statement has changed.

    Args:
        updated: Rows with new values.
        deleted: Rows that are gone.
        inserted: New rows.
        upserted: Rows that were written without reading which of them were there.
    """

    updated: int = 0
    deleted: int = 0
    inserted: int = 0
    upserted: int = 0

    def add(self, action: Action, count: int) -> None:
        """Counts rows."""
        name = {Action.UPDATE: "updated", Action.DELETE: "deleted", Action.INSERT: "inserted"}[action]
        setattr(self, name, getattr(self, name) + count)
