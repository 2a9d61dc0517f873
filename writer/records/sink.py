"""Where the bad records of a part of a batch go: to dead letters, or into the error that stops the pipeline."""

from __future__ import annotations

from collections.abc import Callable

from lakelog.errors import LakelogError
from lakelog.records.bad_records import BadRecord

from .dead_letters import LetterFile


class BadRecordSink:
    """Takes bad records as they are found, and settles them in the order in which they stand in the source.

    Args:
        letters: The file for them; None: the first is an error.
        to_error: Makes that error.
    """

    def __init__(self, letters: LetterFile | None, to_error: Callable[[BadRecord], LakelogError]) -> None:
        self._letters = letters
        self._to_error = to_error
        self._waiting: list[BadRecord] = []

    def report(self, record: BadRecord) -> None:
        """Takes one."""
        self._waiting.append(record)

    def flush(self) -> None:
        """Settles what was reported."""
        waiting = sorted(self._waiting, key=lambda record: 1 << 62 if record.line is None else record.line)
        self._waiting.clear()
        if not waiting:
            return
        if self._letters is None:
            raise self._to_error(waiting[0])
        self._letters.write(waiting)

    def finish(self) -> None:
        """Makes the letters appear."""
        if self._letters is not None:
            self._letters.finish()

    def abort(self) -> None:
        """Takes back what `finish` has not made appear; never raises."""
        if self._letters is not None:
            self._letters.abort()
