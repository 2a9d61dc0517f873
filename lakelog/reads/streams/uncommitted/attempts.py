"""Keeps the attempts whose rows are shown before their commit: their states, and which of their rows have arrived.

Only rows of attempts that were open when first seen, and whose writers were alive, are shown early. The rows of an
attempt that was committed by then come with its snapshot, so no state of ended attempts is needed. An attempt whose
writer falls silent is forgotten like an aborted one. If the writer reports again, rows that it sends from then on are
shown; the rest comes with the commit, if there is one.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from lakelog.client.metastore.metastore import Metastore
from lakelog.format.commit.facts import AttemptState, SentAttempt
from lakelog.format.keys.index_ranges import IndexRanges
from lakelog.format.tables.table import TableInfo
from lakelog.log.records import FetchedRecords

_log = logging.getLogger(__name__)

RowIndices = npt.NDArray[np.int64]

_MAX_OPEN: Final = 1000
"""Attempts that are tracked at once, as many as the metastore reports in one answer; rows of others come with their
commits."""

_MAX_RANGES: Final = 10_000
"""Ranges of one attempt; the rows of each bucket make one range for each batch that was sent."""

_CLOCKS_MS: Final = 300_000
"""How far the clocks of the metastore's database and of readers may differ."""

_COUNTED: Final = 1 << 36
"""Rows below this index are numbered from 0 on without gaps; Spark's tasks number theirs from here on, each on its own
and again when it runs again."""

_ID: Final = re.compile(r"[0-9a-f]{32}")


@dataclass
class _Attempt:
    """One attempt.

    Args:
        opened_ms: When it was opened, by the metastore's clock.
        seen: Indexes of its rows that have arrived.
        is_left: Whether rows that it sends from now on come only with its commit.
        committed_by: The table's newest snapshot at a moment when it was committed; None: it was open so far.
    """

    opened_ms: int
    seen: IndexRanges = field(default_factory=IndexRanges)
    is_left: bool = False
    committed_by: int | None = None


class OpenAttempts:
    """Attempts at one table. One thread uses it.

    Args:
        metastore: Knows what became of them.
        table: The table as it was at the subscription.
        now_ms: The time of this machine.
        counts: Show rows early only of attempts for which it can be decided at the commit whether all have arrived.
    """

    def __init__(self, metastore: Metastore, table: TableInfo, now_ms: int, *, counts: bool) -> None:
        self._metastore = metastore
        self._table = table
        self._counts = counts
        # A writer that began before the columns changed sends records that have those of then.
        self._opened_after_ms = now_ms + _CLOCKS_MS if table.schema.schema_id else 0
        self._known: dict[str, _Attempt] = {}
        self._is_altered = False
        # Two calls at once take the time of one.
        self._asking = ThreadPoolExecutor(1, thread_name_prefix="lakelog-uncommitted-asking")

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Forgets all attempts."""
        self._known.clear()

    def pick(self, records: FetchedRecords) -> list[tuple[str, RowIndices]]:
        """Returns which of some records are to be shown early; blocks on the metastore if an attempt is new.

        Returns:
            By attempt, in the order in which they are first seen: positions of its records that arrive for the first
            time, by their index.
        """
        encoded = records.attempts.dictionary_encode()
        ids = [attempt.decode("ascii", "replace") for attempt in encoded.dictionary.to_pylist()]
        self._open([each for each in ids if each not in self._known and _ID.fullmatch(each)])
        indexes = np.asarray(records.indexes.fill_null(-1))
        codes = np.asarray(encoded.indices.fill_null(-1))
        order = np.lexsort((indexes, codes))
        starts = np.searchsorted(codes[order], np.arange(len(ids) + 1))
        found = []
        for number, attempt_id in enumerate(ids):
            attempt = self._known.get(attempt_id)
            if attempt is None or attempt.is_left:
                continue
            own = order[starts[number] : starts[number + 1]]
            own = own[indexes[own] >= 0]
            if self._counts and len(own) and indexes[own[-1]] >= _COUNTED:
                attempt.is_left = True
                continue
            own = own[attempt.seen.add(indexes[own])]
            attempt.is_left = len(attempt.seen) > _MAX_RANGES
            if len(own):
                found.append((attempt_id, own))
        return found

    def leave(self, attempt_id: str) -> None:
        """Leaves later rows of an attempt to its commit; perhaps some were lost."""
        if attempt_id in self._known:
            self._known[attempt_id].is_left = True

    def opened_ms(self, attempt_id: str) -> int:
        """Returns when an attempt was opened; its rows were picked before."""
        return self._known[attempt_id].opened_ms

    def has_some(self, attempt_id: str) -> bool:
        """Whether rows of an attempt may have been shown."""
        return attempt_id in self._known

    def has_all(self, attempt_id: str, row_count: int) -> bool:
        """Whether all rows of an attempt, this many and numbered without gaps, have been shown."""
        attempt = self._known.get(attempt_id)
        return attempt is not None and not attempt.is_left and attempt.seen.holds_all(row_count)

    def lacks_some(self, attempt_id: str, row_count: int) -> bool:
        """Whether some rows of an attempt have been shown, and the others would be when they arrive."""
        attempt = self._known.get(attempt_id)
        return attempt is not None and not attempt.is_left and not attempt.seen.holds_all(row_count)

    def forget(self, attempt_id: str) -> None:
        """Ends an attempt: rows of it that arrive from now on are not shown."""
        self._known.pop(attempt_id, None)

    def find_given_up(self, baseline_until: int) -> list[str]:
        """Returns attempts that are not expected in a snapshot; blocks on the metastore.

        They were aborted, or their writers are silent. Rows of append tables cannot be taken back, so silence makes no
        difference for them.

        Args:
            baseline_until: All snapshots up to this one have been shown, and their attempts forgotten.
        """
        if not self._known:
            return []
        found = self._metastore.find_attempts(self._table.table_uuid, list(self._known))
        committed = [each for each, sent in found.items() if sent.state is AttemptState.COMMITTED]
        over = [each for each, sent in found.items() if sent.state is AttemptState.ABORTED]
        if not self._counts:
            over += [each for each, sent in found.items() if sent.is_silent]
        # Their commit was to other tables, or is skipped: otherwise its snapshot would have arrived by now.
        over += [each for each in committed if self._is_passed(each, baseline_until)]
        new = [each for each in committed if self._known[each].committed_by is None]
        if new:
            # Read after their states, so their snapshots are among those up to this one.
            (latest,) = self._metastore.list_latest([self._table.table_uuid])
            for each in new:
                self._known[each].committed_by = latest.snapshot_id
        return over

    def _is_passed(self, attempt_id: str, baseline_until: int) -> bool:
        committed_by = self._known[attempt_id].committed_by
        return committed_by is not None and committed_by <= baseline_until

    def _open(self, new: Sequence[str]) -> None:
        room = _MAX_OPEN - len(self._known)
        if not new or room <= 0 or self._is_altered:
            return
        # Read after the records: a writer with another schema has sent them after the table had it.
        schema_id = self._asking.submit(self._find_schema_id)
        found: dict[str, SentAttempt] = {}
        for start in range(0, len(new), _MAX_OPEN):
            found |= self._metastore.find_attempts(self._table.table_uuid, new[start : start + _MAX_OPEN])
        is_shown = {
            each: sent.state is AttemptState.OPEN and not sent.is_silent and sent.opened_ms >= self._opened_after_ms
            for each, sent in found.items()
        }
        opened = [each for each in new if is_shown[each]][:room]
        if opened and schema_id.result() != self._table.schema.schema_id:
            self._is_altered = True
            _log.warning(
                "%s: its columns have changed since it was subscribed to; rows come with their commits from now on, "
                "until it is subscribed to anew",
                self._table.name,
            )
            return
        self._known.update((each, _Attempt(found[each].opened_ms)) for each in opened)

    def _find_schema_id(self) -> int:
        return self._metastore.get_table_by_uuid(self._table.table_uuid).schema.schema_id
