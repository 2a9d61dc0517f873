"""When a followed source is polled: at once while more data waits, otherwise after the pipeline's interval.

Spark polls again as soon as a batch is done, and after the interval if a poll found nothing. After a batch that took
everything, the next poll reports nothing without looking. So a trickle of records or files makes one batch in each
interval, while a backlog is read without pauses.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

OPTION: Final = "pause_when_drained"


class DrainedPause:
    """Answers the poll after a batch that left nothing in its source.

    Args:
        options: The source's options; without `OPTION` there are no pauses.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._is_on = options.get(OPTION) == "true"
        self._drained_at: int | None = None

    def is_due(self, batch_id: int) -> bool:
        """Whether the poll for a batch must find nothing; once only."""
        is_due = self._drained_at == batch_id
        self._drained_at = None
        return is_due

    def note(self, next_batch_id: int, lag: int) -> None:
        """Records that all batches before this one are planned, and what the last of them left."""
        if self._is_on and lag == 0:
            self._drained_at = next_batch_id
