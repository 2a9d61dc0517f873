"""How the topic's consumer group stores a log's position (reliability R3). Pure.

The committed offset is the snapshot's id. Its metadata is the snapshot's uuid and, if only a part of the snapshot is in
the log, the index where it goes on: `uuid` or `uuid next_index`.
"""

from __future__ import annotations

import re
from typing import Final

from lakelog.errors import HistoryDiverged
from lakelog.log.records import NOTHING_PUBLISHED, LogPosition

_METADATA: Final = re.compile(r"(?P<uuid>[0-9a-f]{32})(?: (?P<next_index>[0-9]{1,18}))?")


def to_metadata(position: LogPosition) -> str:
    """The metadata that belongs to the snapshot's id."""
    if position.next_index is None:
        return position.snapshot_uuid
    return f"{position.snapshot_uuid} {position.next_index}"


def from_committed(group: str, offset: int, metadata: str) -> LogPosition | None:
    """The position from an offset and its metadata; None: nothing was committed.

    Raises:
        HistoryDiverged: Another program has committed there; reason `POSITION_UNREADABLE`.
    """
    if offset < 0:
        return None
    if offset == 0 and not metadata:
        return NOTHING_PUBLISHED
    match = _METADATA.fullmatch(metadata)
    if match is None:
        raise HistoryDiverged(
            f"The consumer group {group} has the committed offset {offset} with the metadata {metadata[:100]!r}, which"
            f" no publisher has written. Find out who commits under this group, delete the group, and start again: the"
            f" position is then found in the topic.",
            reason="POSITION_UNREADABLE",
            metadata={"group": group, "offset": str(offset)},
        )
    next_index = match["next_index"]
    return LogPosition(offset, match["uuid"], None if next_index is None else int(next_index))
