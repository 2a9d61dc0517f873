"""Which files each batch takes: recorded before the batch begins, never changed afterwards, read again on a restart.

Rules:

1. Batch n takes the files listed in `files/<n>.json` of the checkpoint. A hard link makes it, so that of two processes
   only one makes it and both see the same.
2. At most one batch takes a file: all logs up to n are read before n + 1 is planned, however old a file is.
3. Old logs are packed into one table of taken files, so that a pipeline may run for years.
"""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakelog.errors import DataCorrupted
from lakelog.storage.objects.durable import synchronise

from ..durable_json import replace, write_once
from ..source_progress import SourceProgress, check_planned
from .listing import FoundFile

_VERSION: Final = 1
_PACK_AFTER: Final = 200
"""Unpacked logs before they are packed; reading them all takes some 20 ms."""

_RETAINED: Final = 10
"""Newest logs that are never packed: the last batch may be repeated, and progress is reported from it."""

_PACKED: Final = "taken.parquet"
_CHANGED: Final = "changed.json"
_PACKED_SCHEMA: Final = pa.schema(
    [("path", pa.string()), ("size_bytes", pa.int64()), ("modified_us", pa.int64())], metadata={}
)


@dataclass(frozen=True)
class BatchFiles:
    """The files that a batch takes.

    Args:
        batch_id: The batch, from 0.
        files: The files, in order.
        taken_before: How many files earlier batches took.
        listed: How many files the source had when the batch was planned, taken ones included.
    """

    batch_id: int
    files: tuple[FoundFile, ...]
    taken_before: int
    listed: int

    @property
    def size(self) -> int:
        """How many files it takes."""
        return len(self.files)

    @property
    def before(self) -> SourceProgress:
        """The progress before the batch: its files wait."""
        return self._stand(self.taken_before)

    @property
    def after(self) -> SourceProgress:
        """The progress after the batch: its files are read."""
        return self._stand(self.taken_before + len(self.files))

    @property
    def properties(self) -> Mapping[str, str]:
        """Empty: names of files may be many and long, and the checkpoint has them."""
        return {}

    def to_json(self) -> dict[str, Any]:
        """What the checkpoint has of the batch."""
        return {
            "version": _VERSION,
            "files": [[file.path, file.size_bytes, file.modified_us] for file in self.files],
            "taken_before": self.taken_before,
            "listed": self.listed,
        }

    def _stand(self, taken: int) -> SourceProgress:
        return SourceProgress(f"{taken} of {self.listed} files", taken, self.listed - taken)


class BatchLog:
    """The logs in a folder of the checkpoint. One process plans, others read.

    Args:
        folder: Where they are; made when it is needed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder: Final = folder

    def read(self, batch_id: int) -> BatchFiles | None:
        """The files that a batch takes; None: it is not planned, or packed.

        Raises:
            DataCorrupted: The log is malformed.
        """
        path = self._path(batch_id)
        try:
            data = json.loads(path.read_bytes())
            if data["version"] != _VERSION:
                raise ValueError(f"it has version {data['version']}, this program knows {_VERSION}")
            files = tuple(FoundFile(*entry) for entry in data["files"])
            return BatchFiles(batch_id, files, data["taken_before"], data["listed"])
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise DataCorrupted(
                f"The checkpoint's file {path} cannot be understood: {error}. Restore the checkpoint's folder.",
                metadata={"path": str(path)},
            ) from error

    def load(self, batch_id: int) -> BatchFiles:
        """The files that a batch takes; DataCorrupted if nothing is known of it."""
        return check_planned(self.read(batch_id), batch_id, self.folder)

    def plan(self, batch: BatchFiles) -> BatchFiles:
        """Records the files that a batch takes; returns what another process recorded for it before, if one did."""
        write_once(self._path(batch.batch_id), batch.to_json())
        planned = self.read(batch.batch_id)
        assert planned is not None
        return planned

    def plan_again(self, batch: BatchFiles) -> None:
        """Replaces the files that a batch takes. Only for a batch that is not committed, before anything reads it."""
        replace(self._path(batch.batch_id), batch.to_json())

    def load_taken(self, last_batch_id: int) -> dict[str, tuple[int, int]]:
        """All files that batches up to this one took, each with its size and time at that moment.

        Raises:
            DataCorrupted: A log is missing.
        """
        first, taken = self._load_packed()
        for batch_id in range(first, last_batch_id + 1):
            batch = self.read(batch_id)
            if batch is None:
                raise DataCorrupted(
                    f"The checkpoint's file {self._path(batch_id)} is missing, so the files that were read before "
                    "cannot be distinguished from new ones. Restore the checkpoint's folder.",
                    metadata={"path": str(self._path(batch_id))},
                )
            taken.update((file.path, (file.size_bytes, file.modified_us)) for file in batch.files)
        return taken

    def pack(self, last_batch_id: int) -> None:
        """Packs the logs of batches that are done, if there are many. A crash in the middle loses nothing."""
        first, taken = self._load_packed()
        end = last_batch_id - _RETAINED
        if end - first < _PACK_AFTER:
            return
        for batch_id in range(first, end):
            batch = self.read(batch_id)
            if batch is None:
                return
            taken.update((file.path, (file.size_bytes, file.modified_us)) for file in batch.files)
        columns = [list(taken), [state[0] for state in taken.values()], [state[1] for state in taken.values()]]
        schema = _PACKED_SCHEMA.with_metadata({"end": str(end)})
        draft = self.folder / f".{uuid.uuid4().hex}"
        pq.write_table(pa.table(columns, schema=schema), draft, compression="zstd")
        synchronise(draft)
        draft.replace(self.folder / _PACKED)
        synchronise(self.folder)
        for batch_id in range(first, end):
            self._path(batch_id).unlink(missing_ok=True)

    def write_changed(self, paths: Sequence[str]) -> None:
        """Records the files that changed after they were read."""
        replace(self.folder / _CHANGED, {"paths": sorted(paths)})

    def read_changed(self) -> tuple[str, ...]:
        """The files that changed after they were read, sorted."""
        with contextlib.suppress(FileNotFoundError, ValueError, KeyError):
            return tuple(json.loads((self.folder / _CHANGED).read_bytes())["paths"])
        return ()

    def _load_packed(self) -> tuple[int, dict[str, tuple[int, int]]]:
        """The first batch whose log is not packed, and the files of those that are."""
        path = self.folder / _PACKED
        if not path.exists():
            return 0, {}
        try:
            table = pq.read_table(path)
            end = int(table.schema.metadata[b"end"])
        except (pa.ArrowException, OSError, KeyError, ValueError, TypeError) as error:
            raise DataCorrupted(
                f"The checkpoint's file {path} cannot be understood: {error}. Restore the checkpoint's folder.",
                metadata={"path": str(path)},
            ) from error
        paths, sizes, times = (table.column(name).to_pylist() for name in _PACKED_SCHEMA.names)
        return end, dict(zip(paths, zip(sizes, times, strict=True), strict=True))

    def _path(self, batch_id: int) -> Path:
        return self.folder / f"{batch_id:010d}.json"
