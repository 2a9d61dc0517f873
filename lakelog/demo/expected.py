"""The results that the demo must reach, computed from the package's data alone, without lakelog."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc


@dataclass(frozen=True)
class Totals:
    """Numbers that two independent computations must agree on.

    Args:
        flights: The number of flights.
        by_status: The number of flights by status.
        distance_miles: The sum over all flights.
        arr_delay_minutes: The sum over the flights that arrived.
        arr_delay_by_carrier: The same by carrier.
    """

    flights: int
    by_status: dict[str, int]
    distance_miles: int
    arr_delay_minutes: int
    arr_delay_by_carrier: dict[str, int]


def expected_totals(flights: pa.Table, until: dt.date | None = None) -> Totals:
    """Totals once the file of the day `until` has been read (None: all files)."""
    date = flights.column("flight_date")
    last = pc.max(date).as_py() if until is None else until
    known = flights.filter(pc.less_equal(date, pa.scalar(last + dt.timedelta(days=1))))
    over = known.filter(pc.less_equal(known.column("flight_date"), pa.scalar(last)))
    departed, arrived = pc.is_valid(over.column("dep_time")), pc.is_valid(over.column("arr_delay"))
    counts = {
        "scheduled": known.num_rows - over.num_rows,
        "arrived": pc.sum(arrived).as_py() or 0,
        "diverted": pc.sum(pc.and_not(departed, arrived)).as_py() or 0,
        "cancelled": pc.sum(pc.invert(departed)).as_py() or 0,
    }
    grouped = over.filter(arrived).group_by("carrier").aggregate([("arr_delay", "sum")])
    by_carrier = dict(zip(*(grouped.column(name).to_pylist() for name in ("carrier", "arr_delay_sum")), strict=True))
    return Totals(
        known.num_rows,
        {status: count for status, count in sorted(counts.items()) if count},
        pc.sum(known.column("distance")).as_py(),
        pc.sum(over.column("arr_delay")).as_py(),
        dict(sorted(by_carrier.items())),
    )


def totals_of(rows: pa.Table) -> Totals:
    """Totals of the rows of the demo's table."""
    counts = rows.group_by("status").aggregate([([], "count_all")])
    arrived = rows.filter(pc.is_valid(rows.column("arr_delay")))
    delays = arrived.group_by("carrier").aggregate([("arr_delay", "sum")])
    return Totals(
        rows.num_rows,
        _pairs(counts, "status", "count_all"),
        pc.sum(rows.column("distance")).as_py(),
        pc.sum(rows.column("arr_delay")).as_py(),
        _pairs(delays, "carrier", "arr_delay_sum"),
    )


def _pairs(table: pa.Table, key: str, value: str) -> dict[str, int]:
    return dict(sorted(zip(table.column(key).to_pylist(), table.column(value).to_pylist(), strict=True)))
