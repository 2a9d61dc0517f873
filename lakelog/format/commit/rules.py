"""The rules of the commit gate, pure: facts go in, a verdict comes out.

Objectives, which conflict: an append never conflicts and costs little; a repeated request gets the first result,
however late; a commit whose assumption no longer holds is refused, and the error says which writer changed it.

Invariants:

1. A commit is identified by (table, writer, identifier) and applied once (semantics 7.1).
2. Snapshot ids are `latest + 1`; `committed_at` and the watermark never fall (semantics 7.4).
3. Files enter only through an open attempt, and lie in that attempt's folder.
4. A file's place in the order is (snapshot, ordinal); the output of a compaction takes the place of its inputs.
5. A compaction is refused for errors in its request, its writer or its attempt; changes by others only drop groups of
   it (`rebase.py`).

All of it runs while the table's head is locked; nothing in here reads a clock or does I/O.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from typing import Final

from lakelog.errors import INVALID_PATH, CommitConflict, Fenced, HistoryDiverged, InvalidArgument, NotFound
from lakelog.format.commit.epochs import EPOCH_UNKNOWN, explain_unknown
from lakelog.format.commit.facts import (
    Attempt,
    AttemptState,
    BucketChange,
    CommitFacts,
    FileFacts,
    TableHead,
    WriterFacts,
)
from lakelog.format.commit.guards import check_guards, check_history, name_snapshot, table_gone, to_metadata
from lakelog.format.commit.log_content import check_log
from lakelog.format.commit.request import Change, ChangeResult, CommitRequest, RemoveFiles, brings_files
from lakelog.format.commit.totals import check_added
from lakelog.format.tables.paths import PATH_RULE, is_path
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.types.evolution import find_mismatches
from lakelog.format.types.schema import TableSchema

MAX_LISTED: Final = 5
"""How many files or buckets a message lists; the rest is counted."""

_MAX_LINES: Final = 50
"""Columns of a difference between schemas that a message lists."""

TIME_PASSED: Final = "TIME_PASSED"
"""The reason of a conflict over the commit time of a change; `time_ms` in its metadata is the time it would get."""


class Verdict(enum.Enum):
    """What to do with a request that is not refused."""

    APPLY = "apply"
    ALREADY_APPLIED = "already applied"


def check_commit(request: CommitRequest, facts: CommitFacts) -> Verdict:
    """Decides about a commit. Pure.

    The order of the checks is part of the contract: a caller that repeats an applied commit gets its result even if it
    has been fenced meanwhile, its table was altered or its attempt aborted.

    Raises:
        NotFound: A table does not exist (any more), or the attempt was never opened.
        Fenced: The writer or a lease has another epoch.
        HistoryDiverged: The caller knows a later snapshot than exists, or its base is another one by now.
        CommitConflict: An assumption of the request no longer holds; `metadata["retry"]` says whether to plan again.
        InvalidArgument: The request does not fit the table.
        ResourceExhausted: The table would become too large.
    """
    missing = [change.table_uuid for change in request.changes if change.table_uuid not in facts.heads]
    if missing:
        raise table_gone(missing[0])
    if _is_applied(request, facts):
        return Verdict.ALREADY_APPLIED
    _check_writer_epoch(request, facts.writer_epoch)
    _check_fences(request, facts.lease_epochs or {})
    _check_attempt(request, facts.attempt)
    check_guards(request, facts)
    time_ms = find_commit_time(request, facts.heads, facts.now_ms)
    for change in request.changes:
        head = facts.heads[change.table_uuid]
        _check_window(change, head, time_ms)
        _check_previous(request, head, facts.writers.get(change.table_uuid, WriterFacts()))
        check_compatible(change, head, request.attempt_id, (facts.schemas or {}).get(change.table_uuid))
        check_log(change, head)
        _check_base(change, head, (facts.changes or {}).get(change.table_uuid, ()))
        uuid = (facts.bases or {}).get(change.table_uuid, "")
        check_history(head, change.base_snapshot_id or 0, change.base_snapshot_uuid, uuid)
        _check_files(change, head, (facts.files or {}).get(change.table_uuid, ()))
        if change.remove is None and change.kind is not SnapshotKind.COMPACT:
            check_added(head, change.add_files)
    return Verdict.APPLY


def find_commit_time(request: CommitRequest, heads: Mapping[str, TableHead], now_ms: int) -> int:
    """Returns when a commit takes effect, in milliseconds, never before the previous one. Pure.

    All its tables get one time, so a time in between never splits what was committed together.
    """
    return max(now_ms, *(heads[change.table_uuid].committed_at_ms for change in request.changes))


def applied_results(request: CommitRequest, facts: CommitFacts) -> tuple[str, tuple[ChangeResult, ...]]:
    """The winning attempt and the stored results of a commit that is already applied, in the request's order."""
    recorded = [facts.writers[change.table_uuid].result for change in request.changes]
    results = tuple(
        ChangeResult(change.table_uuid, found.snapshot_id, found.snapshot_uuid, found.committed_at_ms, found.dropped)
        for change, found in zip(request.changes, recorded, strict=True)
        if found is not None
    )
    winner = next((found.attempt_id for found in recorded if found is not None and found.attempt_id), "")
    return winner, results


def check_compatible(
    change: Change,
    head: TableHead,
    attempt_id: str,
    schemas: Mapping[int, TableSchema] | None = None,
    *,
    takes_earlier: bool = False,
) -> None:
    """Checks that a change fits its table in its current state. Pure.

    Args:
        change: The change.
        head: The table's head.
        attempt_id: The attempt whose folder has its files.
        schemas: If its schema is older than the head's: both, by id. Without them it does not fit.
        takes_earlier: Any earlier schema fits: the files belong to snapshots that have it.

    Raises:
        CommitConflict: The bucket count has changed, or the schema in a way that its rows do not fit.
        InvalidArgument: A file is outside the attempt's folder or the table's buckets and partitions.
    """
    # Each file names the schema to read it with, and rows that are only rewritten lose nothing by an earlier one. A
    # compaction whose buckets are gone is dropped group by group.
    compacts = change.kind is SnapshotKind.COMPACT
    is_earlier = change.schema_id < head.schema_id and not (compacts or takes_earlier)
    if change.schema_id > head.schema_id or is_earlier:
        _check_schema(change, head, schemas or {})
    if change.bucket_count != head.bucket_count and not compacts:
        raise CommitConflict(
            f"The files for {head.name} were written for {change.bucket_count} buckets, but the table has "
            f"{head.bucket_count}. Load the table again and write the data anew.",
            reason="BUCKET_COUNT_CHANGED",
            metadata={"table": head.name, "bucket_count": str(head.bucket_count), "retry": "never"},
        )
    last_bucket = max(change.bucket_count, 1) - 1
    prefix = f"data/{attempt_id}/"
    for file in (*change.add_files, *change.changelog_files, *change.log_files):
        if not (file.path.startswith(prefix) and is_path(file.path)):
            raise _misplaced_path(file.path, prefix)
        if not 0 <= file.bucket <= last_bucket:
            raise InvalidArgument(
                f"File '{file.path}' is for bucket {file.bucket}, but {head.name} has buckets 0 to {last_bucket}. "
                "Compute buckets with the table's 'bucket' option.",
                reason="BUCKET_OUT_OF_RANGE",
                metadata={"field": "bucket", "value": str(file.bucket)},
            )
        if bool(file.partition) is not head.partitioned:
            raise InvalidArgument(
                f"File '{file.path}' has {'a' if file.partition else 'no'} partition, but {head.name} is "
                f"{'partitioned' if head.partitioned else 'not partitioned'}. Encode exactly the table's partition "
                "columns.",
                reason="PARTITION_MISMATCH",
                metadata={"field": "partition", "value": file.partition.hex()},
            )
        if file.schema_id != change.schema_id:
            raise InvalidArgument(
                f"File '{file.path}' was written with schema {file.schema_id}, but its commit says "
                f"{change.schema_id}. A commit's files must all have the schema that the change names.",
                reason="SCHEMA_MISMATCH",
                metadata={"field": "schema_id", "value": str(file.schema_id)},
            )
    # Files of a bucket name the same one.
    named = (file.deletion_vector_path for file in change.add_files)
    vector_files = (group.deletion_vector_path for group in change.groups)
    for path in {path for path in (*named, *vector_files) if path}:
        if not (path.startswith(prefix) and is_path(path)):
            raise _misplaced_path(path, prefix)


def _check_schema(change: Change, head: TableHead, schemas: Mapping[int, TableSchema]) -> None:
    """Raises CommitConflict unless rows of an earlier schema fit the table as it is now."""
    written, newest = schemas.get(change.schema_id), schemas.get(head.schema_id)
    if change.schema_id > head.schema_id or written is None or newest is None:
        difference = ""
    else:
        mismatches = find_mismatches(written, newest)
        if not mismatches and change.sent_offsets is not None:
            # Its records are in the log with the columns of then, and cannot become those of this snapshot.
            mismatches = ["the log: has rows of this write already, with the columns of then"]
        if not mismatches:
            return
        difference = f":\n{_listed_lines(mismatches)}\n"
    raise CommitConflict(
        f"The files for {head.name} were written with schema {change.schema_id}, but the table has schema "
        f"{head.schema_id} by now{difference or '. '}Load the table again and write the data anew.",
        reason="SCHEMA_CHANGED",
        metadata={"table": head.name, "schema_id": str(head.schema_id), "retry": "never"},
    )


def _listed_lines(lines: Sequence[str]) -> str:
    shown = [f"  {line}" for line in lines[:_MAX_LINES]]
    more = len(lines) - _MAX_LINES
    return "\n".join([*shown, f"  and {more} more columns"] if more > 0 else shown)


def _misplaced_path(path: str, prefix: str) -> InvalidArgument:
    return InvalidArgument(
        f"The path '{path[:300]}' is not allowed: a commit's files lie in the folder of its attempt, here '{prefix}'. "
        f"{PATH_RULE}.",
        reason=INVALID_PATH,
        metadata={"field": "path", "value": path[:300]},
    )


def _is_applied(request: CommitRequest, facts: CommitFacts) -> bool:
    applied = [
        change.table_uuid
        for change in request.changes
        if facts.writers.get(change.table_uuid, WriterFacts()).result is not None
    ]
    if applied and len(applied) < len(request.changes):
        names = ", ".join(facts.heads[uuid].name for uuid in applied)
        raise CommitConflict(
            f"Writer '{request.writer}' has committed identifier {request.identifier} to {names} before, but not to "
            "the other tables of this request. A commit is all or nothing: use an identifier that is new for all of "
            "them.",
            reason="PARTLY_APPLIED",
            metadata={"writer": request.writer, "identifier": str(request.identifier), "retry": "never"},
        )
    return bool(applied)


def _check_writer_epoch(request: CommitRequest, epoch: int) -> None:
    metadata = {"writer": request.writer, "epoch": str(request.epoch), "current_epoch": str(epoch)}
    if request.epoch < epoch:
        raise Fenced(
            f"Writer '{request.writer}' commits with epoch {request.epoch}, but a newer instance took the name over "
            f"and has epoch {epoch}. Stop this instance; or take the name with register_writer, and see where the "
            "writer is (last_identifier) before going on.",
            reason="WRITER_FENCED",
            metadata=metadata,
        )
    if request.epoch > epoch:
        raise Fenced(
            f"Writer '{request.writer}' may not commit: {explain_unknown(request.epoch, epoch)}. Read the writer's "
            "progress (last_identifier), and take its name again with register_writer before going on.",
            reason=EPOCH_UNKNOWN,
            metadata=metadata,
        )


def _check_fences(request: CommitRequest, epochs: Mapping[str, int]) -> None:
    for fence in request.fences:
        current = epochs.get(fence.lease, 0)
        metadata = {"lease": fence.lease, "epoch": str(fence.epoch), "current_epoch": str(current)}
        if fence.epoch < current:
            raise Fenced(
                f"The commit of '{request.writer}' depends on lease '{fence.lease}' with epoch {fence.epoch}, but "
                f"another took it and it has epoch {current}. Stop this work; whoever holds the lease now does it.",
                reason="LEASE_FENCED",
                metadata=metadata,
            )
        if fence.epoch > current:
            raise Fenced(
                f"The commit of '{request.writer}' depends on lease '{fence.lease}', but "
                f"{explain_unknown(fence.epoch, current)}. Acquire the lease again.",
                reason=EPOCH_UNKNOWN,
                metadata=metadata,
            )


def _check_attempt(request: CommitRequest, attempt: Attempt | None) -> None:
    if not request.attempt_id:
        if any(brings_files(change) for change in request.changes):
            raise InvalidArgument(
                f"The commit of '{request.writer}' adds files but names no attempt. Open one with stage_attempt, "
                "write the files into its folder, and commit with its id.",
                reason="ATTEMPT_MISSING",
                metadata={"field": "attempt_id", "value": ""},
            )
        return
    metadata = {"attempt_id": request.attempt_id, "writer": request.writer}
    if attempt is None:
        raise NotFound(
            f"Attempt {request.attempt_id} is not known: it was never opened here, is too old, or the database has "
            "lost it. Write the rows again: that opens another one (by requests of your own, stage_attempt does).",
            reason="ATTEMPT_NOT_FOUND",
            metadata=metadata,
        )
    if attempt.state is AttemptState.ABORTED:
        raise CommitConflict(
            f"Attempt {request.attempt_id} of '{request.writer}' was given up, so its files may be deleted already. "
            "Open a new attempt and write the files again.",
            reason="ATTEMPT_DOOMED",
            metadata={**metadata, "retry": "replan"},
        )
    if attempt.state is AttemptState.COMMITTED:
        raise CommitConflict(
            f"Attempt {request.attempt_id} was committed before, under another identifier or for other tables. Its "
            "files are in use; open a new attempt for each commit.",
            reason="ATTEMPT_COMMITTED",
            metadata={**metadata, "retry": "never"},
        )
    for change in request.changes:
        if brings_files(change) and change.table_uuid not in attempt.table_uuids:
            raise InvalidArgument(
                f"Attempt {request.attempt_id} was not opened for table {change.table_uuid}. Name all tables that get "
                "files when opening the attempt.",
                reason="ATTEMPT_TABLES",
                metadata={**metadata, "table_uuid": change.table_uuid},
            )


def _check_window(change: Change, head: TableHead, time_ms: int) -> None:
    if change.window.holds(time_ms):
        return
    raise CommitConflict(
        f"The change of {head.name} was computed for a commit at another time: meanwhile a delete has stopped beating "
        "late rows ('sequence.delete-retention'), or does so still. Compute it again for the time now, and commit "
        "at once.",
        reason=TIME_PASSED,
        metadata={"table": head.name, "time_ms": str(time_ms), "retry": "replan"},
    )


def _check_previous(request: CommitRequest, head: TableHead, facts: WriterFacts) -> None:
    if request.previous_identifier is None:
        return
    last = -1 if facts.last_identifier is None else facts.last_identifier
    if last == request.previous_identifier:
        return
    said = "nothing" if facts.last_identifier is None else f"identifier {last}"
    raise CommitConflict(
        f"Writer '{request.writer}' has last committed {said} to {head.name}, but this commit ({request.identifier}) "
        f"is meant to follow {request.previous_identifier}: commits are missing, or were done under other numbers. "
        f"Ask catalog.last_identifier({request.writer[:80]!r}, {head.name!r}) and go on behind that.",
        reason="IDENTIFIER_GAP",
        metadata={
            "table": head.name,
            "writer": request.writer,
            "identifier": str(request.identifier),
            "previous_identifier": str(request.previous_identifier),
            "last_identifier": "" if facts.last_identifier is None else str(last),
            "retry": "never",
        },
    )


def _check_base(change: Change, head: TableHead, changes: Sequence[BucketChange]) -> None:
    base = change.base_snapshot_id
    if base is None:
        return
    if base > head.latest_snapshot_id:
        raise HistoryDiverged(
            f"The change of {head.name} was made against snapshot {base}, but the newest one is "
            f"{head.latest_snapshot_id}: the metastore was restored to an earlier state, or the number is of another "
            "table.",
            reason="SNAPSHOT_UNKNOWN",
            metadata={"table": head.name, "snapshot_id": str(base), "latest": str(head.latest_snapshot_id)},
        )
    if not change.unchanged_buckets:
        return
    # What the earliest snapshot itself removed is no longer known, unless it is the first of all.
    if 1 < head.earliest_snapshot_id > base:
        raise CommitConflict(
            f"The change of {head.name} assumes that buckets are as they were at snapshot {base}, but what happened "
            f"since is only known from snapshot {head.earliest_snapshot_id} on. Plan anew on the newest snapshot.",
            reason="BASE_EXPIRED",
            metadata={"table": head.name, "snapshot_id": str(base), "retry": "replan"},
        )
    if changes:
        newest = max(changes, key=lambda found: found.snapshot_id)
        buckets = sorted({found.bucket.bucket for found in changes})
        raise CommitConflict(
            f"The change of {head.name} assumes that its buckets are as they were at snapshot {base}, but "
            f"'{newest.writer}' changed or compacted bucket{'s' if len(buckets) > 1 else ''} {_listed(buckets)} with "
            f"{name_snapshot(newest)}. Look the old rows up again on the newest snapshot and commit again.",
            reason="BUCKET_CHANGED",
            metadata={
                "table": head.name,
                **to_metadata(newest),
                "buckets": ",".join(map(str, buckets[:100])),
                "retry": "replan",
            },
        )


def _check_files(change: Change, head: TableHead, files: Sequence[FileFacts]) -> None:
    if not isinstance(change.remove, RemoveFiles):
        return
    known = {file.file_id: file for file in files}
    unknown = [file_id for file_id in change.remove.file_ids if file_id not in known]
    if unknown:
        raise CommitConflict(
            f"The change of {head.name} removes files that the table does not have: {_listed(unknown)}. They expired, "
            "or are of another table. Plan anew on the newest snapshot.",
            reason="FILES_NOT_LIVE",
            metadata={"table": head.name, "file_ids": ",".join(map(str, unknown[:100])), "retry": "replan"},
        )
    gone = [known[file_id] for file_id in change.remove.file_ids if known[file_id].removed_snapshot is not None]
    if gone:
        first = gone[0]
        raise CommitConflict(
            f"The change of {head.name} removes files that are not live any more: {_listed([f.path for f in gone])}; "
            f"'{first.removed_by}' removed '{first.path}' with snapshot {first.removed_snapshot}. Plan anew on the "
            "newest snapshot; nothing of this commit was applied.",
            reason="FILES_NOT_LIVE",
            metadata={
                "table": head.name,
                "other_writer": first.removed_by,
                "snapshot_id": str(first.removed_snapshot),
                "file_ids": ",".join(str(f.file_id) for f in gone[:100]),
                "retry": "replan",
            },
        )


def _listed(values: Sequence[object]) -> str:
    shown = ", ".join(str(value) for value in values[:MAX_LISTED])
    more = len(values) - MAX_LISTED
    return f"{shown} and {more} more" if more > 0 else shown
