"""The checkpoint of a pipeline: its pipeline and table, its progress, and whether the table agrees.

    pipeline.json   whose it is
    files/          which files each batch takes (`files/batch_log.py`)
    offsets/        or which offsets of a topic (`kafka/offset_log.py`)
    spark/          the batches begun (`offsets/`) and done (`commits/`), as streaming queries of Spark note theirs
    totals.json     rows and dead letters up to a batch

A batch is applied once because the metastore knows the pipeline's batches by number. So no other checkpoint than the
one under which they were counted may be used: it would skip files, or read them again.
"""

from __future__ import annotations

import json
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import WriterProgress
from lakelog.serving.streams.exit_status import CHECKPOINT_MISFIT
from lakelog.storage.objects.durable import synchronise

from .durable_json import replace, write_once
from .pipeline.spec import Pipeline

CHECKPOINT_PROPERTY: Final = "pipeline.checkpoint"
"""A property of each snapshot that a pipeline makes: the identity of its checkpoint."""

_RETAINED: Final = 100
"""Newest batches that stay noted: after a restore of the table's database they can be taken again."""


@dataclass(frozen=True)
class Totals:
    """What a pipeline has done since it was made, up to and including a batch.

    Args:
        batch_id: The batch; -1: none.
        rows: Rows committed.
        dead_letters: Records set aside.
    """

    batch_id: int = -1
    rows: int = 0
    dead_letters: int = 0


class BatchPlans(Protocol):
    """What a source has planned."""

    def read_batch(self, batch_id: int) -> object | None:
        """The plan of a batch; None: it is not planned, or long done."""
        ...


class Checkpoint:
    """The folder of a pipeline's checkpoint.

    Args:
        folder: Where it is.
        identity: Distinguishes this checkpoint from any other one; 32 hexadecimal digits.
    """

    def __init__(self, folder: Path, identity: str) -> None:
        self.folder: Final = folder
        self.identity: Final = identity

    @property
    def log_folder(self) -> Path:
        """Where the batch logs are."""
        return self.folder / "files"

    @property
    def offsets_folder(self) -> Path:
        """Where the offset logs of topics are."""
        return self.folder / "offsets"

    @property
    def spark_folder(self) -> Path:
        """Where batches are noted."""
        return self.folder / "spark"

    def begin(self, batch_id: int) -> None:
        """Notes that a planned batch begins, durably, before anything of it can be committed; idempotent."""
        self._note("offsets", batch_id, {"batchWatermarkMs": 0, "batchTimestampMs": 0}, {"batches": batch_id + 1})

    def end(self, batch_id: int) -> None:
        """Notes that a batch is done, and forgets batches that are long done; idempotent."""
        self._note("commits", batch_id, {"nextBatchWatermarkMs": 0})
        for folder in (self.spark_folder / "offsets", self.spark_folder / "commits"):
            for number in _numbers(folder):
                if number <= batch_id - _RETAINED:
                    _remove(folder, number)

    def last_begun(self) -> int:
        """The last batch that was begun; -1: none."""
        return max(_numbers(self.spark_folder / "offsets"), default=-1)

    def last_done(self) -> int:
        """The last batch that is noted as done; -1: none."""
        return max(_numbers(self.spark_folder / "commits"), default=-1)

    def _note(self, part: str, batch_id: int, *lines: dict[str, Any]) -> None:
        # As Spark writes its logs, so that a version before, which ran a streaming query, can go on.
        write_once(self.spark_folder / part / str(batch_id), *lines, head="v1\n")

    def read_totals(self) -> Totals:
        """The totals up to the last recorded batch.

        Raises:
            InvalidArgument: It cannot be understood (reason `CHECKPOINT_MISFIT`).
        """
        path = self.folder / "totals.json"
        try:
            return Totals(**json.loads(path.read_bytes()))
        except FileNotFoundError:
            return Totals()
        except (ValueError, TypeError) as error:
            raise _not_understood(path, error) from error

    def write_totals(self, totals: Totals) -> None:
        """Records the totals; completely or not at all."""
        replace(self.folder / "totals.json", asdict(totals))

    def set_back(self, progress: WriterProgress, source: BatchPlans) -> range:
        """Sets what is noted back to the table's last batch, if the table has lost some; idempotent.

        The plans of the lost batches stay, so that these take the same input again. So do the totals, which count each
        batch once.

        Args:
            progress: The table's records of the pipeline.
            source: Has the plans.

        Returns:
            The batches that will be taken again; empty: the table has lost none, or the checkpoint is not its own.

        Raises:
            InvalidArgument: The checkpoint no longer has what it needs for that (reason `CHECKPOINT_MISFIT`).
        """
        last = -1 if progress.last_identifier is None else progress.last_identifier
        lost = range(last + 1, self.last_done() + 1)
        if not lost or progress.properties.get(CHECKPOINT_PROPERTY, self.identity) != self.identity:
            return range(0)
        # The last hundred batches are noted, and sources keep about as many plans.
        missing = next((batch for batch in lost if source.read_batch(batch) is None), None)
        if missing is None and last >= 0 and not (self.spark_folder / "offsets" / str(last)).exists():
            missing = last
        if missing is not None:
            raise _mismatch(
                f"The table has lost the batches from {last + 1} to {lost[-1]}, and the checkpoint {self.folder} no "
                f"longer has the records of batch {missing}, so it cannot take them again. Give the pipeline a new "
                "name and an empty checkpoint."
            )
        # SUBTLE: in this order. While one of the commits is left, the table lacks a batch that is noted as done, and
        # the pipeline does not start without another try.
        for part in ("offsets", "commits"):
            _remove_after(self.spark_folder / part, last)
        return lost

    def check_progress(self, pipeline: Pipeline, progress: WriterProgress) -> None:
        """Checks that the table's records of the pipeline and this checkpoint agree.

        Raises:
            InvalidArgument: They do not: one of them was lost, restored or exchanged (reason `CHECKPOINT_MISFIT`).
        """
        begun, done = self.last_begun(), self.last_done()
        last = -1 if progress.last_identifier is None else progress.last_identifier
        other = progress.properties.get(CHECKPOINT_PROPERTY, self.identity)
        also = ""
        if other == self.identity and done <= last <= max(begun, done):
            return
        if last < done:
            what = (
                f"the checkpoint {self.folder} says that batch {done} of pipeline '{pipeline.name}' was committed, but "
                f"table {pipeline.table} knows {'none' if last < 0 else f'batches up to {last} only'}. The table or "
                "its metastore was restored or made anew; going on would leave out what the batches between took."
            )
            if other == self.identity:
                also = " To take these batches again, run the pipeline once with --after-restore."
        else:
            what = (
                f"table {pipeline.table} has batches of pipeline '{pipeline.name}' up to {last}, but the checkpoint "
                f"{self.folder} {'is new' if begun < 0 else f'knows batches up to {max(begun, done)} only'}"
                f"{'' if other == self.identity else ', and is not the one they were made with'}. The checkpoint was "
                "lost, restored or exchanged; going on would pass over some of the source, or read it again."
            )
        raise _mismatch(
            f"Checkpoint and table do not fit: {what}{also} Put the right checkpoint back. If there is none, give the "
            f"pipeline a new name and an empty checkpoint, and {pipeline.source.restart_remedy}; in a table with a "
            "primary key the same records may be read again."
        )


def _remove_after(folder: Path, last: int) -> None:
    """Removes the notes of the batches after one, the newest first."""
    for number in sorted(_numbers(folder), reverse=True):
        if number > last:
            _remove(folder, number)
    synchronise(folder)


def _remove(folder: Path, number: int) -> None:
    # A checksum of Spark, which made such files in earlier versions.
    (folder / f".{number}.crc").unlink(missing_ok=True)
    (folder / str(number)).unlink(missing_ok=True)


def _numbers(folder: Path) -> list[int]:
    # Drafts begin with a dot, and so do Spark's checksums.
    return [int(name) for name in os.listdir(folder) if name.isascii() and name.isdigit()] if folder.is_dir() else []


def open_checkpoint(pipeline: Pipeline, table_uuid: str) -> Checkpoint:
    """Opens the checkpoint of a pipeline, and makes it where there is none.

    Raises:
        InvalidArgument: It belongs to something else, or cannot be understood (reason `CHECKPOINT_MISFIT`).
    """
    path = pipeline.checkpoint / "pipeline.json"
    facts = {"pipeline": pipeline.name, "table_uuid": table_uuid, "source": pipeline.source.identity}
    try:
        found = json.loads(path.read_bytes())
        identity = found["checkpoint"]
        if not isinstance(identity, str):
            raise TypeError("its identity is no text")
    except FileNotFoundError:
        if any((pipeline.checkpoint / part).exists() for part in ("spark", "files", "offsets")):
            raise _mismatch(
                f"The checkpoint {pipeline.checkpoint} has lost its file pipeline.json. Put the whole folder back, or "
                "give the pipeline an empty one."
            ) from None
        identity = uuid.uuid4().hex
        try:
            replace(path, {"checkpoint": identity, **facts})
        except OSError as error:
            raise InvalidArgument(
                f"The checkpoint {pipeline.checkpoint} cannot be written: {error.strerror}. Check `checkpoint` in "
                f"{pipeline.file} and the folder's permissions.",
                metadata={"path": str(pipeline.checkpoint)},
            ) from error
        return Checkpoint(pipeline.checkpoint, identity)
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise _not_understood(path, error) from error
    words = {"pipeline": "pipeline", "table_uuid": "table", "source": "source"}
    for key, wanted in facts.items():
        if found.get(key) != wanted:
            also = (
                " (the table was dropped and made anew, or the metastore is another one)" if key == "table_uuid" else ""
            )
            raise _mismatch(
                f"The checkpoint {pipeline.checkpoint} belongs to the {words[key]} '{found.get(key)}', and the "
                f"pipeline has '{wanted}'{also}. Give it a checkpoint of its own, or put back what was changed."
            )
    return Checkpoint(pipeline.checkpoint, identity)


def _mismatch(message: str) -> InvalidArgument:
    return InvalidArgument(message, reason=CHECKPOINT_MISFIT)


def _not_understood(path: Path, error: Exception) -> InvalidArgument:
    return _mismatch(f"The checkpoint's file {path} cannot be understood: {error}. Put the whole folder back.")
