"""Which groups of a change with deletion vectors are still valid when it takes effect. Pure.

A group says which rows of some files of a bucket are superseded, as a reader of them found. No row, level or place
changes; only the files' entries are new, and name the file of positions.

Positions depend on all rows of a key. So a group is valid if its files are there as it found them, and no other file
that shares their keys stands *before* the newest of them: for example, one that a rollback or a compaction has put
there. Files after them do no harm: one without positions makes readers merge the whole section
(`lakelog.storage.merging.deletion_vectors.are_committed`). So does one that was looked up before the vectors were
built, since their entries are younger. The gate need not check what comes after the commit: readers see by the age of
entries whether it is on top of them, and by the covered files whether all of these are there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakelog.errors import InvalidArgument
from lakelog.format.commit.facts import CompactionFacts, FileFacts, TableHead
from lakelog.format.commit.level_order import BucketOrder
from lakelog.format.commit.rebase import Rebased, VectoredFile, drop_all, find_gone
from lakelog.format.commit.request import OUT_OF_ORDER, Change, CompactionGroup, DroppedGroup, RemoveFiles


def rebase_deletion_vectors(change: Change, head: TableHead, facts: CompactionFacts) -> Rebased:
    """Judges each group of a change with deletion vectors, and keeps the valid ones. Pure.

    Args:
        change: A change whose groups all have vector files.
        head: The table's head.
        facts: The files that it names, and those of its buckets.

    Raises:
        InvalidArgument: The table has no primary key, or a group names a file of another bucket.
    """
    if change.bucket_count != head.bucket_count:
        return drop_all(change, head)
    if not facts.keyed:
        raise InvalidArgument(
            f"The change of {head.name} says which rows are superseded, but the table has no primary key, so that none "
            "is. Leave it out.",
            reason="NOTHING_SUPERSEDED",
            metadata={"field": "groups.vector_files", "value": str(len(change.groups)), "table": head.name},
        )
    known = {file.file_id: file for file in facts.files}
    orders = {
        bucket: BucketOrder([file for file in facts.live if file.bucket_ref == bucket])
        for bucket in {group.bucket for group in change.groups}
    }
    accepted: list[CompactionGroup] = []
    dropped: list[DroppedGroup] = []
    for number, group in enumerate(change.groups):
        _check_bucket(number, group, known, head)
        reason = find_gone(number, (*group.vector_files, *group.covered_files), known, head) or _find_older(
            number, group, known, orders[group.bucket]
        )
        if reason is None:
            accepted.append(
                replace(group, baseline=tuple(each for each in group.vector_files if each in facts.baseline))
            )
        else:
            dropped.append(reason)
    vector_files = [
        VectoredFile(known[file_id], group.deletion_vector_path) for group in accepted for file_id in group.vector_files
    ]
    gone = tuple(each.file.file_id for each in vector_files)
    return Rebased(
        replace(change, remove=RemoveFiles(gone) if gone else None, groups=tuple(accepted)),
        vector_files=tuple(vector_files),
        dropped=tuple(dropped),
    )


def _check_bucket(number: int, group: CompactionGroup, known: Mapping[int, FileFacts], head: TableHead) -> None:
    for file_id in (*group.vector_files, *group.covered_files):
        file = known.get(file_id)
        if file is not None and file.bucket_ref != group.bucket:
            raise InvalidArgument(
                f"Group {number} of the change of {head.name} names '{file.path}', which is in another bucket than its "
                f"own, {group.bucket.bucket}. Make a group for each bucket.",
                reason="GROUP_OF_SEVERAL_BUCKETS",
                metadata={"field": "groups", "value": str(number), "table": head.name},
            )


def _find_older(
    number: int, group: CompactionGroup, known: Mapping[int, FileFacts], order: BucketOrder
) -> DroppedGroup | None:
    """The reason to drop a group that ignores a file with its keys, among its own files or before them."""
    own: Sequence[FileFacts] = [known[file_id] for file_id in (*group.vector_files, *group.covered_files)]
    found = order.find_before(own)
    if found is None:
        return None
    return DroppedGroup(
        number,
        OUT_OF_ORDER,
        f"'{found.path}' (level {found.level}, of snapshot {found.order_key.snapshot_id}) shares the range of its"
        " keys, "
        "stands before its newest file, and is not part of it. Plan anew on the newest snapshot.",
        found.file_id,
    )
