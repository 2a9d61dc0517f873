"""The order in which commits to several tables are shown, so that each is shown whole or not at all (semantics 5.3).

Snapshots of each table arrive in order, but one table's may arrive long before another's. A commit is *ready* when it
is the next one of each table that it touched: then everything that it was based on was shown. Commits to other tables
do not wait for it. Since commits were made one after the other, one of the known ones is always ready, or is the next
one of a table without a known snapshot.

Everything here is pure except for the state of `CommitOrder` itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakelog.errors import HistoryDiverged
from lakelog.format.tables.snapshot import Snapshot

MAX_KNOWN: Final = 1000
"""Snapshots of a table that are known and not yet shown; later ones are requested when there is room again."""

STRETCH_ROWS: Final = 1 << 19
"""Rows of one table that are read together when others are waiting, too."""


@dataclass(frozen=True)
class Commit:
    """One commit, as far as it touched the followed tables.

    Args:
        snapshots: The snapshot it made of each, by table uuid, in the order of the tables.
    """

    snapshots: Mapping[str, Snapshot]


@dataclass
class _Queue:
    """The known snapshots of one table.

    Args:
        after: The last snapshot that was shown, or after which the reader began.
        after_uuid: Its uuid; empty if it is not known.
        known: The snapshots after it.
        is_cut: Whether there are more after these, which were not kept.
        has_ended: Whether no more of the table is shown.
    """

    after: int
    after_uuid: str
    known: deque[Snapshot] = field(default_factory=deque)
    is_cut: bool = False
    has_ended: bool = False

    @property
    def last(self) -> tuple[int, str]:
        if self.known:
            return self.known[-1].snapshot_id, self.known[-1].snapshot_uuid
        return self.after, self.after_uuid


class CommitOrder:
    """Puts the snapshots of several tables in order. Does no I/O; one thread uses it.

    Args:
        after: The last snapshot that is done and its uuid (empty: not known), by table uuid. A commit that is done in
            one table and not in another is shown for the tables in which it is not done.
        last_watermark_ms: A table ends before its first snapshot with a greater watermark, and so does everything that
            was committed together with that; None: none ends.
        max_known: Snapshots of a table that are kept.
        first: The commit that made this table's next snapshot comes before all others: its reader has a part of it.
    """

    def __init__(
        self,
        after: Mapping[str, tuple[int, str]],
        *,
        last_watermark_ms: int | None = None,
        max_known: int = MAX_KNOWN,
        first: str | None = None,
    ) -> None:
        self._tables = {table_uuid: _Queue(*position) for table_uuid, position in after.items()}
        self._last_watermark_ms = last_watermark_ms
        self._max_known = max_known
        self._first = first

    @property
    def has_ended(self) -> bool:
        """Whether no more of any table is shown."""
        return all(table.has_ended for table in self._tables.values())

    def end(self, table_uuid: str) -> None:
        """Ends a table, and everything that was committed together with it."""
        table = self._tables[table_uuid]
        table.has_ended = True
        table.is_cut = False
        table.known.clear()

    def add(self, table_uuid: str, snapshots: Sequence[Snapshot], *, more: bool = False) -> None:
        """Adds snapshots of a table, in their order; known ones can be repeated.

        Args:
            table_uuid: The table.
            snapshots: Snapshots without gaps.
            more: Whether there are others after them.

        Raises:
            HistoryDiverged: A snapshot does not follow the one before.
        """
        table = self._tables[table_uuid]
        if table.has_ended:
            return
        last, last_uuid = table.last
        new = [each for each in snapshots if each.snapshot_id > last]
        if table.is_cut and (not new or new[0].snapshot_id != last + 1):
            return
        if new and new[0].snapshot_id != last + 1:
            # There is a gap before them: they come after snapshots that were never added.
            table.is_cut = True
            return
        for each in new:
            if last_uuid and each.parent_uuid != last_uuid:
                raise HistoryDiverged(
                    f"Snapshot {each.snapshot_id} of table {table_uuid} follows {each.parent_uuid}, but {last_uuid} "
                    "came before it: the metastore's database was restored and went on. Stop, and compare what was "
                    "read with the table.",
                    metadata={"table_uuid": table_uuid, "snapshot_id": str(each.snapshot_id)},
                )
            last_uuid = each.snapshot_uuid
        room = self._max_known - len(table.known)
        table.known.extend(new[:room])
        table.is_cut = more or len(new) > room

    def has_no_more(self, table_uuid: str) -> None:
        """Notes that there are no snapshots after the known ones of a table; the next ones come by `add`."""
        self._tables[table_uuid].is_cut = False

    def list_wanted(self) -> list[tuple[str, int]]:
        """Tables without known snapshots that have more: uuid, and the snapshot after which to continue."""
        return [(uuid, table.after) for uuid, table in self._tables.items() if table.is_cut and not table.known]

    def take(self) -> list[Commit]:
        """Returns the next commits to show: those that are ready, oldest first, until each table has had its share.

        A table's snapshots in one answer have one schema. If there are other tables, they have less than `STRETCH_ROWS`
        rows, without the last one.
        """
        taken: list[Commit] = []
        rows: dict[str, int] = {}
        schemas: dict[str, int] = {}
        while True:
            open_tables = self._count_open()
            found = self._find_next(rows, schemas)
            if found is None:
                if self._count_open() < open_tables:
                    # Commits that were checked before may end with them.
                    continue
                return taken
            for table_uuid, snapshot in found.snapshots.items():
                table = self._tables[table_uuid]
                table.known.popleft()
                table.after, table.after_uuid = snapshot.snapshot_id, snapshot.snapshot_uuid
                rows[table_uuid] = rows.get(table_uuid, 0) + snapshot.added_rows
                schemas[table_uuid] = snapshot.schema_id
            taken.append(found)
            self._first = None

    def _count_open(self) -> int:
        return sum(not table.has_ended for table in self._tables.values())

    def _find_next(self, rows: Mapping[str, int], schemas: Mapping[str, int]) -> Commit | None:
        best: tuple[int, Commit] | None = None
        share_rows = STRETCH_ROWS if len(self._tables) > 1 else None
        for table_uuid, table in self._tables.items():
            if not table.known or self._first not in (None, table_uuid):
                continue
            commit = self._to_commit(table_uuid, table.known[0])
            if commit is None:
                continue
            if any(
                (share_rows is not None and rows.get(uuid, 0) >= share_rows)
                or schemas.get(uuid, snapshot.schema_id) != snapshot.schema_id
                for uuid, snapshot in commit.snapshots.items()
            ):
                continue
            time_ms = max(snapshot.committed_at_ms for snapshot in commit.snapshots.values())
            if best is None or time_ms < best[0]:
                best = (time_ms, commit)
        return None if best is None else best[1]

    def _to_commit(self, table_uuid: str, snapshot: Snapshot) -> Commit | None:
        """The commit that made a table's next snapshot, if it is ready."""
        parts: dict[str, Snapshot] = {}
        for uuid, table in self._tables.items():
            wanted = snapshot.snapshot_id if uuid == table_uuid else snapshot.co_committed.get(uuid, 0)
            if wanted <= table.after:
                continue
            if table.has_ended:
                self.end(table_uuid)
                return None
            if not table.known or table.known[0].snapshot_id != wanted:
                return None
            parts[uuid] = table.known[0]
        bound = self._last_watermark_ms
        if bound is not None and any(
            each.watermark_ms is not None and each.watermark_ms > bound for each in parts.values()
        ):
            for uuid in parts:
                self.end(uuid)
            return None
        return Commit(parts)
