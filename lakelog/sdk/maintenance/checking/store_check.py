"""Recognizes a store that is not the table's: a warehouse that is not mounted, or another one.

Without this check a repair would delete what lies there, and would forget all snapshots as lost.
"""

from __future__ import annotations

from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import DataCorrupted, NotFound
from lakelog.format.retention.table_files import FileUse, UsedFile
from lakelog.format.tables.paths import is_path
from lakelog.format.tables.table import TableInfo
from lakelog.storage.objects.store import ObjectStore

_SAMPLE: Final = 100
"""Files that are looked for one by one, before all files of the store are listed."""


def refuse_wrong_store(metastore: Metastore, store: ObjectStore, info: TableInfo, page_size: int) -> None:
    """Refuses a repair if not one of the files that the table refers to is in the store; blocks.

    Usually the first file is there, so this costs one call to the metastore and one to the store.

    Raises:
        DataCorrupted: The table refers to files, and none of them was found.
    """
    sample = _list_some(metastore, info)
    if not sample or any(_is_there(store, each.path) for each in sample):
        return
    for page in store.list_pages(page_size):
        if _is_any_used(metastore, info, [each.path for each in page]):
            return
    if not _is_any_used(metastore, info, [each.path for each in sample]):
        # A compaction has replaced them since, and their files were deleted.
        return
    raise DataCorrupted(
        f"Not one file of {info.name} was found below its location '{info.location}', so nothing is repaired. Find out "
        "whether the warehouse is mounted there, and is the right one; then check again. If the files are really lost, "
        f"bring them back from a backup, or expire the snapshots yourself: `lakelog table expire {info.name}`.",
        reason="NO_FILE_FOUND",
        metadata={"table": str(info.name), "field": "location", "value": info.location},
    )


def _list_some(metastore: Metastore, info: TableInfo) -> list[UsedFile]:
    """The first files that the table refers to; empty: there are none."""
    cursor = ""
    while True:
        page = metastore.list_used_files(info.table_uuid, cursor, _SAMPLE)
        cursor = page.cursor
        if page.files or not cursor:
            return list(page.files)


def _is_there(store: ObjectStore, path: str) -> bool:
    try:
        return is_path(path) and store.size(path) >= 0
    except NotFound:
        return False


def _is_any_used(metastore: Metastore, info: TableInfo, paths: list[str]) -> bool:
    files = metastore.find_used_files(info.table_uuid, paths).files if paths else ()
    return any(each.use is not FileUse.EXPIRED for each in files)
