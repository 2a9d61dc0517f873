"""Columns that lakelog itself adds to the rows of a data file, and which of them merging must read."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from lakelog.format.merge.runs import COMMIT_TIMESTAMP_COLUMN, REPLACES_OLDER_COLUMN
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.storage.parquet.live_file import LiveFile

KIND_FIELD: Final = pa.field(ROW_KIND_COLUMN, pa.int8())
TIME_FIELD: Final = pa.field(COMMIT_TIMESTAMP_COLUMN, pa.int64())
REPLACES_FIELD: Final = pa.field(REPLACES_OLDER_COLUMN, pa.bool_())


def has_times(file: LiveFile, sequence: tuple[str, ...]) -> bool:
    """Whether a file's rows may have their own relevant commit times. Pure.

    A writer's file has rows of one commit; only a compaction combines rows of several commits, and only with sequence
    columns their commit times matter.
    """
    return bool(sequence) and file.level > 0


def pick_own_fields(file: LiveFile, sequence: tuple[str, ...]) -> list[pa.Field]:
    """The columns of a file that decide between rows of one key, besides key and sequence columns. Pure."""
    kinds = [KIND_FIELD] if file.delete_count else []
    return [*kinds, TIME_FIELD, REPLACES_FIELD] if has_times(file, sequence) else kinds
