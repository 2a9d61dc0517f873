"""Options of retention that contradict each other, or have no effect."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakelog.errors import InvalidArgument
from lakelog.options.validate import validate_table_options

COLUMNS = pa.schema([pa.field("id", pa.int64(), nullable=False), ("v", pa.string())])


def check(options: dict[str, str], *, keyed: bool = True) -> None:
    key = ["id"] if keyed else []
    validate_table_options(options, columns=COLUMNS, primary_key=key, partition_by=[])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"snapshot.num-retained.max": "9"},
            r"'snapshot\.num-retained\.max' = '9' .* below 'snapshot\.num-retained\.min' = '10', its default, so",
        ),
        (
            {"snapshot.num-retained.min": "5", "snapshot.num-retained.max": "4"},
            r"below 'snapshot\.num-retained\.min' = '5' so that .* Give at least 5",
        ),
        ({"snapshot.num-retained.min": "0"}, r"'snapshot\.num-retained\.min' = '0'"),
        (
            {"snapshot.expire.limit": "5"},
            r"'snapshot\.expire\.limit' is not in this version: what expires is decided by",
        ),
        ({"changelog.time-retained": "1 d"}, r"no effect without a 'changelog-producer'"),
        (
            {"changelog-producer": "lookup", "changelog.num-retained.max": "3"},
            r"'changelog\.num-retained\.max' = '3' .* below 'changelog\.num-retained\.min' = '10'",
        ),
    ],
)
def test_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        check(options)


def test_of_changelogs_for_a_table_without_key() -> None:
    with pytest.raises(InvalidArgument, match="no effect without a 'changelog-producer'"):
        check({"changelog.num-retained.min": "5"}, keyed=False)


def test_possible() -> None:
    check({"snapshot.num-retained.min": "4", "snapshot.num-retained.max": "4", "snapshot.time-retained": "0 ms"})
    check({"changelog-producer": "input", "changelog.time-retained": "1 d", "changelog.num-retained.max": "50"})
