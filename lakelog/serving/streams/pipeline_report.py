"""Reports the state of a pipeline or stream to the metastore, for `lakelog pipelines`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import Fenced, LakelogError
from lakelog.format.jobs.work import Pipeline
from lakelog.serving.logging_setup import Logger

_MAX_LINE: Final = 2000
_MAX_SOURCE: Final = 4000


class PipelineReport:
    """Keeps the last report, and sends the next. Only one thread at a time may use it.

    Args:
        metastore: Gets the reports.
        log: Gets a line for a failed report.
        name: The pipeline or stream.
        table: The table that it fills, or reads.
        source: What it reads, for people; a long text is cut.
    """

    def __init__(self, metastore: Metastore, log: Logger, *, name: str, table: str, source: str) -> None:
        self._metastore = metastore
        self._log = log
        self._epoch = 0
        self.state = Pipeline(
            name=name,
            table=table,
            source=source[:_MAX_SOURCE],
            state="starting",
            last_batch_id=None,
            position="",
            lag=None,
            total_rows=0,
            dead_letter_rows=0,
            last_error="",
        )
        """The next report; code with better knowledge replaces it."""

    def lead(self, epoch: int, is_same: Callable[[Pipeline], bool]) -> None:
        """Reports under this epoch from here on. An earlier run's report stays until there is a better one.

        Args:
            epoch: The lease's epoch.
            is_same: Whether an earlier report under this name is about the same work.
        """
        self._epoch = epoch
        before = next((found for found in self._metastore.list_pipelines() if found.name == self.state.name), None)
        if before is not None and is_same(before):
            self.state = replace(
                self.state,
                last_batch_id=before.last_batch_id,
                position=before.position,
                lag=before.lag,
                total_rows=before.total_rows,
                dead_letter_rows=before.dead_letter_rows,
            )
        self.update(state="starting")

    def update(self, *, state: str | None = None, last_error: str | None = None) -> None:
        """Reports the known state, with another state or error if given; never raises lakelog errors."""
        self.state = replace(
            self.state,
            state=self.state.state if state is None else state,
            last_error=self.state.last_error if last_error is None else last_error,
        )
        if not self._epoch:
            return
        try:
            self._metastore.report_pipeline(self.state, self._epoch)
        except Fenced:
            # The lease renewer, or the next commit, gets the same error and acts on it.
            self._log.warning("report refused: another instance has taken over", epoch=self._epoch)
        except LakelogError as error:
            self._log.warning("report lost", error=error.message)

    def report_failure(self, error: BaseException) -> None:
        """Reports an error after which the stream goes on."""
        self.update(last_error=_say(error))

    def report_end(self, error: BaseException | None) -> None:
        """Reports the end: `stopped`, or `failed` with the error."""
        if error is None:
            self.update(state="stopped")
        else:
            self.update(state="failed", last_error=_say(error))


def to_line(text: str) -> str:
    """A text as one line that the metastore accepts; a long one is cut. Pure."""
    line = " ".join(text.split())
    # It may contain text of a bad record, and the metastore accepts neither U+0000 nor half characters.
    line = line.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")
    return line if len(line) <= _MAX_LINE else line[: _MAX_LINE - 3] + "..."


def _say(error: BaseException) -> str:
    return to_line(str(error) or type(error).__name__)
