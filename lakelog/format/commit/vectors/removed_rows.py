"""Rows of an append table that an OVERWRITE removes by their positions: whether it holds, and what it enters. Pure.

A group names files of a bucket, the file with the positions that reads leave out from then on, and how many these are.
Positions belong to a file as it was read, with the rows that earlier commits have removed. So:

1. Each named file must be live. If another commit has compacted, overwritten or vectored it meanwhile, the commit is
   refused as a whole: its writer looks at the newest snapshot again. Files that came meanwhile do no harm.
2. No row comes back: the count of a file never falls.
3. Each file is entered again, with its place in the order. Files that a compaction wrote share a place, and their ids
   decide their order. So all files of such a place in a bucket are entered again, in the order of their ids.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter

from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.commit.facts import CompactionFacts, FileFacts, TableHead
from lakelog.format.commit.rebase import Rebased, VectoredFile, find_gone
from lakelog.format.commit.request import INPUT_GONE, Change, CompactionGroup, DroppedGroup, RemoveFiles


def rebase_removed_rows(change: Change, head: TableHead, facts: CompactionFacts) -> Rebased:
    """Returns the change with the entries that end, and the new ones. Pure.

    Args:
        change: An OVERWRITE whose groups have vector files and nothing else.
        head: The table's head.
        facts: The files that it names, and those of its buckets if rows have an order.

    Raises:
        InvalidArgument: The table has a primary key, or a group names a file of another bucket or a count that is not
            possible.
        CommitConflict: A file is not live any more (reason INPUT_GONE).
    """
    if facts.keyed:
        raise InvalidArgument(
            f"The change of {head.name} removes rows by their positions, but the table has a primary key: commit "
            "deletes of their keys instead.",
            reason="TABLE_HAS_KEY",
            metadata={"field": "groups.vector_files", "value": str(len(change.groups)), "table": head.name},
        )
    known = {file.file_id: file for file in facts.files}
    vectored: dict[int, VectoredFile] = {}
    for number, group in enumerate(change.groups):
        gone = find_gone(number, group.vector_files, known, head)
        if gone is not None:
            raise _gone(gone, head)
        for file_id, count in zip(group.vector_files, group.delete_counts, strict=True):
            _check_file(number, group, known[file_id], count, head)
            vectored[file_id] = VectoredFile(known[file_id], group.deletion_vector_path, count)
    removed = change.remove.file_ids if isinstance(change.remove, RemoveFiles) else ()
    for file in _find_beside(facts.live, vectored, removed):
        vectored[file.file_id] = VectoredFile(file, file.deletion_vector_path)
    ordered = sorted(vectored.values(), key=lambda each: each.file.file_id)
    return Rebased(
        replace(change, remove=RemoveFiles((*removed, *(each.file.file_id for each in ordered)))),
        vector_files=tuple(ordered),
    )


def _find_beside(
    live: Sequence[FileFacts], vectored: Mapping[int, VectoredFile], removed: Sequence[int]
) -> Iterator[FileFacts]:
    """The files that share a place with a vectored one, and stay as they are."""
    place = attrgetter("bucket_ref", "order_key")
    places = {place(each.file) for each in vectored.values()}
    named = {*vectored, *removed}
    return (file for file in live if file.file_id not in named and place(file) in places)


def _check_file(number: int, group: CompactionGroup, file: FileFacts, count: int, head: TableHead) -> None:
    what = ""
    if file.bucket_ref != group.bucket:
        what = f"names '{file.path}', which is in another bucket than its own, {group.bucket.bucket}"
    elif not file.delete_count <= count <= file.row_count:
        what = (
            f"leaves {count} rows of '{file.path}' out, which has {file.row_count} rows; {file.delete_count} of them "
            "are removed already, and stay so"
        )
    if what:
        raise InvalidArgument(
            f"Group {number} of the change of {head.name} {what}.",
            reason="GROUP_OF_SEVERAL_BUCKETS" if file.bucket_ref != group.bucket else "DELETE_COUNT_INVALID",
            metadata={"field": "groups", "value": str(number), "table": head.name},
        )


def _gone(gone: DroppedGroup, head: TableHead) -> CommitConflict:
    return CommitConflict(
        f"The change of {head.name} removes rows of a file that is not live any more: {gone.message} Nothing of this "
        "commit was applied; look for the rows again on the newest snapshot.",
        reason=INPUT_GONE,
        metadata={
            "table": head.name,
            "other_writer": gone.other_writer,
            "snapshot_id": "" if gone.snapshot_id is None else str(gone.snapshot_id),
            "file_ids": str(gone.file_id),
            "retry": "replan",
        },
    )
