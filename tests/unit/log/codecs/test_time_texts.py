"""Columns of ISO times: every form that logs, files and topics may hold, and what is none."""

from __future__ import annotations

import pyarrow as pa

from lakelog.log.codecs.time_texts import from_iso_texts

LOCAL = pa.timestamp("us")
INSTANT = pa.timestamp("us", "UTC")
DAY_US = 86_400_000_000
NEW_YEAR = 15_706 * DAY_US
"""2013-01-01."""
MINUTE = 60_000_000


def numbers(texts: list[str], target: pa.DataType, *, needs_zone: bool = False) -> list[int | None]:
    found, wrong = from_iso_texts(pa.array([None, *texts]), target, needs_zone=needs_zone)
    assert found.type == target
    assert [bool(each) for each in wrong] == [False, *found.is_null().to_pylist()[1:]]
    return list(found.view(pa.int32() if target == pa.date32() else pa.int64()).to_pylist()[1:])


def check(texts: dict[str, int | None], target: pa.DataType, *, needs_zone: bool = False) -> None:
    """Reads them together and one by one: the quick way and the careful one agree."""
    assert numbers(list(texts), target, needs_zone=needs_zone) == list(texts.values())
    for text, number in texts.items():
        assert numbers([text], target, needs_zone=needs_zone) == [number], text


def test_dates() -> None:
    check(
        {
            "2013-01-01": 15_706,
            "2013-02-30": None,
            "+10000-01-01": 2_932_897,
            "10000-01-01": 2_932_897,
            "10000-02-30": None,
            "-0001-02-03": -719_860,
            "2147483647 days since 1970-01-01": 2**31 - 1,
            "2147483648 days since 1970-01-01": None,
            "5 µs since 1970-01-01": None,
            "9999999-01-01": None,
            "2013-1-1": None,
            "2013-01-01T10:00": None,
        },
        pa.date32(),
    )


def test_local_times() -> None:
    check(
        {
            "2013-01-01": NEW_YEAR,
            "2013-01-01T10": NEW_YEAR + 600 * MINUTE,
            "2013-01-01 10:05": NEW_YEAR + 605 * MINUTE,
            "2013-01-01T10:05:00.5": NEW_YEAR + 605 * MINUTE + 500_000,
            "2013-01-01T10:05Z": None,
            "2013-01-01T10:05+01:00": None,
            "2013-01-01T24:00:00": None,
            "2013-01-01T10:05:00.1234567": None,
            "2013-02-30T10:05:00": None,
            "9223372036854775807 µs since 1970-01-01": 2**63 - 1,
            "9223372036854775808 µs since 1970-01-01": None,
            "294247-01-10T04:00:54.775807": 2**63 - 1,
            "294247-01-10T04:00:54.775808": None,
            "-290308-12-21T19:59:05.224192": -(2**63),
            "-290308-12-21T19:59:05.224191": None,
            "300000-01-01T10:00:00": None,
        },
        LOCAL,
    )


WITH_ZONE: dict[str, int | None] = {
    "2013-01-01T10:05Z": NEW_YEAR + 605 * MINUTE,
    "2013-01-01 10+02": NEW_YEAR + 480 * MINUTE,
    "2013-01-01T10:05:00-0130": NEW_YEAR + 695 * MINUTE,
    "2013-01-01T12:00:00+23:59": NEW_YEAR - 719 * MINUTE,
    "10000-01-01T00:00:00+01:00": 2_932_897 * DAY_US - 60 * MINUTE,
    "5 µs since 1970-01-01": 5,
    "2013-01-01T10:05+24:00": None,
    "2013-01-01Z": None,
    "294247-01-10T04:00:54.775807-00:01": None,
}


def test_instants_that_must_have_a_zone() -> None:
    without = {"2013-01-01": None, "2013-01-01T10:05": None, "10000-01-01T00:00:00": None}
    check({**WITH_ZONE, **without}, INSTANT, needs_zone=True)


def test_instants_without_a_zone_are_in_utc() -> None:
    without = {"2013-01-01T10:05": NEW_YEAR + 605 * MINUTE, "10000-01-01T00:00:00": 2_932_897 * DAY_US}
    check({**WITH_ZONE, **without}, INSTANT)
