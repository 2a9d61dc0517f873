"""What a reader is told of rows before their commit: random writers of few keys, against a model in plain Python.

In the model a table is a dict, a commit applies an attempt's rows to it at once, and what is wanted of a key is its row
in the last snapshot with the rows of open attempts behind it, in the order in which these were first seen. A commit
that decides a key takes the key's rows from the attempts that were opened before, until these commit. Attempts die
without a word, are tried once more, and have rivals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from lakelog.format.merge import uncommitted_overlay
from lakelog.format.merge.changelog import ChangelogRules
from lakelog.format.merge.uncommitted_overlay import KEY_COLUMN, UncommittedOverlay, UncommittedRows
from lakelog.format.types.rowkind import ROW_KIND_COLUMN, RowKind

SCHEMA = pa.schema([pa.field("k", pa.string(), nullable=False), ("v", pa.int64()), ("s", pa.int64())])
KEYS = "abcd"

Row = tuple[str, int | None, int]
Written = tuple[RowKind, Row]


def to_table(rows: Sequence[Written], times: Sequence[int] | None = None) -> pa.Table:
    columns = {
        KEY_COLUMN: pa.array([row[0].encode() for _, row in rows], pa.binary()),
        "k": pa.array([row[0] for _, row in rows], pa.string()),
        "v": pa.array([row[1] for _, row in rows], pa.int64()),
        "s": pa.array([row[2] for _, row in rows], pa.int64()),
        ROW_KIND_COLUMN: pa.array([int(kind) for kind, _ in rows], pa.int8()),
    }
    return pa.table(columns | ({} if times is None else {"_commit_timestamp": pa.array(times, pa.int64())}))


@dataclass
class Sent:
    """An open attempt: when it was opened, and what it has sent so far, was told, and is not left to its commit."""

    opened: int
    rows: list[Written] = field(default_factory=list)


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
    times: dict[str, int] = field(default_factory=dict)
    """When each of them was committed."""
    open: dict[str, Sent] = field(default_factory=dict)
    reported: dict[str, Row] = field(default_factory=dict)
    now: int = 0

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
        known = [key for key in keys if key in self.records]
        return to_table([self.records[key] for key in known], [self.times[key] for key in known])

    def send(self, rows: dict[str, list[Written]], opened: int, late: Sequence[bool] = ()) -> None:
        """Attempts send rows; new ones were opened at a time.

        Args:
            rows: By attempt.
            opened: When those were opened that are new.
            late: Which of the rows may be older than what is committed; empty: none.
        """
        self.now += 1
        uncommitted, left = [], list(late)
        for attempt, each in rows.items():
            sent = self.open.setdefault(attempt, Sent(opened))
            own, left = left[: len(each)] or [False] * len(each), left[len(each) :]
            uncommitted.append(UncommittedRows(attempt, to_table(each), sent.opened, np.array(own)))
            is_older = [
                is_late and self.times.get(row[0], -1) > sent.opened
                for is_late, (_, row) in zip(own, each, strict=True)
            ]
            sent.rows.extend(written for written, gone in zip(each, is_older, strict=True) if not gone)
        unknown = self.overlay.find_unknown(uncommitted).column("k").to_pylist()
        self.believe(self.overlay.add(uncommitted, self.find(unknown), 0))

    def give_up(self, attempts: Sequence[str]) -> None:
        for attempt in attempts:
            self.open.pop(attempt, None)
        if self.takes_back:
            self.believe(self.overlay.drop(attempts))

    def commit(self, attempt: str, missed: Sequence[Written], *, replaces: bool = False) -> None:
        """Commits what an attempt has sent, and rows that did not come early; or nothing else is left of the table."""
        self.now += 1
        rows = [*self.open.pop(attempt, Sent(0)).rows, *missed]
        kept = [key.decode() for key in self.overlay.keys.to_pylist()]
        before, old_times = self.records, self.times
        self.records = self.fold({} if replaces else before, rows)
        self.times = {
            key: self.now if replaces or record in rows else old_times[key] for key, record in self.records.items()
        }
        gone = before.keys() - self.records.keys()
        touched = {row[0] for _, row in rows} | gone
        for key in touched - set(kept):
            # As its changelog tells it.
            assert self.reported.get(key) == self.visible(before).get(key), "nobody was told anything else of it"
            self.reported.pop(key, None)
            self.reported |= {key: self.visible(self.records)[key]} if key in self.visible(self.records) else {}
        if not self.settles:
            return
        for sent in self.open.values():
            sent.rows = [
                written
                for written in sent.rows
                if written[1][0] not in touched
                or (self.now if written[1][0] in gone else self.times[written[1][0]]) <= sent.opened
            ]
        known = kept if replaces else [key for key in kept if key in touched]
        keys = pa.array([key.encode() for key in known], pa.binary())
        self.believe(self.overlay.resolve(attempt, keys, self.find(known), self.now))

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
        for sent in self.open.values():
            wanted = self.fold(wanted, sent.rows)
        assert self.reported == self.visible(wanted)
        rows = [row for sent in self.open.values() for _, row in sent.rows]
        assert {key.decode() for key in self.overlay.keys.to_pylist()} == {row[0] for row in rows}
        assert self.overlay.row_count == len(rows)


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
    dead: list[str] = []
    for number in range(40):
        opened = [name for name in world.open if name not in dead]
        what = draw.choice(["send", "send", "send", "commit", "commit", "give up", "die", "replace"])
        if what == "send":
            names = {draw.choice([*opened, f"new {number}"]) for _ in range(draw.randrange(1, 3))}
            rows = {name: draw_rows(draw) for name in sorted(names)}
            late = [draw.random() < 0.3 for each in rows.values() for _ in each]
            world.send(rows, max(world.now - draw.randrange(4), 0), late)
        elif what == "commit":
            name = draw.choice([*opened, f"silent {number}"])
            world.commit(name, draw_rows(draw) if name not in opened or draw.random() < 0.3 else [])
        elif what == "replace" and draw.random() < 0.5:
            world.commit(f"overwrite {number}", draw_rows(draw), replaces=True)
        elif what == "die":
            dead += [name for name in opened if draw.random() < 0.3]
        else:
            world.give_up([name for name in world.open if draw.random() < 0.5])
        world.check()
    for name in list(world.open):
        if draw.random() < 0.5 and name not in dead:
            world.commit(name, [])
        else:
            world.give_up([name])
    world.check()
    assert world.reported == world.visible(world.records), "at rest it is the table"
    assert len(world.overlay.keys) == 0


@pytest.mark.parametrize("sequence", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_what_is_emitted_leads_to_the_table(seed: int, sequence: bool) -> None:
    run(seed, sequence)


@pytest.mark.parametrize(("takes_back", "settles"), [(False, True), (True, False)])
def test_without_taking_back_or_settling_it_does_not(takes_back: bool, settles: bool) -> None:
    with pytest.raises(AssertionError):
        run(1, sequence=False, takes_back=takes_back, settles=settles)


@pytest.fixture(params=[True, False], ids=["protected", "control"])
def committed_wins(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether what is committed wins over what is older and is not."""
    if not request.param:
        monkeypatch.setattr(uncommitted_overlay, "_find_newer", lambda records, opened_ms: pa.array([], pa.binary()))
    return bool(request.param)


def written(value: int, sequence: int = 0) -> list[Written]:
    return [(RowKind.INSERT, ("a", value, sequence))]


@pytest.mark.parametrize("sequence", [False, True])
def test_a_committed_row_is_never_taken_back_by_an_attempt_that_died_before(
    committed_wins: bool, sequence: bool
) -> None:
    """Though the dead attempt has the highest sequence, and nobody has said that it is dead."""
    world = World(ChangelogRules(("k",), ("s",) if sequence else (), compared=("v", "s")))
    world.send({"dead": written(1, 9)}, opened=0)
    seen = []
    for value in (1, 2, 3):
        world.send({f"retry {value}": written(value, value)}, opened=world.now)
        world.commit(f"retry {value}", [])
        seen.append(world.reported["a"][1] if "a" in world.reported else None)
    assert (seen == [1, 2, 3]) is committed_wins
    assert (len(world.overlay.keys) == 0) is committed_wins


def test_an_attempt_that_was_opened_after_a_commit_is_shown_though_the_snapshot_comes_later() -> None:
    world = World(ChangelogRules(("k",), compared=("v", "s")))
    world.send({"slow": written(1), "fast": written(2)}, opened=0)
    world.send({"new": written(3)}, opened=5)
    world.now = 3
    world.commit("slow", [])
    assert world.reported["a"][1] == 3
    world.check()


def test_what_an_older_attempt_sends_after_a_commit_is_shown(committed_wins: bool) -> None:
    """Unless it may have been sent before: then it comes with its commit."""
    world = World(ChangelogRules(("k",), compared=("v", "s")))
    world.send({"old": written(1)}, opened=0)
    world.commit("other", written(2))
    world.send({"old": written(3)}, opened=0, late=[True])
    assert (world.reported["a"][1] == 2) is committed_wins
    world.send({"old": written(4)}, opened=0, late=[False])
    assert world.reported["a"][1] == 4
    world.commit("old", written(5))
    assert world.reported["a"][1] == 5


def test_rows_that_a_snapshot_took_away_are_not_brought_back_by_older_attempts() -> None:
    world = World(ChangelogRules(("k",), compared=("v", "s")))
    world.commit("first", written(1))
    world.send({"dead": written(2)}, opened=0)
    world.commit("overwrite", [(RowKind.INSERT, ("b", 1, 0))], replaces=True)
    world.check()
    assert set(world.reported) == {"b"}


def test_rows_that_change_nothing_that_is_read_are_not_emitted() -> None:
    overlay = UncommittedOverlay(SCHEMA, ChangelogRules(("k",), compared=("v",)))
    base = to_table([(RowKind.INSERT, ("a", 1, 1))], [0])
    again = UncommittedRows("x", to_table([(RowKind.INSERT, ("a", 1, 2))]))
    assert overlay.add([again], base, 0).num_rows == 0
    other = UncommittedRows("x", to_table([(RowKind.INSERT, ("a", 2, 2))]))
    assert overlay.add([other], base.slice(0, 0), 0).column(ROW_KIND_COLUMN).to_pylist() == [1, 2]


def test_a_delete_of_higher_sequence_beats_a_row_before_it_is_committed() -> None:
    overlay = UncommittedOverlay(SCHEMA, ChangelogRules(("k",), ("s",), compared=("v", "s")))
    base = to_table([(RowKind.DELETE, ("a", None, 5))], [0])
    late = UncommittedRows("x", to_table([(RowKind.INSERT, ("a", 1, 4))]))
    assert overlay.find_unknown([late]).num_rows == 1
    assert overlay.add([late], base, 1000).num_rows == 0
    # A day later it does no longer.
    other = UncommittedOverlay(SCHEMA, ChangelogRules(("k",), ("s",), compared=("v", "s")))
    assert other.add([late], base, 86_400_001).num_rows == 1
