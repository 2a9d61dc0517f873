"""One table's part of a transaction: what is written to it, and the resulting change."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from lakelog.context import Context
from lakelog.format.commit.log_content import plan_log_content
from lakelog.format.commit.request import Change, Removal, RemovePartitions
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.snapshot import LogContent
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.rewrite.commit_merge import CommitMerger, merge_commit_files
from lakelog.storage.write.input_copies import plan_input_copies
from lakelog.storage.write.removed_rows import RemovedRows, RemovedRowsWriter
from lakelog.storage.write.row_normalizer import Kinds, KindSource, RowNormalizer
from lakelog.storage.write.table_writer import TableWriter
from lakelog.writes.change import to_change
from lakelog.writes.changelog.commit_changelog import find_producer
from lakelog.writes.changelog.lookup_changelog import LookupChangelog
from lakelog.writes.commit_metadata import CommitMetadata
from lakelog.writes.commit_options import NO_GUARDS, Guards
from lakelog.writes.log_rows import LogRows, plan_log_rows
from lakelog.writes.uncommitted_sending import SentUncommitted, UncommittedRows, UncommittedSenders


@dataclass
class TableWrite:
    """One table's part of a transaction.

    Args:
        info: The table as it was when it joined.
        options: Its options.
        store: Where its files are.
        row_normalizer: Accepts its rows.
        writer: Writes them, from the first row on.
        files: The finished data files.
        inputs: The finished files with records as they arrived, for the producer `input` or the external log.
        runs: Rows of finished data files that will be looked up and take little memory.
        lookup: The changelog by lookup, for the producer `lookup`, once all rows are written.
        removal: What the commit removes.
        is_dynamic: Whether it removes the partitions of its own rows.
        was_written: Whether something was written to it, perhaps without rows.
        guards: Snapshots since which nothing may have changed.
        uncommitted: Sends its rows before the commit; None: they are not sent.
        has_begun: Whether `uncommitted` was determined.
        sent: States that the rows are in the topic; None: not all are.
        remover: Takes the rows of an append table that are removed by their positions, from the first one on.
        removed_rows: These rows, once all are taken.
    """

    info: TableInfo
    options: TableOptions
    store: ObjectStore
    row_normalizer: RowNormalizer
    writer: TableWriter | None = None
    files: list[DataFile] = field(default_factory=list)
    inputs: list[DataFile] = field(default_factory=list)
    runs: dict[str, pa.Table] = field(default_factory=dict)
    lookup: LookupChangelog | None = None
    removal: Removal | None = None
    is_dynamic: bool = False
    was_written: bool = False
    guards: Guards = NO_GUARDS
    uncommitted: UncommittedRows | None = None
    has_begun: bool = False
    sent: SentUncommitted | None = None
    remover: RemovedRowsWriter | None = None
    removed_rows: RemovedRows | None = None

    @property
    def replaces(self) -> bool:
        """Whether the write is an overwrite."""
        return self.removal is not None or self.is_dynamic or self.remover is not None

    @property
    def producer(self) -> str:
        """How the changelog of the write is made; an overwrite has none (semantics 3.4, 5.2)."""
        return find_producer(self.options, replaces=self.replaces)

    @property
    def log(self) -> LogContent:
        """What the write brings to the table's external log; an overwrite brings nothing (semantics 4.7)."""
        return plan_log_content(self.info, self.options, replaces=self.replaces)

    @property
    def paths(self) -> list[str]:
        """All files written so far."""
        made = list(dict.fromkeys(file.path for file in (*self.files, *self.inputs)))
        made += [] if self.remover is None else self.remover.paths
        return made if self.lookup is None else made + self.lookup.paths

    def take(
        self, batch: pa.RecordBatch | pa.Table, source: KindSource, fill_missing: bool
    ) -> tuple[pa.Table, Kinds | None]:
        """Returns input as rows of the table, with their kinds; see `RowNormalizer.take`.

        Raises:
            InvalidArgument: It does not fit the table, or a row is too large for its external log.
        """
        table, kinds = self.row_normalizer.take(batch, source, fill_missing=fill_missing)
        log_rows = self._log_rows
        if log_rows is not None:
            log_rows.check(table)
        return table, kinds

    def send_uncommitted(
        self, senders: UncommittedSenders, attempt_id: str, age_s: float, table: pa.Table, kinds: Kinds | None
    ) -> None:
        """Sends rows before their commit, if the table's options say so; never fails.

        Args:
            senders: The catalog's senders.
            attempt_id: The attempt.
            age_s: The time since it was opened.
            table: The rows.
            kinds: Their kinds; None: all are inserts.
        """
        if self.log is LogContent.NONE:
            return
        if not self.has_begun:
            self.uncommitted = senders.begin(self.info, attempt_id, age_s)
            self.has_begun = True
        if self.uncommitted is not None:
            self.uncommitted.send(table, kinds)

    def stop_sending(self) -> None:
        """Ends the sending when its attempt is over or left alone; idempotent."""
        if self.uncommitted is not None:
            self.uncommitted.close()

    @cached_property
    def _log_rows(self) -> LogRows | None:
        return plan_log_rows(self.info, self.log)

    def open_writer(self, attempt_id: str) -> TableWriter:
        """Returns the writer of its rows."""
        if self.writer is None:
            self.writer = TableWriter(
                self.store,
                self.info.schema,
                self.options,
                attempt_id,
                name_prefix=f"{len(self.files):05d}-" if self.files else "",
                copies=plan_input_copies(self.options, self.producer, self.log),
                keeps_runs=self.producer == "lookup",
            )
        return self.writer

    def open_remover(self, attempt_id: str) -> RemovedRowsWriter:
        """Returns what takes rows to remove by their positions; new rows can be written beside them."""
        if self.remover is None:
            self.remover = RemovedRowsWriter(self.store, attempt_id)
        self.was_written = True
        return self.remover

    def finish_remover(self) -> None:
        """Makes the positions durable that were taken so far; idempotent."""
        if self.remover is not None:
            self.removed_rows = self.remover.finish()

    def finish(self, context: Context, attempt_id: str) -> None:
        """Makes all written rows durable, merges small files, and prepares the changelog's lookup if there is one."""
        self.finish_remover()
        if self.writer is not None:
            self.files.extend(self.writer.finish())
            self.inputs.extend(self.writer.copies)
            self.runs |= self.writer.runs
            self.writer = None
            self._merge(attempt_id)
        if self.uncommitted is not None:
            self.sent = self.uncommitted.finish()
        if self.producer == "lookup" and self.files:
            self.lookup = LookupChangelog(
                context.metastore,
                self.store,
                self.info,
                attempt_id,
                self.files,
                context.caches,
                context.clock,
                runs=self.runs,
            )

    def _merge(self, attempt_id: str) -> None:
        """Merges small files, if the table is set so."""
        merger = CommitMerger(self.info.schema, self.options, attempt_id)
        files, inputs = merge_commit_files(merger, self.store, self.files, self.inputs)
        self.files, self.inputs = list(files), list(inputs)
        left = {file.path for file in files}
        self.runs = {path: rows for path, rows in self.runs.items() if path in left}

    def to_change(self, commit_metadata: CommitMetadata) -> Change:
        """Returns the change to commit. Pure."""
        removal = self.removal
        if self.is_dynamic:
            removal = RemovePartitions(tuple(sorted({file.partition for file in self.files})))
        return to_change(
            self.info,
            self.files,
            self.inputs,
            removal=removal,
            removed_rows=self.removed_rows,
            lookup=self.lookup,
            sent=self.sent,
            guards=self.guards,
            commit_metadata=commit_metadata,
        )
