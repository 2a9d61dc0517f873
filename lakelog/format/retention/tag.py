"""Tags: names of snapshots, which are retained while they have one."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import NotFound

_MAX_NAMED: Final = 5


@dataclass(frozen=True)
class Tag:
    """A tag with what is known of its snapshot. Times are in milliseconds since the epoch by the database's clock.

    Args:
        name: As `lakelog.options.tag_name` allows.
        snapshot_id: The snapshot.
        created_at_ms: When the tag was made.
        committed_at_ms: When the snapshot was committed.
        total_rows: The rows in live files of the snapshot, including rows that merging hides.
    """

    name: str
    snapshot_id: int
    created_at_ms: int
    committed_at_ms: int
    total_rows: int


def to_unknown_tag(table: str, name: str, known: Sequence[str]) -> NotFound:
    """The error for an unknown tag of a table. Pure."""
    near = difflib.get_close_matches(name[:200], known, n=_MAX_NAMED) or known[:_MAX_NAMED]
    listed = ", ".join(f"'{each}'" for each in near)
    more = f" and {len(known) - len(near):,} more" if len(known) > len(near) else ""
    there = f"it has {listed}{more}" if known else "it has none"
    return NotFound(
        f"Table {table} has no tag '{name[:200]}'; {there}.",
        reason="TAG_NOT_FOUND",
        metadata={"table": table, "tag": name[:200]},
    )
