"""What a transaction of the publisher has published."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.format.log.state import LogInfo
from lakelog.format.tables.snapshot import Snapshot


@dataclass(frozen=True)
class PublishedSnapshots:
    """Snapshots that a transaction has published to their end.

    Args:
        info: Their log.
        snapshots: At least one, in their order.
        began_ms: When the transaction began, by the publisher's clock.
        ended_ms: When it was committed, by the same clock.
    """

    info: LogInfo
    snapshots: tuple[Snapshot, ...]
    began_ms: int
    ended_ms: int
