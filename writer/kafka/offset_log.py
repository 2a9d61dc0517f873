"""Which offsets each batch takes: recorded before the batch begins, never changed afterwards.

Rules:

1. `start.json` says where the pipeline began, and in which topics. It is written once, before the first batch. So a
   pipeline that begins at the latest records does not begin again, further on, when it is restarted.
2. Batch n takes the offsets in `<n>.json`, and starts in each partition where batch n - 1 ended.
3. The properties of a batch's snapshot also say where the batch ends, so that the table itself has the progress.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from lakelog.errors import DataCorrupted

from ..durable_json import write_once
from ..source_progress import PartitionLag, SourceProgress, check_planned
from .ranges import OffsetRange

OFFSETS_PROPERTY: Final = "pipeline.offsets"
"""A property of each snapshot: the topics with their ids and, by partition, the offset after the table's last
record."""

_VERSION: Final = 2
_RETAINED: Final = 100
"""Newest logs that are kept: the last batch may be repeated, and people may want to see some earlier ones."""

_SHOWN: Final = 8
"""Partitions whose offsets are shown to people."""


@dataclass(frozen=True)
class TopicStart:
    """Where a pipeline began in a topic.

    Args:
        topic: The topic.
        topic_id: The broker's own id of it.
        offsets: The start of each partition that existed then.
    """

    topic: str
    topic_id: str
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class TopicRanges:
    """The offsets that a batch takes from a topic.

    Args:
        topic: The topic.
        topic_id: The broker's own id of it.
        ranges: One for each partition, in order; empty ones too.
        latest: Where each partition ended when the batch was planned.
    """

    topic: str
    topic_id: str
    ranges: tuple[OffsetRange, ...]
    latest: tuple[int, ...]

    @property
    def ends(self) -> tuple[int, ...]:
        """Where the next batch begins."""
        return tuple(part.end for part in self.ranges)


@dataclass(frozen=True)
class BatchOffsets:
    """The offsets that a batch takes.

    Args:
        batch_id: The batch, from 0.
        topics: The part of each topic, in the pipeline's order.
        taken_before: How many offsets earlier batches took.
    """

    batch_id: int
    topics: tuple[TopicRanges, ...]
    taken_before: int

    @property
    def ranges(self) -> tuple[OffsetRange, ...]:
        """The ranges of all topics."""
        return tuple(part for topic in self.topics for part in topic.ranges)

    @property
    def size(self) -> int:
        """How many offsets it takes."""
        return sum(part.size for part in self.ranges)

    @property
    def before(self) -> SourceProgress:
        """The progress before the batch: its records wait."""
        starts = [tuple(part.start for part in topic.ranges) for topic in self.topics]
        return self._stand(starts, self.taken_before)

    @property
    def after(self) -> SourceProgress:
        """The progress after the batch: its records are read."""
        return self._stand([topic.ends for topic in self.topics], self.taken_before + self.size)

    @property
    def properties(self) -> Mapping[str, str]:
        """Up to where the topics are read."""
        reported = [
            {"topic": topic.topic, "topic_id": topic.topic_id, "offsets": list(topic.ends)} for topic in self.topics
        ]
        return {OFFSETS_PROPERTY: json.dumps(reported, separators=(",", ":"))}

    def _stand(self, offsets: Sequence[tuple[int, ...]], taken: int) -> SourceProgress:
        lags = tuple(
            PartitionLag(topic.topic, number, end - offset)
            for topic, read_to in zip(self.topics, offsets, strict=True)
            for number, (offset, end) in enumerate(zip(read_to, topic.latest, strict=True))
        )
        names = [topic.topic for topic in self.topics]
        return SourceProgress(_show(names, offsets), taken, sum(part.lag for part in lags), lags)


class OffsetLog:
    """The logs in a folder of the checkpoint. One process plans, others read.

    Args:
        folder: Where they are; made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def read_start(self) -> tuple[TopicStart, ...] | None:
        """Where the pipeline began in each topic; None: it has not begun. Raises DataCorrupted as `read`."""
        path = self.folder / "start.json"
        found = self._load(path)
        if found is None:
            return None
        try:
            return tuple(
                TopicStart(each["topic"], each["topic_id"], tuple(each["offsets"])) for each in found["topics"]
            )
        except (ValueError, KeyError, TypeError) as error:
            raise _not_understood(path, error) from error

    def write_start(self, start: Sequence[TopicStart]) -> tuple[TopicStart, ...]:
        """Records where the pipeline begins; returns the earlier record, if there is one."""
        write_once(self.folder / "start.json", {"version": _VERSION, "topics": [asdict(each) for each in start]})
        written = self.read_start()
        assert written is not None
        return written

    def read(self, batch_id: int) -> BatchOffsets | None:
        """The offsets that a batch takes; None: it is not planned, or long done.

        Raises:
            DataCorrupted: The log is malformed.
        """
        path = self._path(batch_id)
        found = self._load(path)
        if found is None:
            return None
        try:
            topics = tuple(_read_topic(each) for each in found["topics"])
            return BatchOffsets(batch_id, topics, found["taken_before"])
        except (ValueError, KeyError, TypeError) as error:
            raise _not_understood(path, error) from error

    def load(self, batch_id: int) -> BatchOffsets:
        """The offsets that a batch takes; DataCorrupted if nothing is known of it."""
        return check_planned(self.read(batch_id), batch_id, self.folder)

    def plan(self, batch: BatchOffsets) -> BatchOffsets:
        """Records the offsets that a batch takes; returns what another process recorded for it before, if one did."""
        data = {
            "version": _VERSION,
            "topics": [
                {
                    "topic": topic.topic,
                    "topic_id": topic.topic_id,
                    "ranges": [[part.start, part.end] for part in topic.ranges],
                    "latest": list(topic.latest),
                }
                for topic in batch.topics
            ],
            "taken_before": batch.taken_before,
        }
        write_once(self._path(batch.batch_id), data)
        planned = self.read(batch.batch_id)
        assert planned is not None
        return planned

    def prune(self, last_batch_id: int) -> None:
        """Removes the logs of batches that are long done."""
        end = last_batch_id - _RETAINED
        for path in self.folder.glob("[0-9]*.json"):
            if int(path.stem) < end:
                path.unlink(missing_ok=True)

    def _load(self, path: Path) -> Any:
        try:
            found = json.loads(path.read_bytes())
            if found["version"] != _VERSION:
                raise ValueError(f"it has version {found['version']}, this program knows {_VERSION}")
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise _not_understood(path, error) from error
        return found

    def _path(self, batch_id: int) -> Path:
        return self.folder / f"{batch_id:010d}.json"


def _read_topic(found: Any) -> TopicRanges:
    name = found["topic"]
    ranges = tuple(OffsetRange(name, number, start, end) for number, (start, end) in enumerate(found["ranges"]))
    latest = tuple(found["latest"])
    if len(latest) != len(ranges):
        raise ValueError(f"topic '{name}' has {len(ranges)} ranges, but {len(latest)} ends")
    return TopicRanges(name, found["topic_id"], ranges, latest)


def _show(topics: Sequence[str], offsets: Sequence[tuple[int, ...]]) -> str:
    """Offsets by partition, with topic names if there are several."""
    parts = [
        f"{topic} {partition}:{offset}" if len(topics) > 1 else f"{partition}:{offset}"
        for topic, read_to in zip(topics, offsets, strict=True)
        for partition, offset in enumerate(read_to)
    ]
    more = f" and of {len(parts) - _SHOWN} partitions more" if len(parts) > _SHOWN else ""
    return f"offsets {', '.join(parts[:_SHOWN])}{more}"


def _not_understood(path: Path, error: Exception) -> DataCorrupted:
    return DataCorrupted(
        f"The checkpoint's file {path} cannot be understood: {error}. Restore the checkpoint's folder.",
        metadata={"path": str(path)},
    )
