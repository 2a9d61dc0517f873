"""Maintenance of a table's files: a part of `lakelog.Table`."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from lakelog.annotations import Condition, Parameters
from lakelog.arguments import check_flag
from lakelog.errors import InvalidArgument
from lakelog.sdk.conditions import to_deletion
from lakelog.sdk.maintenance.checking.file_check import DEFAULT_OLDER_THAN_MS, check_files
from lakelog.sdk.maintenance.checking.file_check_result import FileCheck
from lakelog.sdk.maintenance.checking.stored_rows import find_stored_rows
from lakelog.sdk.maintenance.checking.table_repair import check_log
from lakelog.sdk.maintenance.partition_expiry import PartitionExpiryResult, expire_partitions
from lakelog.sdk.tables.handle import TableHandle


class TableUpkeep(TableHandle):
    """Checks of files, and expiry of partitions; see `lakelog.Table`."""

    def check_files(
        self, repair: bool = False, *, forget_lost: bool = False, older_than: dt.timedelta | None = None
    ) -> FileCheck:
        """Compares the files below the table's location with what it refers to, and its log with its history.

        Writers, readers and compactors can go on meanwhile. It never deletes what is being written, what a readable
        snapshot, tag or changelog needs, or what expiry has queued.

        Args:
            repair: Delete files that nothing refers to: files of aborted attempts; of attempts that are open for longer
                than `older_than`, which are aborted first, so that they can never be committed; files that commits have
                left over; and files of unknown origin that are older than that. Restart the log if its publisher has
                found that it has snapshots which the table has lost; the table's owner may do that. If not one of the
                table's files is found, nothing is repaired.
            forget_lost: Also expire the snapshots whose data files or deletion vectors are missing or damaged, and all
                before them, and delete the tags of those that lack files. `FileCheck.lost` of a check without repair
                says which. Nothing expires if the newest snapshot lacks files. Only with `repair`.
            older_than: How long a write may take; None: a day. With 0, writes that are running are aborted, too.

        Raises:
            InvalidArgument: An argument is not possible.
            NotFound: The table was dropped.
            DataCorrupted: With `repair`: not one of the table's files was found at its location.
        """
        check_flag(repair, "repair")
        check_flag(forget_lost, "forget_lost")
        if forget_lost and not repair:
            raise InvalidArgument(
                "forget_lost=True expires snapshots, and repair is False. Give repair=True too, or leave it out.",
                metadata={"field": "forget_lost", "value": "True"},
            )
        older_than_ms = _to_milliseconds(older_than)
        info = self._refresh()
        context = self._context
        store = context.open_store(info)

        def check() -> FileCheck:
            checked = check_files(
                context.metastore,
                store,
                info,
                repair=bool(repair),
                forget_lost=bool(forget_lost),
                older_than_ms=older_than_ms,
                clock=context.clock,
            )
            return check_log(context.metastore, info, checked, repair=bool(repair))

        found: FileCheck = self._request(check)
        return found

    def find_stored_rows(self, filter: Condition, *, params: Parameters | None = None) -> pa.Table:  # noqa: A002
        """Finds files that hold rows with a condition, though no read may show them: the proof of an erasure.

        It reads every data file, changelog and log segment in the table's folder, whatever snapshot, tag or attempt it
        is of, with the rows that deletions have left out, also files that expired and are not deleted yet. Records in
        an external log are not searched.

        Args:
            filter: An SQL condition, as of `scan`.
            params: Values of its `:name` parameters.

        Returns:
            Columns path and rows, by path; empty: no file holds such a row.

        Raises:
            InvalidArgument: The condition does not fit the table.
            NotFound: The table was dropped.
            DataCorrupted: A file is damaged; named.
        """
        condition = to_deletion(filter, params)
        info = self._refresh()
        found: pa.Table = self._request(lambda: find_stored_rows(self._context, info, condition))
        return found

    def expire_partitions(self, dry_run: bool = False) -> PartitionExpiryResult:
        """Removes the partitions that are older than `partition.expiration-time`, as compactors do by themselves.

        One overwrite removes them, so earlier snapshots still have them, and streams show it as any overwrite. The
        database's clock decides their ages. With `update-time`, a partition that is written to meanwhile stays.

        Args:
            dry_run: Only report the expired partitions.

        Returns:
            The expired partitions, and those that stay because their time cannot be read; `.to_arrow()` is a table of
            the expired ones.

        Raises:
            InvalidArgument: The table has no partitions, or does not say when they expire.
            NotFound: The table was dropped.
        """
        check_flag(dry_run, "dry_run")
        info = self._refresh()
        result: PartitionExpiryResult = self._request(
            lambda: expire_partitions(self._context.metastore, info, dry_run=bool(dry_run))
        )
        return result


def _to_milliseconds(older_than: Any) -> int:
    if older_than is None:
        return DEFAULT_OLDER_THAN_MS
    if not isinstance(older_than, dt.timedelta) or older_than < dt.timedelta(0):
        raise InvalidArgument(
            f"older_than is {older_than!r}. Give a datetime.timedelta of at least 0, for instance timedelta(days=1).",
            metadata={"field": "older_than"},
        )
    return older_than // dt.timedelta(milliseconds=1)
