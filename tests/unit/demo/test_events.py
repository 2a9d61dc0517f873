"""The demo's events add up to its source: the last event of each flight tells what the package knows of it."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.demo.events import KEY, LATE_COLUMN, LATE_SINCE, SCHEMA, make_events
from lakelog.demo.expected import Totals, expected_totals, totals_of
from lakelog.demo.folder import make_fresh_folder
from lakelog.errors import AlreadyExists

FIRST, SECOND = dt.date(2013, 1, 1), dt.date(2013, 1, 2)


def flights() -> pa.Table:
    """One that arrived, one that was diverted, two that were cancelled, over two days."""
    return pa.table(
        {
            "flight_date": pa.array([FIRST, FIRST, SECOND, SECOND], pa.date32()),
            "carrier": ["UA", "AA", "UA", "B6"],
            "flight": [1, 2, 1, 3],
            "origin": ["JFK", "LGA", "JFK", "EWR"],
            "dest": ["SFO", "ORD", "SFO", "BOS"],
            "tailnum": ["N1", "N2", None, None],
            "distance": [2586, 733, 2586, 200],
            "sched_dep_time": [900, 1000, 900, 1200],
            "dep_time": [905, 1030, None, None],
            "dep_delay": [5, 30, None, None],
            "arr_delay": [-3, None, None, None],
            "air_time": [340, None, None, None],
        }
    )


def state_after(last: dt.date) -> pa.Table:
    """What a table holds that took all events up to a day: of each key the row of the highest stage."""
    rows: dict[tuple[object, ...], dict[str, object]] = {}
    for day, events in make_events(flights()):
        if day > last:
            break
        for row in events.to_pylist():
            key = tuple(row[name] for name in KEY)
            if key not in rows or row["stage"] >= rows[key]["stage"]:
                rows[key] = row
    return pa.Table.from_pylist(list(rows.values()), schema=SCHEMA)


def test_each_day_has_its_own_news_and_the_next_days_schedule() -> None:
    days = dict(make_events(flights()))
    assert sorted(days) == [dt.date(2012, 12, 31), FIRST, SECOND]
    assert days[dt.date(2012, 12, 31)].column("status").to_pylist() == ["scheduled", "scheduled"]
    first = sorted(days[FIRST].column("status").to_pylist())
    assert first == ["arrived", "departed", "departed", "diverted", "scheduled", "scheduled"]
    assert days[SECOND].column("status").to_pylist() == ["cancelled", "cancelled"]


@pytest.mark.parametrize("last", [FIRST, SECOND])
def test_the_last_events_add_up_to_the_source(last: dt.date) -> None:
    assert totals_of(state_after(last)) == expected_totals(flights(), last)


def test_totals_are_what_a_person_would_count() -> None:
    assert expected_totals(flights()) == Totals(
        4, {"arrived": 1, "cancelled": 2, "diverted": 1}, 2586 + 733 + 2586 + 200, -3, {"UA": -3}
    )


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("kept", encoding="utf-8")
    with pytest.raises(AlreadyExists, match="not made by a demo"):
        make_fresh_folder(tmp_path)
    assert (tmp_path / "mine").read_text(encoding="utf-8") == "kept"


def test_a_demos_folder_is_recreated(tmp_path: Path) -> None:
    folder = make_fresh_folder(tmp_path / "demo")
    (folder / "old").write_text("gone", encoding="utf-8")
    assert not (make_fresh_folder(folder) / "old").exists()


def test_a_column_comes_in_the_middle_of_the_year() -> None:
    days = [LATE_SINCE - dt.timedelta(1), LATE_SINCE]
    later = flights().slice(0, 2).set_column(0, "flight_date", pa.array(days, pa.date32()))
    events = dict(make_events(later.append_column(LATE_COLUMN.name, pa.array([800, 900], pa.int32()))))
    assert events[days[0]].schema == SCHEMA
    assert events[days[1]].schema.names == [*SCHEMA.names, LATE_COLUMN.name]
    assert events[days[1]].column(LATE_COLUMN.name).to_pylist() == [900] * events[days[1]].num_rows
