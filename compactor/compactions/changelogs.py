"""The job executor that attaches changelogs to snapshots that were committed without them (semantics 3.5).

      lowest pending snapshots -> attempt -> old rows looked up, files written -> attached in one transaction -> the
      next

Why each step may be repeated, and what a crash leaves:

1. An attempt is opened under the job's name. The next holder of the job aborts it, and deletes its files.
2. Files are written; no reader sees them.
3. They are attached in the metastore, fenced by the job's epoch; a repetition gets the first answer again.
   `lakelog.writes.attempt` says when files are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import InvalidArgument
from lakelog.format.commit.attachment import AttachRequest
from lakelog.format.jobs.job import Job
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.serving.logging_setup import Logger
from lakelog.storage.lookup.caches import Caches
from lakelog.storage.objects.stores import Stores
from lakelog.writes.attempt import CommitAttempt
from lakelog.writes.changelog.late_changelog import MAX_TOGETHER, LateChangelogs, make_late_changelogs

from ..executor import Control, FileJobExecutor
from ..metrics import Metrics

_TURN_S: Final = 10.0
"""A job that is still due after this time is given back, so that a table with constant writes does not keep other
tables waiting."""


@dataclass
class _Done:
    """What a turn has done so far."""

    snapshots: int = 0
    rows: int = 0
    first: int = 0
    last: int = 0

    def describe(self) -> str:
        if not self.snapshots:
            return ""
        which = f"snapshot {self.first}" if self.first == self.last else f"snapshots {self.first} to {self.last}"
        return f"attached the changelogs of {which} ({self.rows} {'row' if self.rows == 1 else 'rows'})"


class ChangelogJobExecutor(FileJobExecutor):
    """Implements `JobExecutor` for jobs of the kind `changelog`.

    Args:
        caches: Caches for old rows.
        clock: Measures how long a turn takes.
    """

    def __init__(
        self, metastore: Metastore, stores: Stores, caches: Caches, clock: Clock, metrics: Metrics, log: Logger
    ) -> None:
        super().__init__(metastore, stores, metrics, log)
        self._caches = caches
        self._clock = clock

    def do(self, job: Job, control: Control) -> str:
        """Attaches changelogs in order until none is pending, or the turn is over."""
        done = _Done()
        began_s = self._clock.monotonic_s()
        page = self._metastore.list_snapshots(job.table_uuid, limit=1)
        first_pending = page.first_pending_snapshot_id
        while first_pending and not control.is_stopping:
            control.check()
            page = self._metastore.list_snapshots(job.table_uuid, after=first_pending - 1, limit=2 * MAX_TOGETHER)
            first_pending = self._attach_next(job, page.snapshots, control, done)
            if self._clock.monotonic_s() - began_s > _TURN_S:
                break
        return done.describe()

    def _attach_next(self, job: Job, snapshots: Sequence[Snapshot], control: Control, done: _Done) -> int:
        """Attaches to the lowest pending snapshots that go together; returns the lowest one that is pending then."""
        with CommitAttempt(self._metastore, job.lease) as attempt:
            info = attempt.join(job.table_uuid)
            store = attempt.add_store(self._stores.open(info.location))
            _check_key(info)
            made = make_late_changelogs(self._metastore, store, info, attempt.attempt_id, snapshots, self._caches)
            control.check()
            first_pending = self._attach(job, info, attempt, made)
        ids = [each.snapshot_id for each in made.changelogs]
        self._metrics.snapshots.inc(len(ids))
        self._metrics.rows.inc(made.rows)
        self._metrics.size_bytes.inc(sum(file.size_bytes for file in made.files))
        self._measure_delay(snapshots, made)
        self._log.info("changelogs attached", table=str(info.name), first=ids[0], last=ids[-1], rows=made.rows)
        done.snapshots += len(ids)
        done.rows += made.rows
        done.first, done.last = done.first or ids[0], ids[-1]
        return first_pending

    def _measure_delay(self, snapshots: Sequence[Snapshot], made: LateChangelogs) -> None:
        attached = {each.snapshot_id for each in made.changelogs}
        now_ms = self._clock.now_ms()
        for snapshot in snapshots:
            if snapshot.snapshot_id in attached:
                self._metrics.changelog_delay.observe(max(0, now_ms - snapshot.committed_at_ms) / 1000)

    def _attach(self, job: Job, info: TableInfo, attempt: CommitAttempt, made: LateChangelogs) -> int:
        request = AttachRequest(
            table_uuid=info.table_uuid,
            schema_id=made.schema_id,
            bucket_count=TableOptions(info.options).bucket_count(True),
            attempt_id=attempt.attempt_id,
            job_id=job.job_id,
            epoch=job.epoch,
            changelogs=made.changelogs,
        )
        return attempt.send(lambda: self._metastore.attach_changelogs(request)).first_pending_snapshot


def _check_key(info: TableInfo) -> None:
    if not info.schema.primary_key:
        raise InvalidArgument(
            f"{info.name} has a snapshot with a pending changelog, but no primary key by which changes could be "
            "emitted: its writer was wrong. Commit without a changelog to such tables.",
            metadata={"table": str(info.name)},
        )
