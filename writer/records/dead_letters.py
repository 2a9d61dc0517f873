"""Dead letters: what tasks left out, kept for people, each once however often a batch is repeated.

A file of letters is named by (pipeline, batch, source file's number in the batch), so that a repetition replaces it,
and appears at once when the source file has been read to its end.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from lakelog.records.bad_records import BadRecord
from lakelog.spark.executor_files import check_folder_is_shared
from lakelog.storage.objects.durable import synchronise

_SUFFIX: Final = ".jsonl"
_COUNT_BYTES: Final = 4 << 20


class LetterFile:
    """The letters of one part of a batch, as a source file. Runs on executors.

    Args:
        folder: The dead-letter folder; made with the first letter.
        name: As of `letter_name`.
        facts: What every letter says first.
        place: What the place of a record in its source is called.
        mark: A file in the folder by which an executor knows that it is the driver program's; None: it is certain.
    """

    def __init__(
        self, folder: Path, name: str, facts: dict[str, Any], place: str = "line", mark: str | None = None
    ) -> None:
        self._final = folder / name
        self._draft = folder / f".{name}.{uuid.uuid4().hex}"
        self._facts = facts
        self._place = place
        self._mark = mark
        self._stream: BinaryIO | None = None

    def write(self, letters: list[BadRecord]) -> None:
        """Adds letters.

        Raises:
            InvalidArgument: The folder is not the driver program's (reason `FOLDER_NOT_SHARED`).
        """
        if not letters:
            return
        if self._stream is None:
            if self._mark is not None:
                check_folder_is_shared("the dead-letter folder", self._final.parent, self._mark)
            self._final.parent.mkdir(parents=True, exist_ok=True)
            self._stream = self._draft.open("wb")
        for letter in letters:
            self._stream.write(letter.to_json(self._facts, self._place))

    def finish(self) -> None:
        """Makes the letters appear, durably; those of an earlier try of the same file go."""
        if self._stream is None:
            self._final.unlink(missing_ok=True)
            return
        self._stream.flush()
        os.fsync(self._stream.fileno())
        self._stream.close()
        self._draft.replace(self._final)
        synchronise(self._final.parent)

    def abort(self) -> None:
        """Takes back what `finish` has not made appear; never raises."""
        if self._stream is not None:
            self._stream.close()
            with contextlib.suppress(OSError):
                self._draft.unlink(missing_ok=True)


def letter_name(pipeline: str, batch_id: int, number: int) -> str:
    """The name of a source file's letters; `number` is the file's place in the batch. Pure."""
    return f"{pipeline}-{batch_id:010d}-{number:06d}{_SUFFIX}"


def mark_name(pipeline: str, batch_id: int) -> str:
    """The name of the file that marks the folder while a batch runs on executors. Pure."""
    return f".{pipeline}-{batch_id:010d}-driver"


@contextlib.contextmanager
def marked_folder(folder: Path, pipeline: str, batch_id: int) -> Iterator[None]:
    """Marks the folder for executors; `delete_letters` removes the mark of a driver program that was killed."""
    mark = folder / mark_name(pipeline, batch_id)
    folder.mkdir(parents=True, exist_ok=True)
    mark.touch()
    try:
        yield
    finally:
        mark.unlink(missing_ok=True)


def delete_letters(folder: Path, pipeline: str, batch_id: int) -> None:
    """Removes what an earlier try of a batch left, drafts too, before the batch is done again."""
    for path in _files(folder, pipeline, batch_id, drafts=True):
        path.unlink(missing_ok=True)


def count_letters(folder: Path, pipeline: str, batch_id: int) -> int:
    """How many letters a batch has."""
    return sum(_count_lines(path) for path in _files(folder, pipeline, batch_id, drafts=False))


def _files(folder: Path, pipeline: str, batch_id: int, *, drafts: bool) -> Iterator[Path]:
    begin = f"{pipeline}-{batch_id:010d}-"
    if not folder.is_dir():
        return
    for path in folder.iterdir():
        if path.name.startswith(begin) or (drafts and path.name.startswith(f".{begin}")):
            yield path


def _count_lines(path: Path) -> int:
    count = 0
    with path.open("rb") as stream:
        while chunk := stream.read(_COUNT_BYTES):
            count += chunk.count(b"\n")
    return count
