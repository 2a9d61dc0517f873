"""SQL expressions over the rows of a table and of a source: read by sqlglot as Spark's SQL, written for DuckDB. Pure.

An expression becomes one of three: a column as it is, a constant, or a text for DuckDB. Only the third needs DuckDB, so
that changes by plain values and by columns work without it. What fails is an error, as in Spark's ANSI mode: a cast of
a text that is no number, a division by zero. In the text, columns have the names that `Column.label` gives them, so
that one relation can hold the columns of both sides.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NoReturn, TypeAlias

import pyarrow as pa
import sqlglot
from sqlglot import exp
from sqlglot.errors import SqlglotError

from lakelog.errors import InvalidArgument
from lakelog.format.filter.parameters import to_constant
from lakelog.format.filter.tokens import Source, split_tokens

MAX_EXPRESSION_LENGTH: Final = 1 << 20

_DIALECT: Final = "databricks"
"""Spark's SQL in ANSI mode, as sqlglot calls it."""

EXPRESSION_INVALID: Final = "EXPRESSION_INVALID"
"""The reason of an error about an expression."""


@dataclass(frozen=True)
class Side:
    """One of the two relations that names in an expression can mean.

    Args:
        prefix: Before its columns' labels: `t` or `s`.
        names: Its names in texts, the first one for messages.
        schema: Its columns.
    """

    prefix: str
    names: tuple[str, ...]
    schema: pa.Schema

    def find(self, name: str) -> str | None:
        """The column of a name, whose case does not count; None: there is none."""
        return self._by_name.get(name.casefold())

    @cached_property
    def _by_name(self) -> Mapping[str, str]:
        # The first one of several columns of a name counts.
        return {name.casefold(): name for name in reversed(self.schema.names)}


@dataclass(frozen=True)
class Column:
    """A column of a side, by the side's prefix."""

    side: str
    name: str

    @property
    def label(self) -> str:
        """Its name in a relation that has columns of both sides."""
        return f"{self.side}.{self.name}"


@dataclass(frozen=True)
class Constant:
    """One value for all rows."""

    value: pa.Scalar


@dataclass(frozen=True)
class SqlText:
    """An expression in DuckDB's SQL over labelled columns.

    Args:
        sql: The text for DuckDB.
        columns: The columns that it uses.
        shown: As the user wrote it, for messages.
    """

    sql: str
    columns: tuple[Column, ...]
    shown: str


Expression: TypeAlias = Column | Constant | SqlText


def columns_of(expression: Expression) -> tuple[Column, ...]:
    """The columns that an expression uses. Pure."""
    if isinstance(expression, Column):
        return (expression,)
    return expression.columns if isinstance(expression, SqlText) else ()


def bind_expression(text: str, sides: Sequence[Side], place: str, wanted: pa.DataType | None = None) -> Expression:
    """Resolves the columns of an expression.

    Args:
        text: The expression in Spark's SQL.
        sides: What its names can mean.
        place: Where it stands, for messages.
        wanted: The type of the column that it is for: a text constant for a date or a time is read as one.

    Raises:
        InvalidArgument: It cannot be read, has a subquery or an aggregate, or a column that does not exist or is not
            clear.
    """
    return bind_tree(parse_expression(text, place), sides, place, wanted)


def parse_expression(text: str, place: str) -> exp.Expr:
    """Reads one expression; its names are not resolved yet. Raises as `bind_expression`."""
    if not text.strip():
        refuse(place, "it is empty")
    readable = _write_texts_plainly(text)
    try:
        tree = sqlglot.parse_one(f"SELECT {readable}", read=_DIALECT)
    except SqlglotError as error:
        details = getattr(error, "errors", None) or [{}]
        what = str(details[0].get("description") or "it is no expression of SQL").rstrip(".")
        if "Required keyword" in what or "<Token" in what:
            what = "something is missing in it"
        refuse(place, f"'{text:.80}' cannot be read: {what}")
    except RecursionError:
        refuse(place, "it is nested too deep. Flatten it")
    whole = isinstance(tree, exp.Select) and len(tree.expressions) == 1
    extra = [name for name, value in tree.args.items() if value and name not in ("expressions", "kind", "hint")]
    if not whole or extra or isinstance(tree.expressions[0], exp.Alias):
        refuse(place, f"'{text:.80}' is more than one expression")
    return tree.expressions[0]


def bind_tree(tree: exp.Expr, sides: Sequence[Side], place: str, wanted: pa.DataType | None = None) -> Expression:
    """As `bind_expression`, for an expression that was read. The tree is not changed."""
    shown = tree.sql("spark")
    _check_supported(tree, place)
    found: dict[Column, None] = {}

    def resolve(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Div):
            node.set("expression", _refuse_zero(node.expression))
        if not isinstance(node, exp.Column):
            return node
        column, fields = _resolve(node, sides, place)
        found.setdefault(column)
        bound: exp.Expr = exp.column(exp.to_identifier(column.label, quoted=True))
        for field in fields:
            bound = exp.Anonymous(this="struct_extract", expressions=[bound, exp.Literal.string(field)])
        return bound

    if isinstance(tree, exp.Column):
        column, fields = _resolve(tree, sides, place)
        if not fields:
            return column
    bound = tree.copy().transform(resolve)
    if wanted is not None and pa.types.is_temporal(wanted) and isinstance(bound, exp.Literal) and bound.is_string:
        bound = exp.cast(bound, _TIME_TYPES[str(wanted)])
    return SqlText(bound.sql("duckdb"), tuple(found), shown)


def split_conjunction(tree: exp.Expr) -> list[exp.Expr]:
    """The parts of a condition that AND joins. Pure."""
    inner = tree.unnest()
    if isinstance(inner, exp.And):
        return [part for each in inner.flatten() for part in split_conjunction(each)]
    return [inner]


def refuse(place: str, why: str) -> NoReturn:
    """Raises the error about an expression."""
    raise InvalidArgument(
        f"The expression of {place} is not possible: {why}.", reason=EXPRESSION_INVALID, metadata={"field": place}
    )


_TIME_TYPES: Final = {
    "date32[day]": "DATE",
    "timestamp[us, tz=UTC]": "TIMESTAMPTZ",
    "timestamp[us]": "TIMESTAMP",
}


def _check_supported(tree: exp.Expr, place: str) -> None:
    for node in tree.walk():
        if isinstance(node, exp.Query | exp.Subquery | exp.Exists):
            refuse(place, "it has a subquery. Use MERGE (table.merge) with the rows of the query as its source")
        if isinstance(node, exp.AggFunc | exp.Window):
            refuse(
                place, f"'{node.sql('spark'):.80}' is computed over several rows. Use MERGE with its result as source"
            )
        if isinstance(node, exp.UDTF | exp.Explode | exp.Posexplode):
            refuse(place, f"'{node.sql('spark'):.80}' makes several rows, and each row needs one value")
        if isinstance(node, exp.Star):
            refuse(place, "it has a '*', and one value is expected")
        if isinstance(node, exp.Placeholder | exp.Parameter):
            refuse(place, f"'{node.sql('spark'):.80}' has no value. Give params={{'name': value}}, in the SDK")


def _refuse_zero(divisor: exp.Expr) -> exp.Expr:
    """A divisor that ends the statement where it is 0; DuckDB itself would give infinity for floats. Pure."""
    failure = exp.Anonymous(this="error", expressions=[exp.Literal.string("Division by zero")])
    return exp.Case(
        ifs=[exp.If(this=exp.EQ(this=divisor.copy(), expression=exp.Literal.number(0)), true=failure)],
        default=divisor.copy(),
    )


def _write_texts_plainly(text: str) -> str:
    """The text with constants that sqlglot reads as lakelog does: it takes `''` in a text for two texts. Pure."""
    parts: list[str] = []
    end = 0
    for token in split_tokens(
        Source(text, "The expression is not possible", EXPRESSION_INVALID, MAX_EXPRESSION_LENGTH)
    ):
        if token.kind == "text":
            parts.append(text[end : token.start] + to_constant(token.text, "the text"))
            end = token.end
    return "".join([*parts, text[end:]])


def _resolve(node: exp.Column, sides: Sequence[Side], place: str) -> tuple[Column, tuple[str, ...]]:
    """The column of a name with dots, and the fields inside it that the name goes on to."""
    parts = [part.name for part in node.parts]
    for side in sides:
        for name in side.names:
            words = name.casefold().split(".")
            if len(parts) > len(words) and [part.casefold() for part in parts[: len(words)]] == words:
                rest = parts[len(words) :]
                column = side.find(rest[0])
                if column is None:
                    _fail_unknown(rest[0], [side], place)
                return Column(side.prefix, column), tuple(rest[1:])
    having = [(side, column) for side in sides if (column := side.find(parts[0])) is not None]
    if len(having) > 1:
        both = " or ".join(f"{side.names[0]}.{column}" for side, column in having)
        refuse(place, f"the column '{parts[0]}' is in both. Write {both}")
    if not having:
        _fail_unknown(parts[0], sides, place)
    side, column = having[0]
    return Column(side.prefix, column), tuple(parts[1:])


def _fail_unknown(name: str, sides: Sequence[Side], place: str) -> NoReturn:
    known = [f"{side.names[0]}.{each}" for side in sides for each in side.schema.names]
    bare = {label.rpartition(".")[2]: label for label in known}
    near = [bare[each] for each in difflib.get_close_matches(name[:200], list(bare), n=3, cutoff=0.5)] or known[:20]
    raise InvalidArgument(
        f"The expression of {place} is not possible: there is no column '{name:.200}' here; near it are "
        f"{', '.join(near)}. A text is written in single quotes.",
        reason="UNKNOWN_COLUMN",
        metadata={"field": place, "column": name[:200]},
    )
