"""Compactions at the commit gate: their checks at the edge, and the facts on which they are judged."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from typing import Final

from lakelog.format.commit.facts import CompactionFacts, TableHead
from lakelog.format.commit.request import (
    BucketRef,
    Change,
    CommitRequest,
    CompactionGroup,
    RemoveFiles,
    split_group_files,
)
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES
from lakelog.format.tables.snapshot import SnapshotKind

from ..store.limits import BOUNDS, MAX_INT32
from ..store.transaction import Transaction
from ..store.validation import check_bytes, check_number, invalid
from ..tables.partitions import PartitionRules

MAX_GROUPS: Final = 1000
"""Of one change: the report on them, were all dropped, is a few hundred KB, which are stored forever."""

MAX_LEVEL: Final = 127


def check_compactions(request: CommitRequest, max_files: int) -> None:
    """Check all parts of a commit's compactions that can be checked without their tables.

    Raises:
        InvalidArgument: Names the field, the value and the remedy.
    """
    for change in request.changes:
        if change.kind is SnapshotKind.COMPACT:
            _check_compaction(change, max_files)
        elif change.groups and change.kind is SnapshotKind.OVERWRITE:
            _check_removed_rows(change, max_files)
        elif change.groups:
            raise invalid(
                "groups",
                f"{len(change.groups)} groups",
                f"Only a COMPACT rewrites, and only an OVERWRITE removes rows; {change.kind.value} adds files.",
            )


def _check_removed_rows(change: Change, max_files: int) -> None:
    """Checks the groups of an OVERWRITE, which name files of which single rows are removed."""
    if not isinstance(change.remove, RemoveFiles | None):
        raise invalid(
            "remove",
            type(change.remove).__name__,
            "Beside groups name the files to remove: rows are removed as they were read, and not whatever is there "
            "when the commit takes effect.",
        )
    for group in change.groups:
        check_number("groups.bucket", group.bucket.bucket, 0, MAX_INT32)
        check_bytes("groups.partition", group.bucket.partition, MAX_PARTITION_BYTES)
        others = (group.inputs, group.output_count, group.moves, group.level, group.changelog_count, group.baseline)
        if any(others) or group.covered_files or group.is_full or group.emits_changelog:
            raise invalid(
                "groups",
                group.bucket.bucket,
                "A group of an OVERWRITE has vector files, their deletion vector and counts only; a COMPACT does the "
                "rest.",
            )
        if not (group.vector_files and group.deletion_vector_path):
            raise invalid(
                "groups.deletion_vector_path",
                group.deletion_vector_path,
                "Name the file with the positions, and in vector_files those of which it removes rows.",
            )
        if len(group.delete_counts) != len(group.vector_files):
            raise invalid(
                "groups.delete_counts",
                f"{len(group.delete_counts)} counts",
                f"Give one for each of the {len(group.vector_files)} vector files.",
            )
        for count in group.delete_counts:
            check_number("groups.delete_counts", count, *BOUNDS["CompactionGroup.delete_counts"])
    ids = list(chain.from_iterable(group.vector_files for group in change.groups))
    if len(ids) > max_files:
        raise invalid("groups.vector_files", f"{len(ids)} files", f"Name at most {max_files} in one commit.")
    for file_id in ids:
        check_number("groups.vector_files", file_id, 1)
    named = [*ids, *(change.remove.file_ids if isinstance(change.remove, RemoveFiles) else ())]
    if len(set(named)) < len(named):
        ((twice, _),) = Counter(named).most_common(1)
        raise invalid("groups.vector_files", twice, "Name each file once, to remove it or some of its rows.")


def _check_compaction(change: Change, max_files: int) -> None:
    if not 1 <= len(change.groups) <= MAX_GROUPS:
        raise invalid(
            "groups",
            f"{len(change.groups)} groups",
            f"Give 1 to {MAX_GROUPS}: a COMPACT says group by group which files of a bucket its outputs replace.",
        )
    if change.unchanged_buckets:
        raise invalid(
            "unchanged_buckets",
            f"{len(change.unchanged_buckets)} buckets",
            "Leave them out: each group of a COMPACT assumes no more than that its own files are there.",
        )
    if change.allow_empty:
        raise invalid("allow_empty", True, "Leave it out: a COMPACT without effect makes no snapshot.")
    ids = list(chain.from_iterable(_named(group) for group in change.groups))
    if len(ids) > max_files:
        raise invalid("groups.inputs", f"{len(ids)} files", f"Name at most {max_files} in one commit.")
    if len(set(ids)) < len(ids):
        ((twice, _),) = Counter(ids).most_common(1)
        raise invalid(
            "groups.inputs",
            twice,
            "Name each file once, in one group, as an input, a move, a vector file or a covered file.",
        )
    deletion_vector_planning = [bool(group.vector_files) for group in change.groups]
    if any(deletion_vector_planning) and not all(deletion_vector_planning):
        raise invalid(
            "groups.vector_files",
            f"{sum(deletion_vector_planning)} of {len(deletion_vector_planning)} groups",
            "Deletion vectors are of files as they are found: add them in a change of its own.",
        )
    baseline = list(chain.from_iterable(group.baseline for group in change.groups))
    if len(baseline) > max_files:
        raise invalid("groups.baseline", f"{len(baseline)} files", f"Name at most {max_files} in one commit.")
    if len(set(baseline)) < len(baseline):
        ((twice, _),) = Counter(baseline).most_common(1)
        raise invalid("groups.baseline", twice, "Name each file once, in one group.")
    for group in change.groups:
        _check_group(group)
    _check_counts(change)
    for number, (group, files) in enumerate(zip(change.groups, split_group_files(change), strict=True)):
        for file in files:
            if BucketRef(file.partition, file.bucket) != group.bucket:
                raise invalid(
                    "bucket",
                    file.bucket,
                    f"'{file.path[:200]}' is of group {number}, which is of bucket {group.bucket.bucket} of "
                    f"{'another' if file.partition != group.bucket.partition else 'the same'} partition. List files "
                    "in the order of their groups.",
                )
        for file in files[: group.output_count]:
            if file.level != group.level:
                raise invalid(
                    "level", file.level, f"Group {number} has level {group.level}; so must '{file.path[:200]}'."
                )


def _check_group(group: CompactionGroup) -> None:
    check_number("groups.bucket", group.bucket.bucket, 0, MAX_INT32)
    if len(group.bucket.partition) > MAX_PARTITION_BYTES:
        raise invalid("groups.partition", group.bucket.partition[:50], f"Give at most {MAX_PARTITION_BYTES} bytes.")
    check_number("groups.level", group.level, 0, MAX_LEVEL)
    check_number("groups.output_count", group.output_count, 0, MAX_INT32)
    check_number("groups.changelog_count", group.changelog_count, 0, MAX_INT32)
    for file_id in _named(group):
        check_number("groups.inputs", file_id, 1)
    if group.vector_files or group.covered_files or group.deletion_vector_path or group.delete_counts:
        _check_vector_files(group)
        return
    if not (group.inputs or group.moves or group.baseline):
        raise invalid("groups.inputs", (), "Name the files that the group rewrites or moves; or leave the group out.")
    for file_id in group.baseline:
        check_number("groups.baseline", file_id, 1)
    if not group.emits_changelog and (group.baseline or group.changelog_count):
        raise invalid(
            "groups.emits_changelog",
            False,
            "The group has a changelog, or ends files of the baseline: say that it emits a changelog.",
        )
    if group.output_count and not group.inputs:
        raise invalid(
            "groups.output_count",
            group.output_count,
            "The group rewrites no file, so it has no outputs. Commit new data as APPEND.",
        )


def _named(group: CompactionGroup) -> tuple[int, ...]:
    """The files that must be live for the group to be accepted."""
    return (*group.inputs, *group.moves, *group.vector_files, *group.covered_files)


def _check_vector_files(group: CompactionGroup) -> None:
    if not group.vector_files:
        raise invalid(
            "groups.deletion_vector_path",
            group.deletion_vector_path,
            "Name the files that get it in vector_files, or leave it out.",
        )
    others = (group.inputs, group.output_count, group.moves, group.level, group.changelog_count, group.delete_counts)
    if any(others) or group.is_full or group.emits_changelog or group.baseline:
        raise invalid(
            "groups.vector_files",
            f"{len(group.vector_files)} files",
            "A group that adds deletion vectors does nothing else with its files, and leaves them at their levels: "
            "make a change of its own for what is rewritten, moved or emitted.",
        )


def _check_counts(change: Change) -> None:
    for field, files, counted in (
        ("groups.output_count", change.add_files, sum(group.output_count for group in change.groups)),
        ("groups.changelog_count", change.changelog_files, sum(group.changelog_count for group in change.groups)),
    ):
        if counted != len(files):
            raise invalid(
                field, f"{counted} in all", f"The change has {len(files)} such files; each belongs to one group."
            )


async def load_compaction(
    transaction: Transaction, head: TableHead, change: Change, partitions: PartitionRules
) -> CompactionFacts:
    """The facts on which a compaction is judged, read while the head is locked."""
    if change.bucket_count != head.bucket_count:
        return CompactionFacts()
    file_ids = [file_id for group in change.groups for file_id in _named(group)]
    files = await transaction.find_files(head.table_id, file_ids)
    keyed = await partitions.has_key(transaction, head)
    if not (keyed or head.bucket_count > 0):
        # Rows without an order cannot become disordered; and all of them may be in one bucket.
        return CompactionFacts(files)
    buckets = list(dict.fromkeys(group.bucket for group in change.groups))
    # Where full compactions emit the changes, other compactions must know whether a file is in the baseline.
    baseline = (
        [*{*file_ids, *(each for group in change.groups for each in group.baseline)}] if head.defers_changelog else []
    )
    return CompactionFacts(
        files,
        await transaction.find_live_files(head.table_id, buckets),
        keyed,
        await transaction.find_baseline(head.table_id, baseline) if baseline else frozenset(),
    )
