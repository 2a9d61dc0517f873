"""What a reader is told of rows before their commit: random writers of few keys, against a model in plain Python.

In the model a table is a dict, a commit applies an attempt's rows to it at once, and what is wanted of a key is its row
in the last snapshot with the rows of open attempts behind it, in the order in which these were first seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import pyarrow as pa
import pytest

from lakelog.format.merge.changelog import ChangelogRules
from lakelog.format.merge.uncommitted_overlay import KEY_COLUMN, UncommittedOverlay, UncommittedRows
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind

SCHEMA = pa.schema([pa.field("k", pa.string(), nullable=False), ("v", pa.int64()), ("s", pa.int64())])
KEYS = "abcd"

Row = tuple[str, int | None, int]
Written = tuple[RowKind, Row]


def to_table(rows: Sequence[Written], *, timed: bool = False) -> pa.Table:
    columns = {
        KEY_COLUMN: pa.array([row[0].encode() for _, row in rows], pa.binary()),
        "k": pa.array([row[0] for _, row in rows], pa.string()),
        "v": pa.array([row[1] for _, row in rows], pa.int64()),
        "s": pa.array([row[2] for _, row in rows], pa.int64()),
        ROW_KIND_COLUMN: pa.array([int(kind) for kind, _ in rows], pa.int8()),
    }
    return pa.table(columns | ({"_commit_timestamp": pa.array([0] * len(rows), pa.int64())} if timed else {}))


@dataclass
class World:
    """A table, attempts at it, and a reader who believes what it is told.

    Args:
        rules: Of the table.
        takes_back: Control: or nobody tells the overlay that attempts were given up.
        settles: Control: or nobody tells it what commits have made of its keys.
    """

    rules: ChangelogRules
    takes_back: bool = True
    settles: bool = True
    records: dict[str, Written] = field(default_factory=dict)
    """The record that decides each key, deletes too."""
    open: dict[str, list[Written]] = field(default_factory=dict)
    """What each attempt has sent so far and was told."""
    reported: dict[str, Row] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.overlay = UncommittedOverlay(SCHEMA, self.rules)

    def fold(self, records: dict[str, Written], rows: Sequence[Written]) -> dict[str, Written]:
        result = dict(records)
        for written in rows:
            key = written[1][0]
            if key not in result or not self.rules.sequence or written[1][2] >= result[key][1][2]:
                result[key] = written
        return result

    def find(self, keys: Sequence[str]) -> pa.Table:
        return to_table([self.records[key] for key in keys if key in self.records], timed=True)

    def send(self, rows: dict[str, list[Written]]) -> None:
        uncommitted = [UncommittedRows(attempt, to_table(each)) for attempt, each in rows.items()]
        unknown = self.overlay.find_unknown(uncommitted).column("k").to_pylist()
        self.believe(self.overlay.add(uncommitted, self.find(unknown), 0))
        for attempt, each in rows.items():
            self.open.setdefault(attempt, []).extend(each)

    def give_up(self, attempts: Sequence[str]) -> None:
        for attempt in attempts:
            self.open.pop(attempt, None)
        if self.takes_back:
            self.believe(self.overlay.drop(attempts))

    def commit(self, attempt: str, missed: Sequence[Written]) -> None:
        """Commits what an attempt has sent, and rows that did not come early."""
        rows = [*self.open.pop(attempt, []), *missed]
        kept = [key.decode() for key in self.overlay.keys.to_pylist()]
        before = self.visible(self.records)
        self.records = self.fold(self.records, rows)
        after = self.visible(self.records)
        for key in {row[0] for _, row in rows} - set(kept):
            # As its changelog tells it.
            assert self.reported.get(key) == before.get(key), "nobody was told anything else of it"
            self.reported.pop(key, None)
            self.reported |= {key: after[key]} if key in after else {}
        if self.settles:
            written = [key for key in kept if key in {row[0] for _, row in rows}]
            keys = pa.array([key.encode() for key in written], pa.binary())
            self.believe(self.overlay.resolve(attempt, keys, self.find(written)))

    def believe(self, changes: pa.Table) -> None:
        rows = [tuple(row) for row in zip(*(changes.column(name).to_pylist() for name in SCHEMA.names), strict=True)]
        kinds = [RowKind(code) for code in changes.column(ROW_KIND_COLUMN).to_pylist()]
        for place, (kind, row) in enumerate(zip(kinds, rows, strict=True)):
            if kind in (RowKind.UPDATE_BEFORE, RowKind.DELETE):
                assert self.reported.pop(row[0]) == row, "it was told of this row"
            if kind is RowKind.UPDATE_AFTER:
                assert (kinds[place - 1], rows[place - 1][0]) == (RowKind.UPDATE_BEFORE, row[0])
                assert rows[place - 1] != row, "nothing is told that changes nothing"
            if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER):
                assert row[0] not in self.reported
                self.reported[row[0]] = row

    @staticmethod
    def visible(records: dict[str, Written]) -> dict[str, Row]:
        return {key: row for key, (kind, row) in records.items() if kind in (RowKind.INSERT, RowKind.UPDATE_AFTER)}

    def check(self) -> None:
        wanted = self.records
        for rows in self.open.values():
            wanted = self.fold(wanted, rows)
        assert self.reported == self.visible(wanted)
        kept = {row[0] for rows in self.open.values() for _, row in rows}
        assert {key.decode() for key in self.overlay.keys.to_pylist()} == kept
        assert self.overlay.row_count == sum(map(len, self.open.values()))


def draw_rows(draw: Random) -> list[Written]:
    kinds = [RowKind.INSERT, RowKind.INSERT, RowKind.UPDATE_AFTER, RowKind.DELETE]
    return [
        (draw.choice(kinds), (draw.choice(KEYS), draw.choice([None, 1, 2]), draw.randrange(4)))
        for _ in range(draw.randrange(1, 4))
    ]


def run(seed: int, sequence: bool, *, takes_back: bool = True, settles: bool = True) -> None:
    draw = Random(seed)
    rules = ChangelogRules(("k",), ("s",) if sequence else (), compared=("v", "s"))
    world = World(rules, takes_back=takes_back, settles=settles)
    for number in range(25):
        opened = list(world.open)
        what = draw.choice(["send", "send", "send", "commit", "commit", "give up"])
        if what == "send":
            names = {draw.choice([*opened, f"new {number}"]) for _ in range(draw.randrange(1, 3))}
            world.send({name: draw_rows(draw) for name in sorted(names)})
        elif what == "commit":
            name = draw.choice([*opened, f"silent {number}"])
            world.commit(name, draw_rows(draw) if name not in opened or draw.random() < 0.3 else [])
        else:
            world.give_up([name for name in opened if draw.random() < 0.5])
        world.check()
    for name in list(world.open):
        if draw.random() < 0.5:
            world.commit(name, [])
        else:
            world.give_up([name])
    world.check()
    assert world.reported == world.visible(world.records), "at rest it is the table"
    assert len(world.overlay.keys) == 0


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("seed", range(6))
def test_what_is_emitted_leads_to_the_table(seed: int, sequence: bool) -> None:
    run(seed, sequence)


@pytest.mark.parametrize(("takes_back", "settles"), [(False, True), (True, False)])
def test_without_taking_back_or_settling_it_does_not(takes_back: bool, settles: bool) -> None:
    with pytest.raises(AssertionError):
        run(1, sequence=False, takes_back=takes_back, settles=settles)


def test_rows_that_change_nothing_that_is_read_are_not_emitted() -> None:
    overlay = UncommittedOverlay(SCHEMA, ChangelogRules(("k",), compared=("v",)))
    base = to_table([(RowKind.INSERT, ("a", 1, 1))], timed=True)
    again = UncommittedRows("x", to_table([(RowKind.INSERT, ("a", 1, 2))]))
    assert overlay.add([again], base, 0).num_rows == 0
    other = UncommittedRows("x", to_table([(RowKind.INSERT, ("a", 2, 2))]))
    assert overlay.add([other], base.slice(0, 0), 0).column(ROW_KIND_COLUMN).to_pylist() == [1, 2]


def test_a_delete_of_higher_sequence_beats_a_row_before_it_is_committed() -> None:
    overlay = UncommittedOverlay(SCHEMA, ChangelogRules(("k",), ("s",), compared=("v", "s")))
    base = to_table([(RowKind.DELETE, ("a", None, 5))], timed=True)
    late = UncommittedRows("x", to_table([(RowKind.INSERT, ("a", 1, 4))]))
    assert overlay.find_unknown([late]).num_rows == 1
    assert overlay.add([late], base, 1000).num_rows == 0
    # A day later it does no longer.
    other = UncommittedOverlay(SCHEMA, ChangelogRules(("k",), ("s",), compared=("v", "s")))
    assert other.add([late], base, 86_400_001).num_rows == 1
