"""When a source that follows is polled: at once while more waits, else after the pipeline's interval.

Spark polls anew as soon as a batch is done, and after the interval where a poll found nothing. A batch that took all
that there was is followed by a poll that finds nothing without a look, so that a trickle of records or files makes a
batch in each interval, while a backlog is read without pauses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OPTION: Final = "pause_when_drained"


class DrainedPause:
    """Answers the poll behind a batch that left nothing in its source.

    Args:
        options: Of the source; without `OPTION` there are no pauses.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._is_on = options.get(OPTION) == "true"
        self._drained_at: int | None = None

    def is_due(self, batch_id: int) -> bool:
        """Whether the poll for a batch is to find nothing; once only."""
        is_due = self._drained_at == batch_id
        self._drained_at = None
        return is_due

    def note(self, next_batch_id: int, lag: int) -> None:
        """Notes that all batches before one are planned, and what the last of them left."""
        if self._is_on and lag == 0:
            self._drained_at = next_batch_id
