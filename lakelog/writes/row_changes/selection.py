"""Rows by a condition that no filter of a scan can say, such as one with a subquery. What computes it is elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from lakelog.writes.row_changes.key_join import Indices

FindRows: TypeAlias = Callable[[pa.Table], Indices]
"""Returns the indices, rising, of the rows of a portion that fulfil the condition."""


@runtime_checkable
class RowSelection(Protocol):
    """A condition over the rows of one table, which may also read other tables."""

    def filter(self, schema: pa.Schema) -> str | None:
        """A filter that every row fulfils which the condition selects; None: there is none. Pure.

        Args:
            schema: The table's columns.
        """

    def columns(self, schema: pa.Schema) -> Sequence[str]:
        """The columns that the condition needs. Pure."""

    def open(self, read: dict[str, int]) -> AbstractContextManager[FindRows]:
        """Reads the other tables, once for all portions. Blocks.

        Args:
            read: Gets, by uuid, the snapshot of each table that is read at its newest one; 0: it had none.

        Raises:
            InvalidArgument: The condition cannot be computed; says why.
        """
        ...
