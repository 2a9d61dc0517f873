"""A table as a user of the SDK holds it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from lakelog.annotations import Condition, OptionValue, Parameters, TimeLike, Value
from lakelog.arguments import check_flag, check_text, to_column_changes, to_option_texts, to_texts
from lakelog.errors import InvalidArgument, NotFound
from lakelog.format.tables.plan import PlanRequest
from lakelog.format.types.column_changes import ColumnChange
from lakelog.options.declared.tables import STREAMING_READ_OVERWRITE
from lakelog.options.values import TableOptions
from lakelog.reads.change_plan import check_range, check_raw, name_change_columns
from lakelog.reads.change_range import find_begin, naming_what_is_kept
from lakelog.reads.complete_changes import DEFAULT_TIMEOUT_S, check_timeout, plan_when_complete
from lakelog.reads.reading import resolve_state
from lakelog.reads.scan import Scan, check_limit
from lakelog.reads.scan_planning import plan_changes
from lakelog.reads.streams.consumers import Consumers
from lakelog.reads.streams.subscribe import subscribe
from lakelog.reads.streams.subscription import Subscription
from lakelog.sdk.conditions import to_condition
from lakelog.sdk.maintenance.compaction_request import plan_compaction, request_compaction
from lakelog.sdk.maintenance.compaction_result import CompactionResult
from lakelog.sdk.maintenance.compaction_wait import check_timeout as check_compaction_timeout
from lakelog.sdk.maintenance.compaction_wait import wait_for_compactions
from lakelog.sdk.maintenance.expiry import ExpiryResult, expire_snapshots
from lakelog.sdk.maintenance.tags import Tags
from lakelog.sdk.system_table import SystemTable
from lakelog.sdk.tables.maintenance import TableUpkeep
from lakelog.sdk.tables.reads import TableReads
from lakelog.sdk.tables.row_changes import TableRowChanges
from lakelog.sdk.tables.writes import TableWrites
from lakelog.storage.lookup.copy_cache import CacheStatistics
from lakelog.system_tables.metadata.listings import list_log_offsets, list_snapshots, to_files_table, to_snapshots_table
from lakelog.system_tables.registry import MARK, SystemName, find_of_table


class Table(TableReads, TableWrites, TableRowChanges, TableUpkeep):
    """A table; `Catalog.table` and `Catalog.create_table` make it. Threads may share it; it pickles with its catalog.

    A handle stays with the table it was made for. When that table is dropped, every use raises NotFound, even if
    another table gets its name. Every read and write follows the options and the schema of that moment; quick appends
    and upserts follow those of at most a second before. The properties show what this handle received last;
    `Catalog.table` asks again.

    All writes take `CommitOptions` by keyword: the writer's name, its number of the commit, metadata, and the snapshot
    since which nothing may have changed (`if_snapshot`, `if_unchanged`). A write raises InvalidArgument if the rows do
    not fit, with a line for each column that does not; CommitConflict if another commit came first; OutcomeUnknown if
    the answer was lost: repeat it with the same `writer` and `identifier` then. Whatever it raises, either all of its
    rows are visible or none.
    """

    def __reduce__(self) -> tuple[object, ...]:
        return (Table, (self._context, self._writes, self._info))

    def alter(
        self,
        *,
        set: Mapping[str, OptionValue] | None = None,  # noqa: A002
        unset: Sequence[str] = (),
        columns: Sequence[ColumnChange] = (),
        comment: str | None = None,
    ) -> Table:
        """Changes options, or columns and the comment.

        Changes of columns apply all or none, and make a new version of the schema. Old rows are read through it: a
        column that was added shows its default, or NULL, and one that was dropped and added again is a new one. Earlier
        snapshots keep their columns. Writers that began before go on while their rows still fit.

        Args:
            set: New values of options by key.
            unset: Keys of options that get their defaults again.
            columns: `lakelog.AddColumn`, `DropColumn`, `RenameColumn`, `MoveColumn`, `WidenColumn`, `AllowNull`,
                `CommentColumn`, `SetDefault`; applied in this order.
            comment: What the table is for; None: as it is.

        Returns:
            The table itself.

        Raises:
            InvalidArgument: An option is unknown, a value is wrong, or an option or column cannot be changed so; says
                why. Or options and columns are to change at once.
            PermissionDenied, Unavailable: The brokers of its log are not allowed or refuse the connection; or do not
                answer.
        """
        keys = to_texts(unset, "unset", "keys")
        wanted = to_option_texts({} if set is None else set)
        changes = to_column_changes(columns)
        if changes or comment is not None:
            if wanted or keys:
                raise InvalidArgument(
                    "Options and columns cannot change at once. Alter the columns first, then the options.",
                    metadata={"field": "columns"},
                )
            alter_columns = self._context.metastore.alter_columns
            self._info = self._request(lambda: alter_columns(self.uuid, changes=changes, comment=comment))
        else:
            alter = self._context.metastore.alter_table
            self._info = self._request(lambda: alter(self.uuid, set_options=wanted, unset_options=keys))
        self._writes.attempts_ahead.forget(self.uuid)
        return self

    def changes(
        self,
        after: int | None = None,
        until: int | None = None,
        *,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,  # noqa: A002
        params: Parameters | None = None,
        limit: int | None = None,
        raw: bool = False,
        timeout: float = DEFAULT_TIMEOUT_S,
    ) -> Scan:
        """Plans a read of the changes of the snapshots after `after`, up to and including `until`, in their order.

        In a table with a primary key each change comes with the row before it: `+I` for a new row, `-D` with the old
        values for a row that is gone, `-U` old and `+U` new for a row that changed. There is one change per key and
        snapshot, and none if no column that is read has changed (semantics 3.3). Applied to the state at `after` the
        changes give the state at `until`, except for rows that overwrites in between replaced (`skipped_snapshots`).

        Snapshots with a changelog (`changelog-producer`) show it as it was written. With `lookup` that is the same, and
        includes updates that left the columns read unchanged; with `input` it is every record as it was written.

        Args:
            after: Excluded; 0: from the first snapshot on, which is an error once that has expired. None: all that is
                retained.
            until: Included; None: the newest.
            columns: Names of the columns to return, including `_snapshot_id` if wanted; None: all, `_row_kind` and
                `_snapshot_id`. In a table with a primary key `_row_kind` always comes, last if it is not named: without
                it rows that appeared could not be distinguished from rows that are gone.
            filter: A condition on the table's columns, as of `scan`.
            params: Values of the filter's `:name` parameters.
            limit: At most this many rows.
            raw: Return rows as they were written instead: the last row per key of each commit, deletes with the values
                that they carried. Makes no difference for append tables, whose rows are always as written.
            timeout: How many seconds to wait for changelogs that a compactor still has to make (`lookup-wait`).

        Raises:
            InvalidArgument: An argument is not possible; named, with the remedy.
            NotFound: The table has no snapshot `after` yet.
            SnapshotExpired: A snapshot of the range has expired.
            Unavailable: A snapshot still waited for a compactor at the end of the time; named.
        """
        check_limit(limit)
        check_range(after, until)
        timeout_s = check_timeout(timeout)
        check_flag(raw, "raw")
        condition = to_condition(filter, params)
        if raw:
            check_raw(self._info, "raw=True")
        if after is None:
            after = self._request(lambda: find_begin(self._context.metastore, self._info, until, raw=raw))
        last = until
        if last is None:
            last = self._refresh().latest_snapshot_id
            if after > last:
                raise NotFound(
                    f"Snapshot {after} of {self.name} does not exist: its newest snapshot is {last}. Give that or an "
                    "older one, or subscribe to wait for it.",
                    reason="SNAPSHOT_NOT_FOUND",
                    metadata={"snapshot_id": str(after), "latest": str(last)},
                )

        names = None if columns is None else name_change_columns(columns, self._info)

        def plan() -> Scan:
            return plan_changes(
                self._context,
                self._info,
                after=after,
                until=last,
                columns=names,
                filter=condition,
                limit=limit,
                raw=raw,
                overwrites=not raw and TableOptions(self._info.options).get(STREAMING_READ_OVERWRITE),
            )

        remedy = "give after={} or more, or read the whole table by scan()"
        with naming_what_is_kept(self._context.metastore, self._info, after, remedy):
            return self._request(lambda: plan_when_complete(self._context.metastore, self._info, last, timeout_s, plan))

    def subscribe(
        self,
        scan_mode: str | None = None,
        consumer_id: str | None = None,
        auto_commit: bool = True,
        *,
        columns: Sequence[str] | None = None,
        filter: Condition | None = None,  # noqa: A002
        params: Parameters | None = None,
        options: Mapping[str, OptionValue] | None = None,
        reader: str | None = None,
    ) -> Subscription:
        """Subscribes to the table's changes: batches arrive as they are committed, without polling.

        Each batch has `data`, `snapshot_id` and `table`. In a table with a primary key the last column, `_row_kind`,
        says what became of each row, as of `changes`. Use it in a `with` statement, or close it.

        Args:
            scan_mode: Where to begin: `latest-full` (the default: with the current rows), `latest`, `from-snapshot`,
                `from-snapshot-full`, `from-timestamp`, `from-file-creation-time`, `compacted-full`; see the page on
                options, which also has the options that belong to them.
            consumer_id: Keep the position in the metastore under this name. A subscription with this name goes on after
                the last snapshot that was done, and fences the reader before it.
            auto_commit: A snapshot is done when the batch after its last one is requested; False: when `commit` is
                called.
            columns: Names of the columns; None: all. With a primary key `_row_kind` comes last, named or not.
            filter: A condition on the table's columns, as of `scan`.
            params: Values of the filter's `:name` parameters.
            options: Options of subscriptions by key, for instance `{"scan.snapshot-id": "3"}`.
            reader: `host:port` of a reader service that reads for this subscription, several replicas separated by
                commas; "": none; None: as in `lakelog.connect`.

        Raises:
            InvalidArgument: An argument is not possible, or two of them contradict each other.
            NotFound: There is no such snapshot.
            SnapshotExpired: The consumer's next change has expired.
        """
        condition = to_condition(filter, params)
        info = self._refresh()
        return self._request(
            lambda: subscribe(
                self._context,
                [info],
                scan_mode=scan_mode,
                consumer_id=consumer_id,
                auto_commit=auto_commit,
                columns={} if columns is None else {str(info.name): columns},
                filters={} if condition is None else {str(info.name): condition},
                options=options,
                reader=self._context.reader.resolve(reader),
            )
        )

    @property
    def consumers(self) -> Consumers:
        """Named readers of the table: `.list()`, `.reset(id, snapshot_id)`, `.delete(id)`."""
        return Consumers(self._context.metastore, self.uuid, self._request)

    @property
    def tags(self) -> Tags:
        """Names of snapshots: `.create(name, snapshot_id=None)`, `.list()`, `.delete(name)`."""
        return Tags(self._context.metastore, self.uuid, self._request)

    @property
    def lookup_metrics(self) -> CacheStatistics:
        """Counts of the lookups of old rows in this process: hits of local copies, bytes read, copies made, evicted."""
        return replace(self._context.caches.find_copies(self.uuid, TableOptions(self._info.options)).statistics)

    def compact(
        self,
        full: bool = False,
        partitions: Sequence[Mapping[str, Value]] | None = None,
        where: Condition | None = None,
        wait: bool = True,
        timeout: float | None = None,
        dry_run: bool = False,
        *,
        params: Parameters | None = None,
    ) -> CompactionResult:
        """Requests a compaction of the table's files, so that reads cost less; what they show never changes.

        It requests one job for each bucket that needs work. Compactors (`lakelog compactor run`) do these jobs before
        those that are due by themselves. Writers can go on meanwhile. The jobs are done even if the caller stops
        waiting for them.

        Args:
            full: Compact each bucket as a whole. Else compact what is due; if nothing is, what writers have written
                since: all files of level 0, or in an append table all small files.
            partitions: Only these: dicts of values by partition column, as of `overwrite`; some columns are enough.
            where: Only partitions that fulfil this condition on partition columns.
            wait: Wait until it is done. Else the result has the jobs' ids.
            timeout: How many seconds to wait at most without progress, that is while no job ends and no
                compactor does one; None: 600. A compaction that goes on may take as long as it takes.
            dry_run: Only say what would be done, and why.
            params: Values of the `:name` parameters of `where`.

        Returns:
            What became of each bucket; `.to_arrow()` is a table of it.

        Raises:
            InvalidArgument: An argument is not possible: names it, its value and the remedy.
            NotFound: A named partition has no files, or the table was dropped.
            JobFailed: Jobs have failed (reason `COMPACTION_FAILED`), and all others have ended; names jobs and reasons.
            Unavailable: No compactor works on the jobs (reason `COMPACTION_WAITS`).
        """
        for name, flag in (("full", full), ("wait", wait), ("dry_run", dry_run)):
            check_flag(flag, name)
        timeout_s = check_compaction_timeout(timeout)
        condition = to_condition(where, params)
        info, metastore = self._refresh(), self._context.metastore

        def compact() -> CompactionResult:
            planned = plan_compaction(metastore, info, full=bool(full), partitions=partitions, where=condition)
            if dry_run:
                return planned.result
            requested = request_compaction(metastore, planned)
            if not wait:
                return requested.result
            return wait_for_compactions(metastore, [requested], timeout_s=timeout_s, clock=self._context.clock)[0]

        found: CompactionResult = self._request(compact)
        return found

    def expire_snapshots(
        self,
        older_than: TimeLike | None = None,
        retain_last: int | None = None,
        dry_run: bool = False,
    ) -> ExpiryResult:
        """Expires snapshots that are not needed now; compactors also do this by themselves, by the table's options.

        An expired snapshot can no longer be read, and compactors delete the files that no other snapshot has. A
        snapshot that a consumer, a reader with a lease or a pending changelog needs stays, with all later ones. A
        snapshot with a tag stays by itself (docs/retention.md).

        Args:
            older_than: A snapshot expires if it was replaced by this time (given as `timestamp` of `scan`); None: as
                `snapshot.time-retained` and `snapshot.num-retained.max` say.
            retain_last: Retain this many of the newest snapshots, however old; None: as `snapshot.num-retained.min`
                says.
            dry_run: Only report what would expire.

        Returns:
            What expired, and what retains the rest; `.to_arrow()` is a table of it.

        Raises:
            InvalidArgument: An argument is not possible: names it, its value and the remedy.
            NotFound: The table was dropped.
        """
        return self._request(
            lambda: expire_snapshots(
                self._context.metastore, self._info, older_than=older_than, retain_last=retain_last, dry_run=dry_run
            )
        )

    def snapshots(self, limit: int | None = None) -> pa.Table:
        """Lists the retained snapshots, oldest first.

        Args:
            limit: Only this many of the newest; None: all.

        Returns:
            Columns id, kind, committed_at (UTC), watermark (milliseconds since the epoch), schema_id, rows (in live
            files, including rows that merging hides), added_rows, writer, identifier, properties, log_offsets (the next
            offset to read after it in the external log, by partition; compactions and overwrites add nothing to the
            log and have the offsets of the snapshot before. NULL: not published yet, or no log at that time).
        """
        check_limit(limit)
        metastore = self._context.metastore

        def request() -> pa.Table:
            found = list_snapshots(metastore, self.uuid, limit)
            return to_snapshots_table(found, list_log_offsets(metastore, self.uuid, found))

        return self._request(request)

    def system_table(self, name: str) -> SystemTable:
        """Returns one of its system tables, for instance `files`, `buckets` or `audit_log`.

        See docs/system-tables.md for all of them. `Catalog.system_table` takes the full name.

        Raises:
            NotFound: There is no such system table; names the nearest ones.
        """
        check_text(name, "name", "files")
        declaration = find_of_table(self.name, name.removeprefix(MARK))
        return SystemTable(self._context, SystemName(declaration, self._info.name), self._refresh)

    def files(self, snapshot_id: int | None = None) -> pa.Table:
        """Lists the files that are live at a snapshot.

        Args:
            snapshot_id: None: the newest.

        Returns:
            Columns path, partition (a struct of the partition columns), bucket, level, rows, bytes, min_key, max_key
            (as text, cut if long), added_snapshot; ordered by partition, bucket and order.
        """
        at = resolve_state(snapshot_id)
        plan = self._request(lambda: self._context.metastore.plan(PlanRequest(self.uuid, at)))
        return to_files_table(plan)
