"""What keeps a table's files in order: a part of `lakelog.table.Table`."""

from __future__ import annotations

import datetime as dt
from typing import Any

from lakelog.arguments import check_flag
from lakelog.errors import InvalidArgument
from lakelog.file_check import DEFAULT_OLDER_THAN_MS, check_files
from lakelog.file_check_result import FileCheck
from lakelog.table_handle import TableHandle


class TableUpkeep(TableHandle):
    """Checks of files; see `lakelog.table.Table`."""

    def check_files(self, repair: bool = False, *, older_than: dt.timedelta | None = None) -> FileCheck:
        """Compares the files below the table's location with what it refers to.

        Writers, readers and compactors may go on meanwhile: what somebody writes, what any kept snapshot, tag or
        changelog has, and what expiry has queued is never deleted.

        Args:
            repair: Delete files that nothing refers to: of attempts that were given up or are open for longer than
                `older_than`, which are given up first, so that they can never be committed; what commits have left;
                and files of unknown origin that are older than that.
            older_than: How long a write may take; None: a day. With 0 writes that are under way are given up, too.

        Raises:
            InvalidArgument: An argument is not possible.
            NotFound: The table was dropped.
        """
        check_flag(repair, "repair")
        older_than_ms = _to_milliseconds(older_than)
        info = self._refresh()
        catalog = self._catalog
        store = catalog.open_store(info)

        def check() -> FileCheck:
            return check_files(
                catalog.metastore,
                store,
                info,
                repair=bool(repair),
                older_than_ms=older_than_ms,
                clock=catalog.clock,
            )

        found: FileCheck = self._ask(check)
        return found


def _to_milliseconds(older_than: Any) -> int:
    if older_than is None:
        return DEFAULT_OLDER_THAN_MS
    if not isinstance(older_than, dt.timedelta) or older_than < dt.timedelta(0):
        raise InvalidArgument(
            f"older_than is {older_than!r}. Give a datetime.timedelta of at least 0, for instance timedelta(days=1).",
            metadata={"field": "older_than"},
        )
    return older_than // dt.timedelta(milliseconds=1)
