"""Consumers: named readers whose position in a table's history the metastore stores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

SERVED_BY: Final = "reader "
"""How the holder of a consumer begins whose reader is the reader service."""


@dataclass(frozen=True)
class Consumer:
    """A consumer of a table. Times are in milliseconds since the epoch by the database's clock.

    Args:
        consumer_id: Its id.
        table_uuid: The table.
        epoch: Rises whenever it is opened or reset.
        snapshot_id: The last snapshot that was done, 0: it begins with the first; None: none was ever done.
        snapshot_uuid: That snapshot's uuid; empty if it is not known.
        holder: The reader; empty if there is none: it has closed, or did not report for a minute.
        used_at_ms: When its reader reported last, or it was reset.
        expires_at_ms: When it expires unless it is used; 0: not known.
        is_expired: It retains nothing any more until it is opened again.
    """

    consumer_id: str
    table_uuid: str
    epoch: int
    snapshot_id: int | None
    snapshot_uuid: str
    holder: str
    used_at_ms: int
    expires_at_ms: int = 0
    is_expired: bool = False


def name_state(holder: str, *, is_expired: bool) -> str:
    """`served` (by the reader service), `read` (by another program), `silent` (by no one) or `expired`. Pure."""
    if is_expired:
        return "expired"
    if not holder:
        return "silent"
    return "served" if holder.startswith(SERVED_BY) else "read"


@dataclass(frozen=True)
class ConsumerPosition:
    """The position to which a consumer is to be moved.

    Args:
        table_uuid: The table.
        epoch: The epoch from opening it.
        snapshot_id: The last snapshot that was done; 0: none, and the reader begins with the first.
        snapshot_uuid: Its uuid; empty: not checked.
    """

    table_uuid: str
    epoch: int
    snapshot_id: int
    snapshot_uuid: str = ""
