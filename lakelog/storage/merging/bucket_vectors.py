"""Finds which rows of a bucket are superseded, once, and writes the result: the work of building deletion vectors.

    live files -> sections whose keys meet -> positions of each, as a read finds them -> one file of positions

Nothing is rewritten. Memory holds the keys of a step (`deletion_vectors.py`) and eight bytes for each row found, which
is less than any read of the section holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.format.merge.sections import KeyRange, split_sections
from lakelog.format.types.schema import TableSchema
from lakelog.options.values import TableOptions
from lakelog.storage.merging.deletion_vector_file import write_deletion_vectors
from lakelog.storage.merging.deletion_vectors import RowIndices, are_committed, find_deletion_vectors
from lakelog.storage.merging.merge_policy import MergePolicy, to_merge_policy
from lakelog.storage.objects.store import ObjectStore
from lakelog.storage.parquet.data_files import DataFiles
from lakelog.storage.parquet.live_file import LiveFile

MAX_FOUND_TOGETHER: Final = 1 << 25
"""Rows that a file of positions can name: at most 256 MB of them are in memory. Compactions handle larger sections."""

VECTOR_MEMORY_BYTES: Final = 96 << 20
"""Size of key columns in memory at once, as for rows of a rewrite."""


@dataclass(frozen=True)
class VectoredSection:
    """The result for files whose keys meet.

    Args:
        files: All of them, oldest first.
        vector_files: Those of them that will name the positions.
        deleted_count: How many rows are superseded, or deletes.
    """

    files: tuple[LiveFile, ...]
    vector_files: tuple[LiveFile, ...]
    deleted_count: int


@dataclass(frozen=True)
class BuiltVectors:
    """A file of positions, and its sections.

    Args:
        path: Its path; empty: no row of any section is superseded, and nothing was written.
        sections: At least one.
    """

    path: str
    sections: tuple[VectoredSection, ...]

    def path_of(self, section: VectoredSection) -> str:
        """The path that the vector files of a section name."""
        return self.path if section.deleted_count else ""


def pick_sections(files: Sequence[LiveFile], policy: MergePolicy) -> list[list[LiveFile]]:
    """Returns the sections of a bucket whose reads merge keys, but need not. Pure.

    With a `sequence.field` deletes beat late rows for a while, so such results are not written, as with the lookups of
    writers.

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
    """Finds which rows of some sections are superseded, and writes the positions to one file. Blocks.

    Args:
        store: Where the table's files are.
        schema: The table's schema.
        options: The table's options.
        path: The path of the file, unless no row is superseded.
        sections: Sections as of `split_by_rows`.
        check: Called between sections; an error that it raises ends the work.

    Raises:
        DataCorrupted: A data file is damaged or missing; named. No file remains.
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
    """Groups sections that are handled together: not too many, and with not too many rows to find. Pure.

    Args:
        sections: Sections of one bucket, as of `pick_sections`.
        most: The limit of sections in a group.
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
    """All but the oldest, which has nothing below it; the oldest too if its own deletes must be known."""
    first, *later = section
    return (first, *later) if first.delete_count else tuple(later)


def _count_most(section: Sequence[LiveFile]) -> int:
    """The maximum number of superseded rows: the rows of later files, and the deletes of the oldest one."""
    return section[0].delete_count + sum(file.row_count for file in section[1:])
