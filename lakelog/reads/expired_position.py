"""The error for a position whose next change has expired (semantics 5.6): one text for all readers."""

from __future__ import annotations

from lakelog.errors import SnapshotExpired
from lakelog.options.declared.streams import EXPIRED_POSITION

GO_ON_WITH_OPTION = (
    f"give the option '{EXPIRED_POSITION.key}' = 'earliest' for the changes that are kept, or 'full' for all rows first"
)


def to_expired_position(
    who: str, table: str, after: int, *, earliest: int, latest: int, remedy: str
) -> SnapshotExpired:
    """Makes the error. Pure.

    Args:
        who: What is at the position: `Consumer 'billing'`, `The checkpoint` ...
        table: Its full name.
        after: The last snapshot that was read; the changes after it are the next ones.
        earliest: The earliest snapshot whose changes are retained.
        latest: The newest one.
        remedy: What to do, as a clause; `GO_ON_WITH_OPTION` or another.
    """
    return SnapshotExpired(
        f"{who} is at snapshot {after} of {table}, but snapshots {earliest} to {latest} are all that is kept. "
        f"{remedy[0].upper()}{remedy[1:]}.",
        metadata={"table": table, "after": str(after), "earliest": str(earliest), "latest": str(latest)},
    )
