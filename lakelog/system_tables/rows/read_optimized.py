"""`$ro`: what full compactions have written, which is read without merging."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakelog.format.compaction.settings import to_compaction_settings
from lakelog.options.declared.tables import MAX_LEVELS
from lakelog.system_tables.declaration import OfRows

if TYPE_CHECKING:
    from lakelog.format.tables.table import TableInfo

READ_OPTIMIZED: Final = OfRows(
    "ro",
    "The rows in files of the highest level of a table with a primary key, which no read has to merge: fast, and as "
    "old as the last full compaction of each bucket. Of an append table all rows. As of Apache Paimon.",
    (),
    has_changes=False,
)


def list_top_levels(info: TableInfo) -> tuple[int, ...]:
    """The levels that are read; none: all, since nothing is merged. Pure."""
    if not info.schema.primary_key:
        return ()
    # Files that an option before it put higher count as well.
    return tuple(range(to_compaction_settings(info.options, has_primary_key=True).level_count - 1, MAX_LEVELS))
