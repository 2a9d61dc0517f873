"""Changelogs against a slow model: a dict, one record at a time, and the rules of semantics 3."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import DataCorrupted, InvalidArgument
from lakelog.format.commit.request import ANY_TIME, TimeWindow
from lakelog.format.merge.changelog import ChangelogRules, find_difference, fold_commit, fold_commits
from lakelog.format.merge.runs import COMMIT_TIMESTAMP_COLUMN, MergeRun
from lakelog.format.types.rowkind import ROW_KIND_COLUMN

KINDS = ("+I", "-U", "+U", "-D")
COLUMNS = pa.schema([("p", pa.string()), ("k", pa.int32()), ("s", pa.int64()), ("v", pa.float64())])
KINDED = COLUMNS.append(pa.field(ROW_KIND_COLUMN, pa.int8()))
RULES = ChangelogRules(("p", "k"))

Values = tuple[str, int, int | None, float | None]


@dataclass
class Record:
    values: Values
    kind: int
    time: int = 0

    @property
    def takes_away(self) -> bool:
        return self.kind in (1, 3)


@dataclass
class Model:
    """The state, folded record by record."""

    rules: ChangelogRules
    winners: dict[tuple[str, int], Record] = field(default_factory=dict)

    def commit(self, records: list[Record]) -> list[tuple[Any, ...]]:
        touched = sorted({record.values[:2] for record in records})
        before = {key: self.visible(key) for key in touched}
        for record in records:
            self.add(record)
        reported: list[tuple[Any, ...]] = []
        for key in touched:
            old, new = before[key], self.visible(key)
            if old is not None and new is not None:
                if not (self.rules.drop_equal and repr(self.compared(old)) == repr(self.compared(new))):
                    reported += [(*old, "-U"), (*new, "+U")]
            elif old is not None:
                reported.append((*old, "-D"))
            elif new is not None:
                reported.append((*new, "+I"))
        return reported

    def compared(self, values: Values) -> list[Any]:
        names = COLUMNS.names if self.rules.compared is None else self.rules.compared
        return [value for name, value in zip(COLUMNS.names, values, strict=True) if name in names]

    def visible(self, key: tuple[str, int]) -> Values | None:
        record = self.winners.get(key)
        return None if record is None or record.takes_away else record.values

    def add(self, record: Record) -> None:
        old = self.winners.get(record.values[:2])
        if self.rules.sequence and old is not None and self.rank(record) < self.rank(old):
            expired = old.takes_away and record.time - old.time > self.rules.delete_retention_ms
            if not expired:
                return
        self.winners[record.values[:2]] = record

    def rank(self, record: Record) -> tuple[bool, int]:
        value = record.values[2]
        if value is None:
            return (False, 0)
        return (True, -value if self.rules.sequence_descending else value)


def to_table(records: list[Record], with_kinds: bool = True) -> pa.Table:
    columns = [pa.array([r.values[i] for r in records], f.type) for i, f in enumerate(COLUMNS)]
    if not with_kinds:
        return pa.Table.from_arrays(columns, schema=COLUMNS)
    return pa.Table.from_arrays([*columns, pa.array([r.kind for r in records], pa.int8())], schema=KINDED)


def to_rows(changes: pa.Table) -> list[tuple[Any, ...]]:
    rows = [list(row.values()) for row in changes.to_pylist()]
    return [(*row[:-1], KINDS[row[-1]]) for row in rows]


VALUES = st.tuples(
    st.sampled_from(["", "a"]),
    st.integers(-1, 2),
    st.none() | st.integers(0, 2),
    st.sampled_from([None, 0.0, -0.0, float("nan"), 1.0]),
)
RECORDS = st.lists(st.builds(Record, VALUES, st.integers(0, 3)), max_size=5)
# A commit may have flushed several runs.
COMMITS = st.lists(st.tuples(st.lists(RECORDS, max_size=3), st.integers(0, 12)), min_size=1, max_size=6)
ALL_RULES = st.builds(
    ChangelogRules,
    key=st.just(("p", "k")),
    sequence=st.sampled_from([(), ("s",)]),
    sequence_descending=st.booleans(),
    delete_retention_ms=st.sampled_from([0, 10, 1000]),
    drop_equal=st.booleans(),
    compared=st.sampled_from([None, ("v",), ("k", "s")]),
)


@given(COMMITS, st.integers(0, 5), ALL_RULES)
def test_a_history_is_emitted_as_the_model_emits_it(
    history: list[tuple[list[list[Record]], int]], begun: int, rules: ChangelogRules
) -> None:
    model = Model(rules)
    time = 0
    commits: list[list[MergeRun]] = []
    expected: list[list[tuple[Any, ...]]] = []
    base: MergeRun | None = None
    for number, (runs, pause) in enumerate(history):
        if number == begun:
            base = to_base(model)
        time += pause
        for record in (record for run in runs for record in run):
            record.time = time
        reported = model.commit([record for run in runs for record in run])
        if number >= begun:
            expected.append(reported)
            commits.append([MergeRun(to_table(run), time, sorted_unique=False) for run in runs])
    if not any(commits):
        return
    found = fold_commits(base, commits, rules)
    assert repr([to_rows(table) for table in found]) == repr(expected)


@given(COMMITS, ALL_RULES, st.booleans())
def test_the_rows_that_are_left_of_a_commit_are_the_ones_a_read_shows(
    history: list[tuple[list[list[Record]], int]], rules: ChangelogRules, first: bool
) -> None:
    rules = replace(rules, sequence=(), keep_first=True) if first else rules
    time = 0
    records: list[Record] = []
    base: MergeRun | None = None
    for runs, pause in history:
        time += pause
        for record in (record for run in runs for record in run):
            record.time = time
            record.kind = 0 if first else record.kind
        tables = [MergeRun(to_table(run), time, sorted_unique=False) for run in runs]
        if not tables:
            continue
        reported = fold_commit(base, tables, rules)
        assert repr(to_rows(reported.changes)) == repr(to_rows(fold_commits(base, [tables], rules)[0]))
        shown = [record for record, is_shown in zip(records, reported.base_shown, strict=True) if is_shown]
        for run, mask in zip(runs, reported.shown, strict=True):
            shown += [record for record, is_shown in zip(run, mask, strict=True) if is_shown]
        winners = winners_of([*records, *(record for run in runs for record in run)], rules)
        assert {id(record) for record in shown} == {id(record) for record in winners if not record.takes_away}
        records = winners
        times = pa.array([record.time for record in records], pa.int64())
        base = MergeRun(to_table(records).append_column(COMMIT_TIMESTAMP_COLUMN, times))


def test_who_comes_late_after_a_delete_is_decided_by_the_time_of_the_commit() -> None:
    rules = ChangelogRules(("p", "k"), ("s",))
    delete = MergeRun(to_table([Record(("a", 1, 5, None), 3)]), 0)
    last = rules.delete_retention_ms
    for kind, sequence, depends in ((0, 4, True), (3, 4, True), (0, 5, False), (0, 6, False)):
        for time_ms in (1, last, last + 1):
            window = TimeWindow(None, last) if time_ms <= last else TimeWindow(last)
            new = MergeRun(to_table([Record(("a", 1, sequence, 1.0), kind)]), time_ms)
            reported = fold_commit(delete, [new], rules)
            assert reported.window == (window if depends else ANY_TIME)
            assert reported.window.holds(time_ms)
            assert fold_commit(delete, [new], ChangelogRules(("p", "k"))).window == ANY_TIME


def winners_of(records: list[Record], rules: ChangelogRules) -> list[Record]:
    model = Model(rules)
    for record in records:
        if not (rules.keep_first and record.values[:2] in model.winners):
            model.add(record)
    return list(model.winners.values())


def to_base(model: Model) -> MergeRun:
    winners = list(model.winners.values())
    times = pa.array([record.time for record in winners], pa.int64())
    return MergeRun(to_table(winners).append_column(COMMIT_TIMESTAMP_COLUMN, times))


@given(COMMITS, st.integers(0, 5))
def test_where_the_first_row_stays_each_key_is_emitted_once(
    history: list[tuple[list[list[Record]], int]], begun: int
) -> None:
    state: dict[tuple[str, int], Values] = {}
    commits: list[list[MergeRun]] = []
    expected: list[list[tuple[Any, ...]]] = []
    base: MergeRun | None = None
    for number, (runs, _) in enumerate(history):
        if number == begun:
            base = to_base(Model(RULES, {key: Record(values, 0) for key, values in state.items()}))
        new: dict[tuple[str, int], Values] = {}
        for record in (record for run in runs for record in run):
            record.kind = 0
            if record.values[:2] not in state:
                new.setdefault(record.values[:2], record.values)
        state |= new
        if number >= begun:
            expected.append([(*new[key], "+I") for key in sorted(new)])
            commits.append([MergeRun(to_table(run), sorted_unique=False) for run in runs])
    if not any(commits):
        return
    for rules in (ChangelogRules(("p", "k"), keep_first=True, drop_equal=drop) for drop in (False, True)):
        assert repr([to_rows(table) for table in fold_commits(base, commits, rules)]) == repr(expected)


@given(st.lists(VALUES, max_size=8, unique_by=lambda v: v[:2]), st.lists(VALUES, max_size=8, unique_by=lambda v: v[:2]))
def test_a_difference_applied_to_the_old_rows_gives_the_new_ones(old: list[Values], new: list[Values]) -> None:
    tables = [to_table([Record(v, 0) for v in side], with_kinds=False) for side in (old, new)]
    for drop_equal in (False, True):
        rules = ChangelogRules(("p", "k"), drop_equal=drop_equal)
        model = Model(rules, {v[:2]: Record(v, 0) for v in old})
        gone = [Record(v, 3) for v in old if v[:2] not in {n[:2] for n in new}]
        expected = model.commit([*(Record(v, 0) for v in new), *gone])
        found = to_rows(find_difference(tables[0], tables[1], rules))
        assert repr(found) == repr(expected)


def test_the_vectors_of_the_rules() -> None:
    """semantics 3.8: what `lookup` says of two commits."""
    schema = pa.schema([("k", pa.int64()), ("v", pa.int64()), (ROW_KIND_COLUMN, pa.int8())])

    def run(*rows: tuple[int, int, str]) -> list[MergeRun]:
        codes = [KINDS.index(kind) for _, _, kind in rows]
        columns = [[k for k, _, _ in rows], [v for _, v, _ in rows], codes]
        return [MergeRun(pa.table(columns, schema=schema), sorted_unique=False)]

    first = run((10, 100, "+I"), (20, 200, "+I"), (40, 400, "+I"))
    second = run((10, 101, "+I"), (30, 300, "+I"), (10, 102, "+I"), (40, 0, "-D"))
    third = run((50, 1, "+I"), (50, 1, "-D"), (60, 1, "-D"))
    reported = fold_commits(None, [first, second, third], ChangelogRules(("k",)))
    assert to_rows(reported[0]) == [(10, 100, "+I"), (20, 200, "+I"), (40, 400, "+I")]
    assert to_rows(reported[1]) == [(10, 100, "-U"), (10, 102, "+U"), (30, 300, "+I"), (40, 400, "-D")]
    assert to_rows(reported[2]) == []


def test_equal_rows_are_emitted_unless_they_shall_be_dropped() -> None:
    record = Record(("a", 1, None, float("nan")), 0)
    commits = [[MergeRun(to_table([record]))]] * 2
    kept = fold_commits(None, commits, RULES)
    assert [len(table) for table in kept] == [1, 2]
    assert [len(table) for table in fold_commits(None, [[MergeRun(to_table([]))]] * 2, RULES)] == [0, 0]
    dropped = fold_commits(None, commits, ChangelogRules(("p", "k"), drop_equal=True))
    assert [len(table) for table in dropped] == [1, 0]


def test_a_record_that_loses_by_its_sequence_leaves_the_row_as_it_was() -> None:
    rules = ChangelogRules(("p", "k"), ("s",))
    high, low = (MergeRun(to_table([Record(("a", 1, s, 0.0), 0)])) for s in (5, 4))
    reported = fold_commits(None, [[high], [low]], rules)
    assert to_rows(reported[1]) == [("a", 1, 5, 0.0, "-U"), ("a", 1, 5, 0.0, "+U")]


def test_runs_without_kinds_are_inserts_beside_runs_with_kinds() -> None:
    kinded = MergeRun(to_table([Record(("a", 1, None, 1.0), 3)]), sorted_unique=False)
    plain = MergeRun(to_table([Record(("a", 1, None, 2.0), 0)], with_kinds=False), sorted_unique=False)
    assert to_rows(fold_commits(None, [[kinded, plain]], RULES)[0]) == [("a", 1, None, 2.0, "+I")]
    assert to_rows(fold_commits(None, [[plain, kinded]], RULES)[0]) == []


def test_commits_without_rows_have_empty_changelogs() -> None:
    empty, full = MergeRun(to_table([])), MergeRun(to_table([Record(("a", 1, None, 1.0), 0)]))
    reported = fold_commits(None, [[], [empty], [full], []], RULES)
    assert [len(table) for table in reported] == [0, 0, 1, 0]
    assert fold_commits(None, [], RULES) == []
    with pytest.raises(InvalidArgument, match="None of the commits has a run"):
        fold_commits(None, [[]], RULES)


def test_a_key_that_stands_twice_in_a_state_is_refused() -> None:
    twice = to_table([Record(("a", 1, None, 1.0), 0)] * 2, with_kinds=False)
    with pytest.raises(InvalidArgument, match=r"same key \(p, k\)\. Merge them first"):
        find_difference(twice, twice.slice(0, 0), RULES)


def test_a_run_that_lacks_a_column_is_named() -> None:
    whole = MergeRun(to_table([Record(("a", 1, None, 1.0), 0)]))
    with pytest.raises(InvalidArgument, match="has no column 'v'"):
        fold_commits(None, [[whole], [MergeRun(whole.table.drop_columns(["v"]))]], RULES)


def test_a_kind_that_is_none_is_damage() -> None:
    with pytest.raises(DataCorrupted, match="the code 9"):
        fold_commits(None, [[MergeRun(to_table([Record(("a", 1, None, 1.0), 9)]))]], RULES)
