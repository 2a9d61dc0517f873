"""Reads of a table's state: a part of `lakelog.Table`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from lakelog.annotations import Condition, OptionValue, Parameters, TimeLike
from lakelog.frames.html_table import FIRST_ROWS, show_first
from lakelog.reads.scan import Scan, check_limit
from lakelog.reads.scan_planning import plan_scan
from lakelog.sdk.conditions import to_condition
from lakelog.sdk.tables.handle import TableHandle

if TYPE_CHECKING:
    import pandas as pd


class TableReads(TableHandle):
    """Scans, and short forms of the most common ones; see `lakelog.Table`."""

    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,  # noqa: A002
        limit: int | None = None,
        *,
        params: Parameters | None = None,
        snapshot_id: int | None = None,
        timestamp: TimeLike | None = None,
        tag: str | None = None,
        options: Mapping[str, OptionValue] | None = None,
    ) -> Scan:
        """Plans a read of the table; checks all arguments and fixes the snapshot now.

        Args:
            columns: Names of the columns to return, in this order; None: all.
            filter: An SQL condition, for instance `price > 9.5 AND dt = :day`, or an expression of pyarrow such as
                `pc.field("price") > 9.5`, which means what it means in SQL.
            limit: At most this many rows.
            params: Values of the condition's `:name` parameters, for instance `{"day": datetime.date(2024, 5, 1)}`; a
                list for IN.
            snapshot_id: Read the state at this snapshot.
            timestamp: Read the state at the newest snapshot committed at or before this time: a datetime with a time
                zone, a text such as `2024-05-01T12:00:00+02:00` (UTC if it names no zone), a date (its first moment in
                UTC), or milliseconds since the epoch. Only snapshots that have not expired count; an expired snapshot
                with a tag is read by its tag.
            tag: Read the state at the snapshot that has this tag.
            options: Scan options by key, for instance `{"scan.snapshot-id": "3"}`.

        Raises:
            InvalidArgument: An argument is not possible; named, with the remedy.
            NotFound: There is no such snapshot or tag, or the table was dropped.
            SnapshotExpired: The snapshot is no longer kept.
        """
        condition = to_condition(filter, params)
        return self._request(
            lambda: plan_scan(
                self._context,
                self._info,
                columns=columns,
                filter=condition,
                limit=limit,
                snapshot_id=snapshot_id,
                timestamp=timestamp,
                tag=tag,
                options=options,
            )
        )

    def count(self, filter: Condition | None = None, *, params: Parameters | None = None) -> int:  # noqa: A002
        """Counts the rows of the newest snapshot, as a scan would return them.

        For an append table without a filter no file is opened. Else it reads only what merging and the filter need, in
        batches: keys, sequence fields, and the columns that the filter names.

        Args:
            filter: Only rows that fulfil this condition, as of `scan`.
            params: Values of its `:name` parameters.

        Raises:
            InvalidArgument: An argument is not possible; named, with the remedy.
            NotFound: The table was dropped.
        """
        condition = to_condition(filter, params)
        return self.scan([] if condition is not None else None, condition).count()

    def head(
        self,
        n: int = 10,
        filter: Condition | None = None,  # noqa: A002
        *,
        columns: Sequence[str] | None = None,
        params: Parameters | None = None,
    ) -> pa.Table:
        """Reads some rows, in no defined choice; stops reading as soon as there are enough.

        Args:
            n: How many rows at most.
            filter: Only rows that fulfil this condition, as of `scan`.
            columns: Names of the columns to return, in this order; None: all.
            params: Values of the filter's `:name` parameters.

        Raises:
            InvalidArgument: An argument is not possible; named, with the remedy.
            NotFound: The table was dropped.
        """
        check_limit(n, "n")
        return self.scan(columns, filter, n, params=params).to_arrow()

    def to_pandas(
        self,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,  # noqa: A002
        limit: int | None = None,
        *,
        params: Parameters | None = None,
    ) -> pd.DataFrame:
        """Reads the rows of the newest snapshot into a pandas data frame; needs pandas. Arguments as of `scan`."""
        return self.scan(columns, filter, limit, params=params).to_pandas()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The rows of the newest snapshot as an Arrow stream, read on demand."""
        return self.scan().__arrow_c_stream__(requested_schema)

    def _repr_html_(self) -> str:
        """The first rows, for notebooks; never fails."""
        return show_first(lambda: self.scan(limit=FIRST_ROWS), repr(self))
