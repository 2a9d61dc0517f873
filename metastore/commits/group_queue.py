"""Which waiting commits go together and which go next: plain bookkeeping, no I/O, no clock.

Objectives, which pull against each other: commits to one table take effect in the order in which they came; those
that wait together share a transaction; tables do not wait for each other; a commit over several tables is not starved;
no caller keeps the tables of others waiting, however many tables it commits to.

Invariants:

1. A table is in at most one group at a time.
2. A commit is taken only when it is the oldest one of all its tables, so no commit overtakes it at any of them.
3. A group is a run of commits with the same tables, none of which asked to go alone; or a single one that did.
4. Callers get groups in turn, and one of them never has all groups: those of a caller can wait for each other in the
   database, for instance for a writer's name. A group counts for the caller of its first commit.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Final, Generic, Protocol, TypeVar

MAX_GROUP_BYTES: Final = 1 << 20
"""Of the properties of a group's commits. They are sent to the database at once, and meanwhile nothing else runs."""


class Waiting(Protocol):
    """What the queue must know of a commit."""

    @property
    def tables(self) -> frozenset[str]:
        """The tables that it changes or guards, at least one."""
        ...

    @property
    def origin(self) -> str:
        """The caller."""
        ...

    @property
    def alone(self) -> bool:
        """Whether it may not share a transaction."""
        ...

    @property
    def file_count(self) -> int:
        """How many files it adds."""
        ...

    @property
    def property_bytes(self) -> int:
        """About how many bytes its properties have: their characters."""
        ...

    @property
    def ready(self) -> bool:
        """Whether it can be taken; until then the commits after it wait too."""
        ...

    @property
    def given_up(self) -> bool:
        """Whether no one waits for it any more."""
        ...


W = TypeVar("W", bound=Waiting)


class GroupQueue(Generic[W]):
    """Commits that wait, by table.

    Args:
        max_commits: Commits of a group.
        max_files: Files of a group; a larger commit makes a group of its own.
        max_of_caller: Groups of one caller at once.
    """

    def __init__(self, max_commits: int, max_files: int, max_of_caller: int) -> None:
        self._max_commits = max_commits
        self._max_files = max_files
        self._max_of_caller = max_of_caller
        self._queues: dict[str, deque[W]] = {}
        # By table: the caller of its group.
        self._busy: dict[str, str] = {}
        self._groups: Counter[str] = Counter()
        # By caller, in the order in which they come next: tables whose oldest commit may have become the next one to
        # take. Dicts for their order and uniqueness; none is empty.
        self._candidates: dict[str, dict[str, None]] = {}
        self.commit_count = 0
        self.file_count = 0

    def add(self, waiting: W) -> None:
        """Adds a commit after all others of its tables."""
        for table in waiting.tables:
            self._queues.setdefault(table, deque()).append(waiting)
            self._look_at(table)
        self.commit_count += 1
        self.file_count += waiting.file_count

    def take(self) -> list[W]:
        """The next group, whose tables are busy from now on; empty when no commit can go now."""
        while (origin := self._next_origin()) is not None:
            tables = self._candidates.pop(origin)
            table = next(iter(tables))
            del tables[table]
            if tables:
                # The caller goes after all others.
                self._candidates[origin] = tables
            group = self._take_from(table)
            if group:
                taken_by = group[0].origin
                self._busy |= dict.fromkeys(group[0].tables, taken_by)
                self._groups[taken_by] += 1
                return group
        return []

    def _next_origin(self) -> str | None:
        return next((each for each in self._candidates if self._groups[each] < self._max_of_caller), None)

    def look_again(self, tables: Iterable[str]) -> None:
        """Notes that a commit of these tables has become ready, or was given up."""
        for table in tables:
            self._look_at(table)

    def finish(self, tables: Iterable[str]) -> None:
        """Sets the tables of a group free."""
        origins = {self._busy.pop(table) for table in tables}
        for origin in origins:
            self._groups[origin] -= 1
            if not self._groups[origin]:
                del self._groups[origin]
        for table in tables:
            self._look_at(table)

    def drain(self) -> list[W]:
        """Takes all waiting commits, to be refused."""
        waiting = {id(item): item for queue in self._queues.values() for item in queue}
        self._queues.clear()
        self._candidates.clear()
        self.commit_count = self.file_count = 0
        return list(waiting.values())

    def _look_at(self, table: str) -> None:
        if table in self._queues and table not in self._busy:
            self._candidates.setdefault(self._queues[table][0].origin, {})[table] = None

    def _take_from(self, table: str) -> list[W]:
        group: list[W] = []
        files = size_bytes = 0
        while (head := self._oldest(table)) is not None:
            if head.given_up:
                self._pop(head)
                continue
            if not head.ready:
                break
            if group and (head.alone or head.tables != group[0].tables or len(group) >= self._max_commits):
                break
            if group and files + head.file_count > self._max_files:
                break
            if group and size_bytes + head.property_bytes > MAX_GROUP_BYTES:
                break
            self._pop(head)
            group.append(head)
            files += head.file_count
            size_bytes += head.property_bytes
            if head.alone:
                break
        return group

    def _oldest(self, table: str) -> W | None:
        """The oldest commit of a table if it is the oldest of all its tables and none of them is busy."""
        queue = self._queues.get(table)
        if not queue:
            return None
        head = queue[0]
        for other in head.tables:
            if other in self._busy or self._queues[other][0] is not head:
                return None
        return head

    def _pop(self, waiting: W) -> None:
        for table in waiting.tables:
            queue = self._queues[table]
            queue.popleft()
            if not queue:
                del self._queues[table]
            elif queue[0].tables != waiting.tables:
                # Commits with another set of tables come to the front: the tables they wait for may be free already.
                for other in queue[0].tables:
                    self._look_at(other)
        self.commit_count -= 1
        self.file_count -= waiting.file_count
