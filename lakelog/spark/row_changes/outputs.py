"""What the clauses of a change write, as rows of the table; and the checks of all of them together."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sf

from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.defaults import write_default
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind
from lakelog.spark.batch.live_rows import PATH_COLUMN, ROW_COLUMN
from lakelog.spark.batch.row_layout import bring_to_types
from lakelog.spark.task_errors import lakelog_errors
from lakelog.storage.parquet.writer import plan_file_schema
from lakelog.writes.row_changes.assignments import check_updated_columns, default_of, find_field
from lakelog.writes.row_changes.clauses import Action, Clause, ColumnDefault, Literal, Rows
from lakelog.writes.row_changes.merging import MATCHED_TWICE, show_rows
from lakelog.writes.row_changes.plan import SOURCE_NAME, TARGET_NAME

_SIDES: Final = {
    Rows.MATCHED: (SOURCE_NAME, TARGET_NAME),
    Rows.NOT_MATCHED: (SOURCE_NAME,),
    Rows.NOT_MATCHED_BY_SOURCE: (TARGET_NAME,),
}
ACTION_COLUMN: Final = "lakelog_action"
_SHOWN: Final = 6
_KINDS: Final = {
    Action.UPDATE: RowKind.UPDATE_AFTER.text,
    Action.DELETE: RowKind.DELETE.text,
    Action.INSERT: RowKind.INSERT.text,
}


@dataclass(frozen=True)
class Outputs:
    """What is done with joined rows, which have `source` and `target` (structs) and the number of their clause.

    Args:
        info: The table.
        clauses: The clauses, by number.
        source_columns: Names of the source's columns; None: there is no source.
        matched_by: Columns by which messages name rows of a table without a key; empty: all.
    """

    info: TableInfo
    clauses: tuple[Clause, ...]
    source_columns: tuple[str, ...] | None
    matched_by: tuple[str, ...] = ()

    def to_rows(self, rows: DataFrame) -> list[DataFrame]:
        """What each clause writes: the table's columns with its types; in a keyed table last `_row_kind`."""
        is_keyed = bool(self.info.schema.primary_key)
        schema = plan_file_schema(self.info.schema, with_row_kind=False) if is_keyed else self.info.schema.arrow
        found = []
        for number, clause in enumerate(self.clauses):
            mine = with_bare_names(rows.where(f"`{ACTION_COLUMN}` = {number}"), clause)
            if clause.action is Action.DELETE and not is_keyed:
                # Its place is all that is needed.
                mine = mine.where("false")
            columns = [value.alias(name) for name, value in self._values(clause).items()]
            kinds = [sf.lit(_KINDS[clause.action]).alias(ROW_KIND_COLUMN)] if is_keyed else []
            typed = bring_to_types(mine.select(*columns, *kinds), schema, None, fill_missing=True)
            found.append(typed.toDF(*schema.names, *([ROW_KIND_COLUMN] if is_keyed else [])))
        return found

    def check_once(self, rows: DataFrame) -> None:
        """Checks that no row of the table is changed or made twice.

        Raises:
            InvalidArgument: One is; names some.
        """
        if self.source_columns is None:
            return
        key = self.info.schema.primary_key
        if key:
            changed = functools.reduce(DataFrame.unionAll, self.to_rows(rows))
            again = changed.groupBy(*map(quoted, key)).count().where("count > 1").drop("count")
        else:
            counted = rows.where(f"`{ROW_COLUMN}` IS NOT NULL").groupBy(PATH_COLUMN, ROW_COLUMN)
            places = counted.agg(sf.count("*").alias("count"), sf.first(TARGET_NAME).alias(TARGET_NAME))
            again = places.where("count > 1").select(f"{TARGET_NAME}.*")
            again = again.select(*map(quoted, self.matched_by)) if self.matched_by else again
        with lakelog_errors():
            twice = again.limit(_SHOWN).toArrow()
        if twice.num_rows:
            raise InvalidArgument(
                f"Several rows of the source would change or make one row of {self.info.name}, so its new values are "
                f"not clear: {show_rows(twice)}. Give the source one row for each, or clauses with conditions that "
                "hold for one of them.",
                reason=MATCHED_TWICE,
                metadata={"table": str(self.info.name), "rows": show_rows(twice)},
            )

    def check_keys_are_new(self, rows: DataFrame, there: DataFrame) -> None:
        """Checks that no inserted row has the key of a row that is there; raises InvalidArgument otherwise."""
        key = list(self.info.schema.primary_key)
        outputs = zip(self.clauses, self.to_rows(rows), strict=True)
        new = [each.select(*map(quoted, key)) for clause, each in outputs if clause.action is Action.INSERT]
        with lakelog_errors():
            found = functools.reduce(DataFrame.unionAll, new).join(there, key, "left_semi").limit(_SHOWN).toArrow()
        if found.num_rows:
            raise InvalidArgument(
                f"An INSERT of the merge would replace rows of {self.info.name} that are there already, because rows "
                f"are not matched by the whole primary key ({', '.join(key)}): {show_rows(found)}. Match by the "
                "key, or give the new rows other keys.",
                reason="KEY_EXISTS",
                metadata={"table": str(self.info.name), "rows": show_rows(found)},
            )

    def count(self, rows: DataFrame) -> Mapping[Action, int]:
        """How many rows each action has."""
        counts: dict[Action, int] = {}
        for row in rows.groupBy(ACTION_COLUMN).count().collect():
            action = self.clauses[row[0]].action
            counts[action] = counts.get(action, 0) + row[1]
        return counts

    def _values(self, clause: Clause) -> Mapping[str, Column]:
        names = self.info.schema.arrow.names
        own = {name: sf.col(f"{TARGET_NAME}.{quote(name)}") for name in names}
        if clause.action is Action.DELETE:
            return own
        if clause.values is None:
            return self._all_of_source(clause)
        given = {}
        for name, value in clause.values.items():
            field = find_field(self.info, name)
            given[field.name] = self._default(field) if isinstance(value, ColumnDefault) else _to_column(value)
        if len(given) < len(clause.values):
            raise InvalidArgument(f"'{clause}' gives a column two values. Name each column once.")
        if clause.action is Action.UPDATE:
            check_updated_columns(self.info, tuple(given), f"'{clause}'")
            return {name: given.get(name, own[name]) for name in names}
        return {
            field.name: given[field.name] if field.name in given else self._default(field)
            for field in self.info.schema.arrow
        }

    def _default(self, field: pa.Field) -> Column:
        return sf.lit(default_of(self.info, field).value.as_py())

    def _all_of_source(self, clause: Clause) -> Mapping[str, Column]:
        assert self.source_columns is not None, "only a merge has such clauses"
        by_name = {name.casefold(): name for name in self.source_columns}
        may_default = clause.action is Action.INSERT
        defaults = {
            field.name: self._default(field)
            for field in self.info.schema.arrow
            if may_default and write_default(field) is not None
        }
        missing = [
            name for name in self.info.schema.arrow.names if name.casefold() not in by_name and name not in defaults
        ]
        if missing:
            raise InvalidArgument(
                f"'{clause}' needs a column of the source for each one of {self.info.name}, and "
                f"{', '.join(missing[:50])} is missing. Give the source these columns, or name those to write: "
                "update({...}), insert({...}).",
                reason="SCHEMA_MISMATCH",
                metadata={"table": str(self.info.name), "column": missing[0]},
            )
        names = self.info.schema.arrow.names
        return {
            name: sf.col(f"{SOURCE_NAME}.{quote(by_name[name.casefold()])}")
            if name.casefold() in by_name
            else defaults[name]
            for name in names
        }


def with_bare_names(rows: DataFrame, clause: Clause) -> DataFrame:
    """Adds the columns that only one of the sides of a clause has, so that they need no name before them."""
    fields: dict[str, list[str]] = {}
    for side in _SIDES[clause.rows]:
        if side in rows.columns:
            for name in rows.schema[side].dataType.names:  # type: ignore[attr-defined]
                fields.setdefault(name, []).append(f"{side}.{quote(name)}")
    bare = {name: sf.col(places[0]) for name, places in fields.items() if len(places) == 1 and name not in rows.columns}
    return rows.withColumns(bare)


def quote(name: str) -> str:
    """A name in back-quotes."""
    return "`" + name.replace("`", "``") + "`"


def quoted(name: str) -> Column:
    """A column by its exact name."""
    return sf.col(quote(name))


def _to_column(value: Any) -> Column:
    if isinstance(value, str):
        return sf.expr(value)
    return sf.lit(value.value if isinstance(value, Literal) else value)
