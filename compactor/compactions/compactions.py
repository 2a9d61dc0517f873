"""The job executor that compacts buckets (semantics 6): reads return the same rows, and cost less.

      live files -> plan -> attempt -> rewrite tasks -> committed in groups: those whose inputs are still live

Why each step may be repeated, and what a crash leaves:

1. An attempt is opened under the job's name. The next holder of the job aborts it, and deletes its files.
2. Files are written; no reader sees them.
3. They are committed, fenced by the job's epoch. A group whose inputs were replaced meanwhile is dropped with a reason,
   and its files are deleted: the attempt is committed by then, so no other commit can ever take them.
4. `lakelog.writes.attempt` says when files are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.byte_sizes import format_size
from lakelog.client.metastore.metastore import Metastore
from lakelog.clock import Clock
from lakelog.errors import FILE_MISSING, DataCorrupted, InvalidArgument
from lakelog.format.commit.request import BucketRef, Change, ChangeResult, DroppedGroup, split_group_files
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.jobs.job import HAS_WAITED, STRATEGY, Job, parse_bucket_scope
from lakelog.serving.logging_setup import Logger
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.objects.stores import Stores
from lakelog.writes.attempt import CommitAttempt

from ..executor import Control, FileJobExecutor
from ..job_commits import commit_for_job
from ..metrics import Metrics
from .bucket_work import BucketWork, RewrittenTask, Strategy, count_new_bytes, to_work_change
from .changelog_emission import plan_next
from .rewriting import LocalRewriter, Rewriter

_ROUNDS: Final = 5
"""Plans that one job makes, each on the result of the one before: other commits may have come between, and a compaction
may make more due. Work that is still due then becomes due again with the next commit."""


@dataclass
class _Done:
    """What a job has done so far."""

    rewritten: int = 0
    written: int = 0
    moved: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    dropped: int = 0
    commits: int = 0

    def describe(self, reason: str) -> str:
        if not self.commits:
            return reason
        parts = []
        if self.rewritten:
            parts.append(
                f"rewrote {self.rewritten} {_files(self.rewritten)} ({format_size(self.read_bytes)}) "
                f"into {self.written} ({format_size(self.written_bytes)})"
            )
        if self.moved:
            parts.append(f"moved {self.moved} {_files(self.moved)} to another level")
        if self.dropped:
            parts.append(f"dropped {self.dropped} {'part' if self.dropped == 1 else 'parts'} that others came before")
        return ", ".join(parts)


def _files(count: int) -> str:
    return "file" if count == 1 else "files"


class CompactionJobExecutor(FileJobExecutor):
    """Implements `JobExecutor` for jobs of the kind `compact`, each of one bucket.

    Args:
        clock: Measures for how long work is not committed.
        rewriter: Where files are rewritten; None: in this process.
    """

    def __init__(
        self,
        metastore: Metastore,
        stores: Stores,
        clock: Clock,
        metrics: Metrics,
        log: Logger,
        rewriter: Rewriter | None = None,
    ) -> None:
        super().__init__(metastore, stores, metrics, log)
        self._rewriter = rewriter or LocalRewriter(clock)

    def do(self, job: Job, control: Control) -> str:
        """Compacts the bucket, again while more is due, a few times at most."""
        partition, number = parse_bucket_scope(job.scope)
        bucket, strategy = BucketRef(partition, number), _read_strategy(job)
        info = self._metastore.get_table_by_uuid(job.table_uuid)
        done, reason, missing = _Done(), "", ""
        for number in range(_ROUNDS):
            if control.is_stopping:
                break
            control.check()
            # The files that are left then are new, and wait for others.
            has_waited = HAS_WAITED in job.payload and number == 0
            found = plan_next(self._metastore, info, bucket, strategy, job.payload, has_waited=has_waited)
            if isinstance(found, NoPlan):
                reason = found.reason
                break
            dropped = done.dropped
            try:
                self._do_work(job, found, control, done)
            except DataCorrupted as error:
                # The file was replaced since the plan, and expired; otherwise it is still missing the next time.
                if error.reason != FILE_MISSING or error.message == missing or number == _ROUNDS - 1:
                    raise
                missing = error.message
                continue
            if strategy is not Strategy.DUE and done.dropped == dropped:
                # The request is done: files that came meanwhile were not there when it was made.
                break
        return done.describe(reason)

    def _do_work(self, job: Job, work: BucketWork, control: Control, done: _Done) -> None:
        log = self._log.bind(job_id=job.job_id, table=str(work.info.name), bucket=work.bucket.bucket)
        log.debug(
            "compacting", rewrite_tasks=len(work.rewrite_tasks), moved=len(work.moved), level=work.level, why=work.why
        )
        if work.run_count:
            self._metrics.sorted_runs.observe(work.run_count)
        rewrite_tasks, moved = list(work.rewrite_tasks), work.moved
        while (rewrite_tasks or moved) and not control.is_stopping:
            with CommitAttempt(self._metastore, job.lease) as attempt:
                store = attempt.add_store(self._stores.open(attempt.join(job.table_uuid).location))
                finished = self._rewriter.rewrite_some(store, work.info, attempt.attempt_id, rewrite_tasks, control)
                control.check()
                if not finished and not moved:
                    return
                change = to_work_change(work, finished, moved)
                done.commits += 1
                result = commit_for_job(attempt, job, change, done.commits)
                self._account(attempt, store, change, finished, result, done, log, work.moved_new_bytes if moved else 0)
                self._rewriter.delete_orphans(attempt, _find_paths(change, result.dropped))
                moved = ()

    def _account(
        self,
        attempt: CommitAttempt,
        store: ObjectStore,
        change: Change,
        finished: Sequence[RewrittenTask],
        result: ChangeResult,
        done: _Done,
        log: Logger,
        moved_new_bytes: int,
    ) -> None:
        files = split_group_files(change)
        for each in result.dropped:
            log.info("dropped", reason=each.reason, message=each.message)
            attempt.delete_dropped(store, [file.path for file in files[each.group]])
        lost = {each.group for each in result.dropped}
        kept = [each for number, each in enumerate(finished) if number not in lost]
        moved = sum(len(group.moves) for number, group in enumerate(change.groups) if number not in lost)
        read_bytes = sum(each.rewrite_task.size_bytes for each in kept)
        written_bytes = sum(file.size_bytes for each in kept for file in each.files)
        done.rewritten += sum(len(each.rewrite_task.inputs) for each in kept)
        done.written += sum(len(each.files) for each in kept)
        done.moved += moved
        done.read_bytes += read_bytes
        done.written_bytes += written_bytes
        done.dropped += len(lost)
        new_bytes = sum(count_new_bytes(each.rewrite_task.inputs) for each in kept) + moved_new_bytes
        self._metrics.count_compaction(read_bytes, new_bytes, written_bytes)
        self._metrics.moved_files.inc(moved)
        for each in result.dropped:
            self._metrics.dropped.labels(each.reason).inc()
        if result.snapshot_id is not None:
            log.info(
                "compacted",
                snapshot=result.snapshot_id,
                rewritten_files=sum(len(each.rewrite_task.inputs) for each in kept),
                written_files=sum(len(each.files) for each in kept),
                moved_files=moved,
                read_bytes=read_bytes,
                written_bytes=written_bytes,
            )


def _find_paths(change: Change, dropped: Sequence[DroppedGroup]) -> set[str]:
    """The files that a commit has added."""
    files = split_group_files(change)
    lost = {file.path for each in dropped for file in files[each.group]}
    return {file.path for file in (*change.add_files, *change.changelog_files)} - lost


def _read_strategy(job: Job) -> Strategy:
    text = job.payload.get(STRATEGY, Strategy.DUE.value)
    try:
        return Strategy(text)
    except ValueError:
        known = ", ".join(each.value for each in Strategy)
        raise InvalidArgument(
            f"Job {job.job_id} asks for the strategy '{text[:80]}'; this compactor knows {known}. Use a newer one.",
            metadata={"strategy": text[:80]},
        ) from None
