"""The job executor that builds deletion vectors: it finds replaced rows once, instead of each read finding them again.

      live files -> sections to be merged -> attempt -> vectors written -> committed section by section

Why each step may be repeated, and what a crash leaves:

1. An attempt is opened under the job's name. The next holder of the job aborts it, and deletes its file.
2. The vectors are written; no entry names them yet.
3. Entries of the files that name their vectors are committed, fenced by the job's epoch, for the sections that are
   still as they were read. A section that was changed meanwhile is dropped with a reason. If no section is left, the
   gate aborts the attempt, and its file is deleted.
4. `lakelog.writes.attempt` says when files are deleted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lakelog.errors import FILE_MISSING, DataCorrupted
from lakelog.format.commit.request import BucketRef, Change, ChangeResult, CompactionGroup
from lakelog.format.compaction.plan import NoPlan
from lakelog.format.jobs.job import Job, parse_bucket_scope
from lakelog.format.tables.plan import Plan
from lakelog.format.tables.snapshot import Snapshot
from lakelog.format.tables.table import TableInfo
from lakelog.options.values import TableOptions
from lakelog.storage.merging.bucket_vectors import BuiltVectors, build_deletion_vectors, pick_sections, split_by_rows
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.parquet.live_file import LiveFile, to_live_files
from lakelog.writes.attempt import CommitAttempt
from lakelog.writes.change import to_compaction_change

from ..executor import Control, FileJobExecutor
from ..job_commits import commit_for_job
from .bucket_work import MAX_GROUPS, Strategy, list_bucket, plan_work


@dataclass
class _Done:
    """What a job has done so far."""

    files: int = 0
    rows: int = 0
    dropped: int = 0
    commits: int = 0

    def describe(self) -> str:
        if not (self.files or self.dropped):
            return ""
        said = f"found {self.rows} superseded rows, which {self.files} files now name"
        if self.dropped:
            said += f", dropped {self.dropped} {'part' if self.dropped == 1 else 'parts'} that others came before"
        return said


class DeletionVectorJobExecutor(FileJobExecutor):
    """Implements `JobExecutor` for jobs of the kind `deletion-vectors`, each of one bucket."""

    def do(self, job: Job, control: Control) -> str:
        """Builds the vectors for all that a read of the bucket would merge, unless a compaction is due."""
        done = _Done()
        try:
            return self._build_all(job, control, done)
        except DataCorrupted as error:
            if error.reason != FILE_MISSING:
                raise
        # The file was replaced since the plan, and expired; otherwise it is still missing.
        return self._build_all(job, control, done)

    def _build_all(self, job: Job, control: Control, done: _Done) -> str:
        bucket = BucketRef(*parse_bucket_scope(job.scope))
        plan = list_bucket(self._metastore, self._metastore.get_table_by_uuid(job.table_uuid), bucket, {})
        info = plan.table
        if not info.schema.primary_key:
            return ""
        if not isinstance(plan_work(plan, bucket, Strategy.DUE), NoPlan):
            return "nothing: a compaction of the bucket is due"
        policy = to_merge_policy(info.schema, TableOptions(info.options))
        sections = pick_sections(to_live_files(plan.files), policy)
        for together in split_by_rows(sections, MAX_GROUPS):
            control.check()
            if control.is_stopping:
                break
            self._build(job, plan, bucket, together, control, done)
        return done.describe()

    def _build(
        self,
        job: Job,
        plan: Plan,
        bucket: BucketRef,
        sections: Sequence[Sequence[LiveFile]],
        control: Control,
        done: _Done,
    ) -> None:
        info, snapshot = plan.table, plan.snapshot
        assert snapshot is not None, "it has files"
        with CommitAttempt(self._metastore, job.lease) as attempt:
            store = attempt.add_store(self._stores.open(attempt.join(job.table_uuid).location))
            path = f"data/{attempt.attempt_id}/deletion-vectors-{bucket.bucket}.parquet"
            vectors = build_deletion_vectors(
                store, info.schema, TableOptions(info.options), path, sections, control.check
            )
            control.check()
            done.commits += 1
            change = to_deletion_vector_change(info, snapshot, bucket, vectors)
            result = commit_for_job(attempt, job, change, done.commits)
            if result.snapshot_id is None:
                attempt.delete_unnamed(())
        self._account(job, info, vectors, result, done)

    def _account(self, job: Job, info: TableInfo, vectors: BuiltVectors, result: ChangeResult, done: _Done) -> None:
        log = self._log.bind(job_id=job.job_id, table=str(info.name))
        lost = {each.group for each in result.dropped}
        for each in result.dropped:
            log.info("dropped", reason=each.reason, message=each.message)
            self._metrics.dropped.labels(each.reason).inc()
        kept = [section for number, section in enumerate(vectors.sections) if number not in lost]
        files = sum(len(section.vector_files) for section in kept)
        self._metrics.vector_files.inc(files)
        if result.snapshot_id is not None:
            log.info("deletion vectors built", snapshot=result.snapshot_id, files=files)
        done.files += files
        done.rows += sum(section.deleted_count for section in kept)
        done.dropped += len(lost)


def to_deletion_vector_change(
    info: TableInfo, planned_at: Snapshot, bucket: BucketRef, vectors: BuiltVectors
) -> Change:
    """The change that commits deletion vectors: a group for each section. Pure."""
    groups = []
    for section in vectors.sections:
        vector_files = tuple(file.file_id for file in section.vector_files)
        rest = tuple(file.file_id for file in section.files if file.file_id not in vector_files)
        groups.append(
            CompactionGroup(
                bucket, vector_files=vector_files, deletion_vector_path=vectors.path_of(section), covered_files=rest
            )
        )
    return to_compaction_change(info, planned_at, groups)
