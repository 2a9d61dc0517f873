"""Which offsets each batch takes: written down before the batch begins, never changed after it.

Rules:

1. Where the pipeline began, and in which topic, stands in `start.json`; it is written once, before the first batch. So
   a pipeline that begins at the latest records does not begin anew, further on, when it is started again.
2. Batch n takes what `<n>.json` says, and begins of each partition where batch n - 1 ended.
3. A batch tells where it ends in the properties of its snapshot too, so that the table itself says how far it is.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lakelog.errors import DataCorrupted

from ..durable_json import write_once
from ..standing import Standing
from .ranges import OffsetRange

OFFSETS_PROPERTY: Final = "pipeline.offsets"
"""A property of each snapshot: the topic with its id, and of each partition the offset behind what is in the table."""

_VERSION: Final = 1
_KEPT: Final = 100
"""Newest logs: Spark may repeat the last batch, and people may look at some before it."""

_SHOWN: Final = 8
"""Partitions whose offsets are shown to people."""


@dataclass(frozen=True)
class StartOffsets:
    """Where a pipeline began.

    Args:
        topic_id: The broker's own id of the topic.
        offsets: Of each partition that it had then.
    """

    topic_id: str
    offsets: tuple[int, ...]


@dataclass(frozen=True)
class BatchOffsets:
    """What a batch takes.

    Args:
        batch_id: The batch, from 0.
        topic: The topic.
        topic_id: The broker's own id of it.
        ranges: One for each partition, in order; empty ones too.
        taken_before: How many offsets earlier batches took.
        waiting: How many waited when it was planned, its own included.
    """

    batch_id: int
    topic: str
    topic_id: str
    ranges: tuple[OffsetRange, ...]
    taken_before: int
    waiting: int

    @property
    def size(self) -> int:
        """How many offsets it takes."""
        return sum(part.size for part in self.ranges)

    @property
    def ends(self) -> tuple[int, ...]:
        """Where the next batch begins."""
        return tuple(part.end for part in self.ranges)

    @property
    def before(self) -> Standing:
        """Its records wait."""
        starts = tuple(part.start for part in self.ranges)
        return Standing(_show(starts), self.taken_before, self.waiting)

    @property
    def after(self) -> Standing:
        """Its records are read."""
        return Standing(_show(self.ends), self.taken_before + self.size, self.waiting - self.size)

    @property
    def properties(self) -> Mapping[str, str]:
        """Where the topic is read to."""
        told = {"topic": self.topic, "topic_id": self.topic_id, "offsets": list(self.ends)}
        return {OFFSETS_PROPERTY: json.dumps(told, separators=(",", ":"))}


class OffsetLog:
    """The logs in a folder of the checkpoint. One process plans, others read.

    Args:
        folder: Where they are; made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def read_start(self) -> StartOffsets | None:
        """Where the pipeline began; None: it has not. Raises DataCorrupted as `read`."""
        found = self._load(self.folder / "start.json")
        return None if found is None else StartOffsets(found["topic_id"], tuple(found["offsets"]))

    def write_start(self, start: StartOffsets) -> StartOffsets:
        """Writes down where the pipeline begins; returns what was written down before, if that was so."""
        data = {"version": _VERSION, "topic_id": start.topic_id, "offsets": list(start.offsets)}
        write_once(self.folder / "start.json", data)
        written = self.read_start()
        assert written is not None
        return written

    def read(self, batch_id: int) -> BatchOffsets | None:
        """What a batch takes; None: it is not planned, or long done.

        Raises:
            DataCorrupted: The log cannot be understood.
        """
        path = self._path(batch_id)
        found = self._load(path)
        if found is None:
            return None
        try:
            ranges = tuple(OffsetRange(number, start, end) for number, (start, end) in enumerate(found["ranges"]))
            return BatchOffsets(
                batch_id, found["topic"], found["topic_id"], ranges, found["taken_before"], found["waiting"]
            )
        except (ValueError, KeyError, TypeError) as error:
            raise _not_understood(path, error) from error

    def plan(self, batch: BatchOffsets) -> BatchOffsets:
        """Writes down what a batch takes; returns what another process wrote down for it before, if one did."""
        data = {
            "version": _VERSION,
            "topic": batch.topic,
            "topic_id": batch.topic_id,
            "ranges": [[part.start, part.end] for part in batch.ranges],
            "taken_before": batch.taken_before,
            "waiting": batch.waiting,
        }
        write_once(self._path(batch.batch_id), data)
        planned = self.read(batch.batch_id)
        assert planned is not None
        return planned

    def prune(self, last_batch_id: int) -> None:
        """Removes the logs of batches that are long done."""
        end = last_batch_id - _KEPT
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


def _show(offsets: tuple[int, ...]) -> str:
    shown = ", ".join(f"{partition}:{offset}" for partition, offset in enumerate(offsets[:_SHOWN]))
    return f"offsets {shown}" + (f" and of {len(offsets) - _SHOWN} partitions more" if len(offsets) > _SHOWN else "")


def _not_understood(path: Path, error: Exception) -> DataCorrupted:
    return DataCorrupted(
        f"The checkpoint's file {path} cannot be understood: {error}. Restore the checkpoint's folder.",
        metadata={"path": str(path)},
    )
