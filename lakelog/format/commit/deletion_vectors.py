"""Which groups of a change that brings deletion vectors still stand when it takes effect. Pure.

A group says of some files of a bucket which of their rows are superseded, as whoever read them found. No row changes,
no level and no place; only the files' entries are new, and name where the positions stand.

Positions rest on all rows of a key. So a group stands if its files are there as it found them, and no other file that
shares their keys stands *before* the newest of them: one that a rollback has brought back, for instance, or that a
compaction has put there. What comes after them does no harm: without positions it has the whole section merged
(`lakelog.storage.merging.deletion_vectors.are_committed`), and so it has where it was looked up before the vectors
were built, since their entries are younger. What comes later than the commit is no matter of the gate: readers see by
the age of entries whether it stands on top of them, and by the files that positions rest on whether all of these are
there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from lakelog.errors import InvalidArgument
from lakelog.format.commit.facts import CompactionFacts, FileFacts, TableHead
from lakelog.format.commit.level_order import BucketOrder
from lakelog.format.commit.rebase import Rebased, drop_all, find_gone
from lakelog.format.commit.request import OUT_OF_ORDER, Change, CompactionGroup, DroppedGroup, RemoveFiles


def rebase_deletion_vectors(change: Change, head: TableHead, facts: CompactionFacts) -> Rebased:
    """Judge each group of a change that marks files, and keep those that stand. Pure.

    Args:
        change: All of its groups have marks.
        head: Of its table.
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
        (known[file_id], group.deletion_vector_path) for group in accepted for file_id in group.vector_files
    ]
    gone = tuple(file.file_id for file, _ in vector_files)
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
    """Why a group is dropped that knows nothing of a file of its keys among its own files, or before them."""
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
