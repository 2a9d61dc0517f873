"""What a merge or an update does, bound to a table's columns and checked before anything is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from lakelog.annotations import Parameters
from lakelog.errors import InvalidArgument
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.cast import check_schema
from lakelog.format.types.defaults import write_default
from lakelog.options.declared.tables import DEDUPLICATE, IGNORE_DELETE, MERGE_ENGINE, ROWKIND_FIELD, SEQUENCE_FIELD
from lakelog.options.values import TableOptions
from lakelog.writes.row_changes.assignments import (
    bind_assignments,
    bind_known,
    check_params_used,
    check_updated_columns,
    default_of,
)
from lakelog.writes.row_changes.clauses import Action, Assignments, Clause, Rows, check_assignments
from lakelog.writes.row_changes.evaluation import Evaluator
from lakelog.writes.row_changes.expressions import Column, Expression, Side, bind_expression, columns_of
from lakelog.writes.row_changes.on_condition import OnCondition, bind_on

TARGET_NAME: Final = "target"
SOURCE_NAME: Final = "source"


@dataclass(frozen=True)
class Names:
    """The names of the two sides in expressions; the first one of each is used in messages."""

    target: tuple[str, ...] = (TARGET_NAME,)
    source: tuple[str, ...] = (SOURCE_NAME,)


OWN_NAMES: Final = Names()
"""Those that users of the SDK write."""


@dataclass(frozen=True)
class BoundClause:
    """A clause with resolved names.

    Args:
        rows: The rows that it is for.
        action: What it does.
        condition: Which of them; None: all.
        outputs: The values that are written, by column: whole rows, or for a delete what it needs.
        shown: The clause for messages.
    """

    rows: Rows
    action: Action
    condition: Expression | None
    outputs: Mapping[str, Expression]
    shown: str


@dataclass(frozen=True)
class MergePlan:
    """A merge that fits its table.

    Args:
        info: The table.
        on: Which rows belong together.
        clauses: What happens to them, in order.
    """

    info: TableInfo
    on: OnCondition
    clauses: tuple[BoundClause, ...]

    def clauses_of(self, rows: Rows) -> tuple[BoundClause, ...]:
        """The clauses for some rows, in order."""
        return tuple(each for each in self.clauses if each.rows is rows)

    @property
    def reads_all(self) -> bool:
        """Whether rows of the table without a row in the source matter."""
        return bool(self.clauses_of(Rows.NOT_MATCHED_BY_SOURCE))

    @property
    def matches_by_key(self) -> bool:
        """Whether a row of the source names the whole primary key of the table's row."""
        key = self.info.schema.primary_key
        return bool(key) and set(key) <= {each.target for each in self.on.equal}

    @property
    def matches_by_key_alone(self) -> bool:
        """Whether a row of the source has a match exactly if its key has a row in the table."""
        exact = {each.target for each in self.on.equal} == set(self.info.schema.primary_key)
        return self.matches_by_key and exact and self.on.rest is None and self.on.filter is None

    @property
    def is_upsert(self) -> bool:
        """Whether each row of the source is written, whatever the table has: then nothing need be read."""
        whole = {(Rows.MATCHED, Action.UPDATE), (Rows.NOT_MATCHED, Action.INSERT)}
        plain = all(each.condition is None and _copies_source(each) for each in self.clauses)
        return plain and self.matches_by_key_alone and {(each.rows, each.action) for each in self.clauses} == whole

    @property
    def target_columns(self) -> tuple[str, ...]:
        """The table's columns that are read, in its order."""
        used = {each.target for each in self.on.equal}
        expressions = [each for clause in self.clauses for each in (clause.condition, *clause.outputs.values())]
        for expression in (self.on.rest, *expressions):
            if expression is not None:
                used |= {column.name for column in columns_of(expression) if column.side == "t"}
        # At least the key, by which messages name rows.
        used |= set(self.info.schema.primary_key)
        return tuple(name for name in self.info.schema.arrow.names if name in used)


def plan_merge(
    info: TableInfo,
    source: pa.Schema,
    on: str | Sequence[str],
    clauses: Sequence[Clause],
    names: Names,
    params: Parameters | None,
    evaluator: Evaluator,
) -> MergePlan:
    """Resolves a merge and checks it as far as that is known without rows.

    Args:
        info: The table.
        source: The columns of the source.
        on: Which rows belong together.
        clauses: What happens to them.
        names: The names of both sides in expressions.
        params: Values of `:name` parameters in all texts.
        evaluator: Finds the types of expressions.

    Raises:
        InvalidArgument: Something does not fit; names the clause, the column and what to do.
    """
    check_table(info, {clause.action for clause in clauses})
    target_side, source_side = Side("t", names.target, info.schema.arrow), Side("s", names.source, source)
    check_params_used(_texts_of(on, clauses), params)
    condition = bind_known(on, params) if isinstance(on, str) else on
    reads_all = any(clause.rows is Rows.NOT_MATCHED_BY_SOURCE for clause in clauses)
    bound_on = bind_on(condition, target_side, source_side, reads_all=reads_all)
    sides = {
        Rows.MATCHED: (target_side, source_side),
        Rows.NOT_MATCHED: (source_side,),
        Rows.NOT_MATCHED_BY_SOURCE: (target_side,),
    }
    bound = tuple(_bind_clause(info, clause, sides[clause.rows], source_side, params) for clause in clauses)
    plan = MergePlan(info, bound_on, bound)
    _check_whole_rows(plan, clauses)
    empty = _empty_rows((target_side, source_side))
    if bound_on.rest is not None:
        evaluator.test(empty, bound_on.rest)
    for clause in bound:
        _check_types(info, clause, empty, evaluator)
    return plan


def plan_update(
    info: TableInfo,
    given: Assignments,
    where: str | None,
    names: Names,
    params: Parameters | None,
    evaluator: Evaluator,
) -> BoundClause:
    """Resolves an update of rows by expressions over their own columns; arguments and errors as of `plan_merge`."""
    check_table(info, {Action.UPDATE})
    given = check_assignments("update", given)
    check_params_used([where, *(value for value in given.values() if isinstance(value, str))], params)
    side = Side("t", names.target, info.schema.arrow)
    values = bind_assignments(info, given, (side,), "UPDATE", params)
    check_updated_columns(info, tuple(values), "UPDATE")
    clause = BoundClause(Rows.MATCHED, Action.UPDATE, None, _whole_row(info, values), "UPDATE")
    _check_types(info, clause, _empty_rows((side,)), evaluator)
    return clause


def check_table(info: TableInfo, actions: set[Action]) -> None:
    """Checks that a table's rows can be changed in these ways.

    Raises:
        InvalidArgument: Its options say otherwise; names the option and what to do instead.
    """
    options = TableOptions(info.options)
    if not info.schema.primary_key:
        return
    engine, field = options.get(MERGE_ENGINE), options.get(ROWKIND_FIELD)
    if engine != DEDUPLICATE and actions - {Action.INSERT}:
        raise InvalidArgument(
            f"Rows of {info.name} cannot be updated or deleted: its merge engine, {engine}, keeps the first row of "
            "each key for good. Use a table with 'merge-engine' = 'deduplicate'.",
            metadata={"table": str(info.name), "option": MERGE_ENGINE.key},
        )
    if field is not None:
        raise InvalidArgument(
            f"Rows of {info.name} take their kinds from the column '{field}' ('{ROWKIND_FIELD.key}'), which would "
            "contradict what UPDATE, DELETE and MERGE do. Write rows with the column: table.write(rows).",
            metadata={"table": str(info.name), "option": ROWKIND_FIELD.key},
        )
    if options.get(IGNORE_DELETE) and Action.DELETE in actions:
        raise InvalidArgument(
            f"Rows of {info.name} cannot be deleted: '{IGNORE_DELETE.key}' drops deletes. ALTER TABLE {info.name} "
            f"RESET ('{IGNORE_DELETE.key}') first.",
            metadata={"table": str(info.name), "option": IGNORE_DELETE.key},
        )


def key_columns(info: TableInfo) -> Sequence[str]:
    """What a delete needs of a row: nothing in an append table, where the row's place is enough. Pure."""
    if not info.schema.primary_key:
        return []
    return list(dict.fromkeys((*info.schema.primary_key, *TableOptions(info.options).get(SEQUENCE_FIELD))))


def to_output_table(clause: BoundClause, rows: pa.Table, evaluator: Evaluator, types: pa.Schema) -> pa.Table:
    """Returns what a clause writes for some rows, by the table's columns.

    Args:
        clause: The clause.
        rows: Has the columns that its outputs use, by their labels.
        evaluator: Computes them.
        types: The table's columns. A decimal becomes the nearest DOUBLE, as in VALUES; all else stays as it is.
    """
    values = evaluator.evaluate(rows, list(clause.outputs.values()))
    columns = [_to_given(each, types.field(name).type) for name, each in zip(clause.outputs, values, strict=True)]
    return pa.table(columns, names=list(clause.outputs))


def _texts_of(on: str | Sequence[str], clauses: Sequence[Clause]) -> list[str | None]:
    texts: list[str | None] = [on if isinstance(on, str) else None]
    for clause in clauses:
        texts.append(clause.condition)
        texts += [value for value in (clause.values or {}).values() if isinstance(value, str)]
    return texts


def _bind_clause(
    info: TableInfo, clause: Clause, sides: Sequence[Side], source: Side, params: Parameters | None
) -> BoundClause:
    place = f"'{clause}'"
    condition = None
    if clause.condition is not None:
        condition = bind_expression(bind_known(clause.condition, params), sides, place)
    if clause.action is Action.DELETE:
        key = {name: Column("t", name) for name in key_columns(info)}
        return BoundClause(clause.rows, clause.action, condition, key, place)
    if clause.values is None:
        values = _all_of_source(info, source, place, may_default=clause.action is Action.INSERT)
    else:
        values = dict(bind_assignments(info, clause.values, sides, place, params))
        if clause.action is Action.UPDATE:
            check_updated_columns(info, tuple(values), place)
    make: Callable[[TableInfo, Mapping[str, Expression]], Mapping[str, Expression]] = (
        _whole_row if clause.action is Action.UPDATE else _new_row
    )
    return BoundClause(clause.rows, clause.action, condition, make(info, values), place)


def _all_of_source(info: TableInfo, source: Side, place: str, *, may_default: bool) -> dict[str, Expression]:
    found = {field.name: source.find(field.name) for field in info.schema.arrow}
    defaults = [field.name for field in info.schema.arrow if may_default and write_default(field) is not None]
    missing = [name for name, column in found.items() if column is None and name not in defaults]
    if missing:
        raise InvalidArgument(
            f"{place} needs a column of the source for each one of {info.name}, and {', '.join(missing[:50])} "
            f"{'is' if len(missing) == 1 else 'are'} missing. Give the source these columns, or name those to write: "
            "update({...}), insert({...}).",
            reason="SCHEMA_MISMATCH",
            metadata={"table": str(info.name), "column": missing[0]},
        )
    return {name: Column("s", column) for name, column in found.items() if column is not None}


def _whole_row(info: TableInfo, values: Mapping[str, Expression]) -> Mapping[str, Expression]:
    return {name: values.get(name, Column("t", name)) for name in info.schema.arrow.names}


def _new_row(info: TableInfo, values: Mapping[str, Expression]) -> Mapping[str, Expression]:
    """The values of all columns; those that are left out get their defaults."""
    return {
        field.name: values[field.name] if field.name in values else default_of(info, field)
        for field in info.schema.arrow
    }


def _copies_source(clause: BoundClause) -> bool:
    return clause.action is not Action.DELETE and all(
        isinstance(each, Column) and each.side == "s" for each in clause.outputs.values()
    )


def _check_whole_rows(plan: MergePlan, clauses: Sequence[Clause]) -> None:
    """Checks that a row that takes over all columns of the source keeps its key."""
    if not plan.info.schema.primary_key or plan.matches_by_key:
        return
    for clause in clauses:
        if clause.action is Action.UPDATE and clause.values is None:
            left = [name for name in plan.info.schema.primary_key if name not in {e.target for e in plan.on.equal}]
            raise InvalidArgument(
                f"'{clause}' would update the key of {plan.info.name}: rows are not matched by '{left[0]}', so the "
                "source may have another one. Match by the whole key, or name the columns to update.",
                reason="KEY_UPDATED",
                metadata={"table": str(plan.info.name), "column": left[0]},
            )


def _empty_rows(sides: Sequence[Side]) -> pa.Table:
    fields = [pa.field(f"{side.prefix}.{field.name}", field.type) for side in sides for field in side.schema]
    return pa.schema(fields).empty_table()


def _check_types(info: TableInfo, clause: BoundClause, empty: pa.Table, evaluator: Evaluator) -> None:
    if clause.condition is not None:
        evaluator.test(empty, clause.condition)
    if not clause.outputs:
        return
    schema = info.schema.arrow
    given = to_output_table(clause, empty, evaluator, schema)
    expected = pa.schema([field for field in schema if field.name in clause.outputs])
    try:
        check_schema(given.schema, expected)
    except InvalidArgument as error:
        raise InvalidArgument(
            f"{clause.shown}: {error.message}", reason=error.reason, metadata=error.metadata
        ) from None


def _to_given(values: pa.ChunkedArray, wanted: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_decimal(values.type) and pa.types.is_floating(wanted):
        return values.cast(wanted)
    return values
