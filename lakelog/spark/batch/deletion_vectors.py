"""Deletion vectors for a read: which sections need them, the Spark job that computes them, and their cache.

If the keys of all sections take little memory, the driver program reads and merges them itself: a job costs more than
that before its first task starts (docs/decisions/0006). Files never change, so the result for a section's files stays
valid; repeated reads of a table find it in the driver program's cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Final

from pyspark.sql import SparkSession

from lakelog.errors import ResourceExhausted
from lakelog.format.merge.sections import KeyRange, split_sections
from lakelog.format.tables.plan import Plan
from lakelog.options.values import TableOptions
from lakelog.recently_used import RecentlyUsed
from lakelog.spark.executor.write import Section, Words, find_deletion_vectors_in_task, find_deletion_words
from lakelog.spark.executor_check import mark_version
from lakelog.spark.task_errors import lakelog_errors
from lakelog.storage.merging.deletion_vectors import merge_bytes
from lakelog.storage.merging.merge_policy import to_merge_policy
from lakelog.storage.merging.removed_rows import has_removed_rows, split_by_vectors
from lakelog.storage.parquet.live_file import LiveFile

MAX_BITMAP_BYTES = 1 << 30
"""Limit of one read, in the driver program: 8 thousand million rows in files that have superseded ones."""

MAX_DRIVER_KEY_BYTES: Final = 64 << 20
"""Size of the keys that the driver program merges itself: 8 million rows of one bigint, 0.2 s on two cores, and for a
moment about three times as much memory."""

_DRIVER_THREADS: Final = 4
"""The cores are shared with Spark's own threads; more threads only wait for the store."""

_POSITION_BYTES: Final = 8

_Found = tuple[Words | None, ...]


class SectionVectorCache(RecentlyUsed[object, _Found]):
    """Results for sections, by their files.

    Args:
        max_bytes: The size limit of the bitmaps' words.
    """

    def __init__(self, max_bytes: int) -> None:
        super().__init__(max_bytes, _size_bytes)


def plan_sections(plan: Plan, files: Sequence[LiveFile]) -> list[Section]:
    """Returns the sections with superseded rows or deletes; without a key: files with removed rows. Pure."""
    if not plan.schema.primary_key:
        removed = [file for file in files if has_removed_rows(file, plan.schema)]
        return [Section(plan.table.location, tuple(group), plan.schema, None) for group in split_by_vectors(removed)]
    policy = to_merge_policy(plan.schema, TableOptions(plan.table.options))
    sections = []
    for _, bucket in groupby(files, key=lambda file: (file.partition, file.bucket)):
        ordered = list(bucket)
        for places in split_sections([KeyRange(file.min_key, file.max_key) for file in ordered]):
            members = tuple(ordered[place] for place in places)
            if len(members) > 1 or members[0].delete_count:
                sections.append(Section(plan.table.location, members, plan.schema, policy))
    return sections


def find_deleted_rows(spark: SparkSession, sections: Sequence[Section], cache: SectionVectorCache) -> dict[str, Words]:
    """Finds the superseded rows of sections that are not cached: here if little, else with one task per section.

    Returns:
        A bit for each row of a file, by the file's path; files without superseded rows are left out.

    Raises:
        DataCorrupted: A file is damaged or missing.
        ResourceExhausted: The bits of all files would take more than `MAX_BITMAP_BYTES`.
    """
    size_bytes = sum(file.row_count for section in sections for file in section.files) // 8
    if size_bytes > MAX_BITMAP_BYTES:
        raise ResourceExhausted(
            f"Reading this at once needs {size_bytes >> 20} MiB in the driver program to tell which rows are "
            f"superseded, more than {MAX_BITMAP_BYTES >> 20}. Read it in parts, by a filter on partition or key "
            "columns."
        )
    found = [cache.get(_key_of(section)) for section in sections]
    unknown = [section for section, known in zip(sections, found, strict=True) if known is None]
    answers = iter(_run(spark, unknown))
    words: dict[str, Words] = {}
    for section, known in zip(sections, found, strict=True):
        if known is None:
            known = next(answers)
            cache.put(_key_of(section), known)
        words.update({file.path: bits for file, bits in zip(section.files, known, strict=True) if bits is not None})
    return words


def _run(spark: SparkSession, sections: Sequence[Section]) -> Iterable[_Found]:
    if not sections:
        return []
    if sum(map(_merge_bytes, sections)) <= MAX_DRIVER_KEY_BYTES:
        with ThreadPoolExecutor(min(len(sections), _DRIVER_THREADS), thread_name_prefix="lakelog-merge") as pool:
            return [tuple(found) for found in pool.map(find_deletion_words, sections)]
    # Large sections first, so that no core waits for one that began last.
    order = sorted(range(len(sections)), key=lambda place: -sum(file.row_count for file in sections[place].files))
    mark_version(spark.sparkContext)
    tasks = spark.sparkContext.parallelize([sections[place] for place in order], min(len(order), 10_000))
    with lakelog_errors():
        answers = tasks.map(find_deletion_vectors_in_task).collect()
    by_place: list[_Found] = [()] * len(sections)
    for place, answer in zip(order, answers, strict=True):
        by_place[place] = tuple(answer)
    return by_place


def _merge_bytes(section: Section) -> int:
    if section.policy is None:
        return sum(file.delete_count for file in section.files) * _POSITION_BYTES
    return merge_bytes(section.files, section.schema, section.policy)


def _key_of(section: Section) -> object:
    if section.policy is None:
        return (section.location, tuple((file.path, file.deletion_vector_path) for file in section.files))
    return (section.location, tuple(file.path for file in section.files), section.policy)


def _size_bytes(found: _Found) -> int:
    return 256 * (1 + len(found)) + sum(bits.nbytes for bits in found if bits is not None)
