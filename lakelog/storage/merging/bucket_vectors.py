"""Finding once which rows of a bucket are superseded, and writing it down: the work of a mark.

    live files -> sections whose keys meet -> positions of each, as a read finds them -> one file of positions

Nothing is rewritten. What is held are the keys of a step (`deletion_vectors.py`) and eight bytes for each row found,
which is less than any read of the section holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.merge.sections import KeyRange, split_sections
from lakelog.format.types.schema import TableSchema
from lakelog.options.values import TableOptions
from lakelog.storage.merging.deletion_vector_file import write_deletion_vectors
from lakelog.storage.merging.deletion_vectors import (
    MergePolicy,
    RowIndices,
    are_committed,
    find_deletion_vectors,
    to_merge_policy,
)
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile

MAX_FOUND_TOGETHER: Final = 1 << 25
"""Rows that a file of positions may name: 256 MB of them are held at most. A section of more is left to compactions."""

VECTOR_MEMORY_BYTES: Final = 96 << 20
"""Of key columns held at once, as of rows by a rewrite."""


@dataclass(frozen=True)
class VectoredSection:
    """What was found of files whose keys meet.

    Args:
        files: All of them, oldest first.
        vector_files: Those of them that are to name the positions.
        deleted_count: How many rows are superseded, or deletes.
    """

    files: tuple[LiveFile, ...]
    vector_files: tuple[LiveFile, ...]
    deleted_count: int


@dataclass(frozen=True)
class BuiltVectors:
    """A file of positions, and of which sections it is.

    Args:
        path: Empty: no row of any section is superseded, and nothing was written.
        sections: At least one.
    """

    path: str
    sections: tuple[VectoredSection, ...]

    def path_of(self, section: VectoredSection) -> str:
        """What the marked files of a section name."""
        return self.path if section.deleted_count else ""


def pick_sections(files: Sequence[LiveFile], policy: MergePolicy) -> list[list[LiveFile]]:
    """The sections of a bucket whose reads merge keys, and need not. Pure.

    With a `sequence.field` deletes beat late rows for a while: what was found then is not written down, as with what
    writers look up.

    Args:
        files: All live files of the bucket, oldest first.
        policy: What decides between rows of one key.

    Returns:
        Sections in key order; each of at least two files, oldest first.
    """
    sections = split_sections([KeyRange(file.min_key, file.max_key) for file in files])
    found = [[files[place] for place in section] for section in sections if len(section) > 1]
    return [
        section
        for section in found
        if not are_committed(section)
        and not (policy.sequence and any(file.delete_count for file in section))
        and _count_most(section) <= MAX_FOUND_TOGETHER
    ]


def build_deletion_vectors(
    store: ObjectStore,
    schema: TableSchema,
    options: TableOptions,
    path: str,
    sections: Sequence[Sequence[LiveFile]],
    check: Callable[[], None],
) -> BuiltVectors:
    """Finds which rows of some sections are superseded, and writes it to one file. Blocks.

    Args:
        store: Where the table's files are.
        schema: The table's.
        options: The table's.
        path: Of the file, unless no row is superseded.
        sections: As of `split_by_rows`.
        check: Called between sections; what it raises ends the work.

    Raises:
        DataCorrupted: A data file is damaged or missing; named. Nothing is left behind.
        LakelogError: The store failed.
    """
    policy, data_files = to_merge_policy(schema, options), DataFiles(store)
    found: dict[str, RowIndices] = {}
    done: list[VectoredSection] = []
    for section in sections:
        check()
        count = 0
        deletion_vectors = find_deletion_vectors(data_files, section, schema, policy, memory_bytes=VECTOR_MEMORY_BYTES)
        for file, deleted in zip(section, deletion_vectors, strict=True):
            if deleted is not None:
                found[file.path] = deleted
                count += len(deleted)
        done.append(VectoredSection(tuple(section), _pick_vector_files(section), count))
    if not found:
        return BuiltVectors("", tuple(done))
    rest_on = [[file.path for file in section.files] for section in done if section.deleted_count]
    write_deletion_vectors(store, path, found, rest_on)
    return BuiltVectors(path, tuple(done))


def split_by_rows(sections: Sequence[Sequence[LiveFile]], most: int) -> Iterator[list[Sequence[LiveFile]]]:
    """Sections that are marked together: not too many, and with not too many rows to be found. Pure.

    Args:
        sections: Of one bucket, as of `pick_sections`.
        most: Of them together.
    """
    together: list[Sequence[LiveFile]] = []
    rows = 0
    for section in sections:
        count = _count_most(section)
        if together and (len(together) == most or rows + count > MAX_FOUND_TOGETHER):
            yield together
            together, rows = [], 0
        together.append(section)
        rows += count
    if together:
        yield together


def _pick_vector_files(section: Sequence[LiveFile]) -> tuple[LiveFile, ...]:
    """All but the oldest, which has nothing below it; that one too where its own deletes must be known."""
    first, *later = section
    return (first, *later) if first.delete_count else tuple(later)


def _count_most(section: Sequence[LiveFile]) -> int:
    """How many rows are superseded at most: no more than later files have, and the deletes of the oldest one."""
    return section[0].delete_count + sum(file.row_count for file in section[1:])
