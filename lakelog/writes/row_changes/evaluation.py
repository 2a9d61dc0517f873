"""Values of expressions for the rows of a relation, in columns; DuckDB computes those that are SQL texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.errors import InvalidArgument
from lakelog.writes.row_changes.expressions import Column, Constant, Expression, SqlText

_RELATION: Final = "lakelog_rows"


class Evaluator:
    """Computes expressions; has a connection of DuckDB from the first text on. For one thread; use it in `with`."""

    def __init__(self) -> None:
        self._connection: Any = None

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(self, *_: object) -> None:
        if self._connection is not None:
            self._connection.close()

    def evaluate(self, rows: pa.Table, expressions: Sequence[Expression]) -> list[pa.ChunkedArray]:
        """Returns the values of each expression, one for each row, in the order of the rows.

        Args:
            rows: Has the columns that the expressions use, by their labels.
            expressions: What to compute.

        Raises:
            InvalidArgument: DuckDB is not installed (`MISSING_EXTRA`), or cannot compute one; shows it.
        """
        texts = list(dict.fromkeys(each for each in expressions if isinstance(each, SqlText)))
        computed = dict(zip(texts, self._compute(rows, texts), strict=True))
        return [_pick(rows, each, computed) for each in expressions]

    def test(self, rows: pa.Table, condition: Expression) -> npt.NDArray[np.bool_]:
        """Which rows fulfil a condition: where it is true, and neither false nor NULL.

        Raises:
            InvalidArgument: As `evaluate`, or it is no condition.
        """
        (values,) = self.evaluate(rows, [condition])
        if not pa.types.is_boolean(values.type) and not pa.types.is_null(values.type):
            shown = condition.shown if isinstance(condition, SqlText) else "it"
            raise InvalidArgument(
                f"'{shown:.200}' is no condition: it is of type {values.type}. Compare it with something.",
                reason="EXPRESSION_INVALID",
            )
        return np.asarray(values.cast(pa.bool_()).fill_null(False).to_numpy(), np.bool_)

    def join(self, target: pa.Table, source: pa.Table, condition: SqlText) -> tuple[Any, Any]:
        """Returns the pairs of rows that fulfil a condition, as two arrays of positions, the first one rising.

        Args:
            target: The columns of one side that the condition uses, by their labels.
            source: Those of the other side.
            condition: Tested for each pair.
        """
        named = {"lakelog_target": target.append_column("t", pa.array(np.arange(target.num_rows)))}
        named["lakelog_source"] = source.append_column("s", pa.array(np.arange(source.num_rows)))
        pairs = self._run(
            f"SELECT t, s FROM lakelog_target JOIN lakelog_source ON {condition.sql} ORDER BY t, s", named, [condition]
        )
        return pairs.column("t").to_numpy(), pairs.column("s").to_numpy()

    def _compute(self, rows: pa.Table, texts: Sequence[SqlText]) -> list[pa.ChunkedArray]:
        if not texts:
            return []
        labels = list(dict.fromkeys(column.label for text in texts for column in text.columns))
        # A relation needs a column, so that it can have rows.
        needed = rows.select(labels) if labels else pa.table({"n": np.zeros(rows.num_rows, np.int8)})
        columns = ", ".join(f"({text.sql}) AS c{number}" for number, text in enumerate(texts))
        found = self._run(f"SELECT {columns} FROM {_RELATION}", {_RELATION: needed}, texts)
        if found.num_rows != rows.num_rows:
            shown = " and ".join(f"'{text.shown:.80}'" for text in texts)
            raise InvalidArgument(
                f"{shown} gave {found.num_rows} values for {rows.num_rows} rows. Each row needs one: functions of "
                "several rows, and those that make rows, are not possible here.",
                reason="EXPRESSION_INVALID",
            )
        return found.columns

    def _run(self, sql: str, relations: dict[str, pa.Table], texts: Sequence[SqlText]) -> pa.Table:
        connection = self._connect()
        import duckdb

        try:
            for name, rows in relations.items():
                connection.register(name, rows)
            return connection.sql(sql).to_arrow_table()
        except duckdb.Error as error:
            shown = " or ".join(f"'{text.shown:.80}'" for text in texts[:10])
            first = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise InvalidArgument(f"{shown} cannot be computed: {first}", reason="EXPRESSION_INVALID") from error
        finally:
            for name in relations:
                connection.unregister(name)

    def _connect(self) -> Any:
        if self._connection is None:
            try:
                import duckdb
            except ImportError as error:
                raise InvalidArgument(
                    "Conditions and expressions need DuckDB, which is not installed: pip install 'lakelog[sql]'. "
                    "Columns of the source and plain values need nothing.",
                    reason="MISSING_EXTRA",
                ) from error
            self._connection = duckdb.connect(":memory:")
            # As queries: no files and no variables of this program.
            self._connection.execute("SET TimeZone = 'UTC'")
            self._connection.execute("SET python_enable_replacements = false")
            self._connection.execute("SET enable_external_access = false")
            self._connection.execute("SET lock_configuration = true")
        return self._connection


def _pick(rows: pa.Table, expression: Expression, computed: dict[SqlText, pa.ChunkedArray]) -> pa.ChunkedArray:
    if isinstance(expression, Column):
        return rows.column(expression.label)
    if isinstance(expression, Constant):
        # Arrow repeats no list zero times, and lists one by one.
        once, places = pa.array([expression.value], expression.value.type), np.zeros(rows.num_rows, np.int64)
        return pa.chunked_array([once.take(pa.array(places))])
    return computed[expression]
