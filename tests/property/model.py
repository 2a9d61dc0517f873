"""What a keyed table holds, as a dict: semantics 1.3, 2.1, 7.1 and 7.2 in the simplest form there is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

Key = tuple[str, int]
Kind = Literal["+I", "+U", "-U", "-D"]


@dataclass(frozen=True)
class Record:
    """A row as it is written."""

    p: str
    k: int
    s: int | None
    v: str | None
    kind: Kind = "+I"

    @property
    def key(self) -> Key:
        return (self.p, self.k)


Visible = dict[Key, tuple[int | None, str | None]]


@dataclass
class TableModel:
    """One table.

    Args:
        sequence: How `sequence.field` orders: not at all, rising, or falling.
    """

    sequence: Literal["none", "asc", "desc"]
    winners: dict[Key, Record] = field(default_factory=dict)
    states: dict[int, Visible] = field(default_factory=dict)

    def visible(self) -> Visible:
        return {key: (r.s, r.v) for key, r in self.winners.items() if r.kind in ("+I", "+U")}

    def write(self, records: Sequence[Record]) -> None:
        for record in records:
            current = self.winners.get(record.key)
            if current is None or self._rank(record) >= self._rank(current):
                self.winners[record.key] = record

    def remove(self, condition: Callable[[Key], bool]) -> None:
        self.winners = {key: record for key, record in self.winners.items() if not condition(key)}

    def note(self, snapshot_id: int) -> None:
        assert snapshot_id == len(self.states) + 1, "snapshots are numbered one after the other"
        self.states[snapshot_id] = self.visible()

    def _rank(self, record: Record) -> tuple[bool, int]:
        """NULL loses in both orders."""
        if self.sequence == "none":
            return (True, 0)
        if record.s is None:
            return (False, 0)
        return (True, record.s if self.sequence == "asc" else -record.s)


@dataclass(frozen=True)
class Condition:
    """A filter as SQL and as Python."""

    sql: str
    holds: Callable[[Mapping[str, Any]], bool]
