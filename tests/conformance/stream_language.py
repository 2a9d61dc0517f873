"""How cases of streams are written: a history, a stream that begins at its end, and what comes while it runs.

What a stream shows is told by snapshot, in rising order: of the rows that it begins with, the snapshot at which they
were read.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import pytest

from lakelog.errors import LakelogError
from tests.conformance.language import KIND_COLUMN, Step, TableSpec, as_lines, to_text


@dataclass(frozen=True)
class Compact:
    """All live files of the table become files of merged rows."""


@dataclass(frozen=True)
class Forget:
    """The snapshots before one are no longer kept."""

    earliest: int


@dataclass(frozen=True)
class Alter:
    """Options of the table change."""

    options: Mapping[str, str]


@dataclass(frozen=True)
class Wait:
    """Time passes."""

    seconds: float


@dataclass(frozen=True)
class Again:
    """The stream stops and goes on by its consumer or checkpoint, with other options; or what it says instead."""

    options: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None
    meanwhile: tuple[Act, ...] = ()
    """What happens while it is stopped."""


Act = Step | Compact | Forget | Alter | Wait | Again


@dataclass(frozen=True)
class StreamCase:
    """A rule of the semantics, and what a stream shows.

    Args:
        rule: Number and name of the rule.
        table: The table.
        history: What happened before the stream begins.
        then: What happens while it runs.
        options: Of the stream. A value `time of 2` is when snapshot 2 was committed, `after 2` a millisecond later,
            `in 2` in two seconds.
        columns: Of the stream; None: all.
        filter: Of the stream; None: none.
        shows: Rows with their kinds, by snapshot; in any order, but for `-U` right before its `+U`.
        apart: `-U` and `+U` of one update may stand apart, or one of them be missing.
        error: What it says instead, when it begins.
    """

    rule: str
    table: TableSpec
    history: tuple[Act, ...] = ()
    then: tuple[Act, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    columns: tuple[str, ...] | None = None
    filter: str | None = None
    shows: Mapping[int, tuple[str, ...]] = field(default_factory=dict)
    apart: bool = False
    error: str | None = None

    @property
    def stops(self) -> bool:
        """Whether the stream stops and goes on."""
        return any(isinstance(act, Again) for act in self.then)


Shown = tuple[int, str]
"""A snapshot and a row as text, with its kind where the table has a primary key."""


class Stream(Protocol):
    """A stream that runs."""

    def take(self) -> list[list[Shown]]:
        """What came since, up to the newest snapshot: sequences whose order counts."""
        ...

    def stop(self) -> None:
        """Stops for a while."""
        ...

    def go_on(self, options: Mapping[str, str]) -> None:
        """Begins again by what is remembered of it."""
        ...

    def close(self) -> None:
        """Ends it."""
        ...


class StreamDriver(Protocol):
    """A way to read streams; tables are written by the SDK."""

    def create(self, table: TableSpec) -> str:
        """Makes a table under a name of its own and returns the name."""
        ...

    def act(self, name: str, table: TableSpec, act: Act) -> None:
        """Carries out anything but a stop of the stream."""
        ...

    def resolve(self, name: str, options: Mapping[str, str]) -> dict[str, str]:
        """Options with times in place of their names."""
        ...

    def open(self, name: str, case: StreamCase, options: Mapping[str, str]) -> Stream:
        """Begins a stream."""
        ...


def check_stream(driver: StreamDriver, case: StreamCase) -> None:
    """Carries a case out and compares."""
    name = driver.create(case.table)
    for act in case.history:
        driver.act(name, case.table, act)
    options = driver.resolve(name, case.options)
    if case.error is not None:
        with pytest.raises(LakelogError, match=case.error):
            driver.open(name, case, options).take()
        return
    stream = driver.open(name, case, options)
    try:
        found = stream.take()
        for act in case.then:
            if not isinstance(act, Again):
                driver.act(name, case.table, act)
                found += stream.take()
                continue
            stream.stop()
            for each in act.meanwhile:
                driver.act(name, case.table, each)
            if act.error is None:
                stream.go_on(driver.resolve(name, act.options))
                found += stream.take()
            else:
                with pytest.raises(LakelogError, match=act.error):
                    _go_on(stream, driver.resolve(name, act.options))
    finally:
        stream.close()
    compare_shown(case, found)


def _go_on(stream: Stream, options: Mapping[str, str]) -> None:
    # Some say at once what is wrong, some when they are asked for more.
    stream.go_on(options)
    stream.take()


def compare_shown(case: StreamCase, found: Iterable[Sequence[Shown]]) -> None:
    """Compares by snapshot, and looks at the order in each sequence."""
    by_snapshot: dict[int, list[str]] = {}
    for sequence in found:
        ids = [snapshot_id for snapshot_id, _ in sequence]
        assert ids == sorted(ids), f"{case.rule}: a snapshot begins before the one before it is complete"
        for place, (snapshot_id, line) in enumerate(sequence):
            by_snapshot.setdefault(snapshot_id, []).append(line)
            if line.startswith("-U") and not case.apart:
                follower = sequence[place + 1 : place + 2]
                assert [(each, row[:2]) for each, row in follower] == [(snapshot_id, "+U")], case.rule
    expected = {each: sorted(plain_lines(case.table, rows, case.columns)) for each, rows in case.shows.items() if rows}
    assert {each: sorted(rows) for each, rows in by_snapshot.items()} == expected, case.rule


def plain_lines(table: TableSpec, rows: Sequence[str], columns: Sequence[str] | None = None) -> list[str]:
    """Expected rows through their types and back, so that `1.0` and `1` mean the same in a case's text."""
    if not rows:
        return []
    has_kinds = bool(table.key) and rows[0][:1] in "+-"
    plain = as_lines(table.rows([row[3:] for row in rows] if has_kinds else rows, columns))
    return [f"{row[:3]}{again}" for row, again in zip(rows, plain, strict=True)] if has_kinds else plain


def to_line(row: Mapping[str, Any]) -> str:
    """A row as text, its kind first."""
    kind = [row[KIND_COLUMN]] if KIND_COLUMN in row else []
    values = "|".join(to_text(value) for name, value in row.items() if name not in (KIND_COLUMN, "_snapshot_id"))
    return " ".join([*kind, values])


def resolve_time(text: str, times_ms: Sequence[int]) -> str:
    """A time by its name: of `time of 2`, `after 2`, `in 2`; anything else as it is."""
    word, _, number = text.rpartition(" ")
    if word == "in":
        return str(int(time.time() * 1000 + float(number) * 1000))
    return {"time of": lambda: str(times_ms[int(number) - 1]), "after": lambda: str(times_ms[int(number) - 1] + 1)}.get(
        word, lambda: text
    )()
