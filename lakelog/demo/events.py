"""A year of flights as events, day by day: each flight is first scheduled, then departed, then done.

The file of a day holds the next day's schedule, and the events of the day's own flights. So most flights are in two
files and three rows, and the last row counts.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

KEY: Final = ("flight_date", "carrier", "flight", "origin")
SCHEMA: Final = pa.schema(
    [
        pa.field("flight_date", pa.date32(), nullable=False),
        pa.field("carrier", pa.string(), nullable=False),
        pa.field("flight", pa.int32(), nullable=False),
        pa.field("origin", pa.string(), nullable=False),
        pa.field("dest", pa.string()),
        pa.field("tailnum", pa.string()),
        pa.field("distance", pa.int32()),
        pa.field("sched_dep_time", pa.int32()),
        pa.field("status", pa.string()),
        pa.field("stage", pa.int8()),
        pa.field("dep_delay", pa.int32()),
        pa.field("arr_delay", pa.int32()),
        pa.field("air_time", pa.int32()),
    ]
)
"""`stage` is the sequence field: 0 scheduled, 1 departed, 2 done. `status` says the same in words."""

LATE_COLUMN: Final = pa.field("sched_arr_time", pa.int32())
"""A column that the source sends from `LATE_SINCE` on."""

LATE_SINCE: Final = dt.date(2013, 7, 1)

_KNOWN_AFTER: Final = {"dep_delay": 1, "arr_delay": 2, "air_time": 2}
_STATUS: Final = ("scheduled", "departed", "arrived")


def write_event_files(flights: pa.Table, folder: Path) -> list[Path]:
    """Writes one Parquet file for each day, with the day as its name; returns the files in order."""
    folder.mkdir(parents=True)
    files = []
    for day, events in make_events(flights):
        file = folder / f"{day.isoformat()}.parquet"
        pq.write_table(events, file, compression="zstd")
        files.append(file)
    return files


def make_events(flights: pa.Table) -> Iterator[tuple[dt.date, pa.Table]]:
    """The events of each day, from the day before the first to the last; columns of `SCHEMA`, later one more."""
    flights = flights.sort_by("flight_date")
    days = flights.column("flight_date").cast(pa.int32()).to_numpy()
    distinct, starts = np.unique(days, return_index=True)
    ends = np.append(starts[1:], len(days))
    slices = {int(day): flights.slice(s, e - s) for day, s, e in zip(distinct, starts, ends, strict=True)}
    for day in range(int(distinct[0]) - 1, int(distinct[-1]) + 1):
        date = dt.date(1970, 1, 1) + dt.timedelta(days=day)
        schema = SCHEMA.append(LATE_COLUMN) if date >= LATE_SINCE else SCHEMA
        parts = []
        if day in slices:
            parts += [_at_stage(_departed(slices[day]), 1, schema), _at_stage(slices[day], 2, schema)]
        if day + 1 in slices:
            parts.append(_at_stage(slices[day + 1], 0, schema))
        yield date, pa.concat_tables(parts)


def _departed(flights: pa.Table) -> pa.Table:
    return flights.filter(pc.is_valid(flights.column("dep_time")))


def _at_stage(flights: pa.Table, stage: int, schema: pa.Schema) -> pa.Table:
    """The flights with the values that are known at a stage."""
    count = flights.num_rows
    status: pa.Array | pa.ChunkedArray = pa.repeat(_STATUS[stage], count)
    if stage == 2:
        # Without an arrival time, a flight that departed was diverted; one that did not was cancelled.
        status = pc.case_when(
            pc.make_struct(pc.is_valid(flights.column("arr_delay")), pc.is_valid(flights.column("dep_time"))),
            "arrived",
            "diverted",
            "cancelled",
        )
    columns: dict[str, object] = {}
    for field in schema:
        if field.name == "status":
            columns[field.name] = status
        elif field.name == "stage":
            columns[field.name] = pa.repeat(pa.scalar(stage, pa.int8()), count)
        elif _KNOWN_AFTER.get(field.name, 0) > stage:
            columns[field.name] = pa.nulls(count, field.type)
        else:
            columns[field.name] = flights.column(field.name).cast(field.type)
    return pa.table(columns, schema=schema)
