"""How values of options are read and written."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import InvalidArgument
from lakelog.options.option import Option
from lakelog.options.registry import ALL_OPTIONS
from lakelog.options.value_types import (
    Choice,
    ColumnNames,
    Duration,
    Flag,
    MemorySize,
    SnapshotRange,
    TagName,
    Text,
    ValueType,
    Whole,
)


@pytest.mark.parametrize(
    ("value_type", "text", "value"),
    [
        (Whole(-5, 9), " 7 ", 7),
        (Whole(-5, 9), "-5", -5),
        (Whole(-5, 9), "+9", 9),
        (Flag(), "TRUE", True),
        (Flag(), "false", False),
        (MemorySize(), "128 mb", 134_217_728),
        (MemorySize(), "128MB", 134_217_728),
        (MemorySize(), "1024", 1024),
        (MemorySize(), "2 gibibytes", 2 << 30),
        (Duration(), "1 h", 3_600_000),
        (Duration(), "1d", 86_400_000),
        (Duration(), "90 min", 5_400_000),
        (Duration(), "15", 15),
        (Duration(), "0 s", 0),
        (Duration(), "1.5 h", 5_400_000),
        (Choice(("asc", "desc"), {"ascending": "asc"}), "Ascending", "asc"),
        (ColumnNames(), " a , b,c", ("a", "b", "c")),
        (Text(), "a b", "a b"),
        (SnapshotRange(), " 3, 7 ", (3, 7)),
        (SnapshotRange(), "0,0", (0, 0)),
        (SnapshotRange(), "v1 , 3", ("v1", 3)),
        (SnapshotRange(), "9,release-1", (9, "release-1")),
        (TagName(), "release-1.0", "release-1.0"),
    ],
)
def test_values_are_read(value_type: ValueType[Any], text: str, value: object) -> None:
    assert value_type.parse(text) == value
    assert value_type.parse(value_type.format(value)) == value


@pytest.mark.parametrize(
    ("value_type", "text", "remedy"),
    [
        (Whole(-5, 9), "10", "-5 to 9"),
        (Whole(-5, 9), "1.0", "whole number"),
        (Whole(-5, 9), "٣", "whole number"),
        (Whole(-5, 9), "", "whole number"),
        (Flag(), "yes", "true or false"),
        (MemorySize(), "-1 mb", "128 mb"),
        (MemorySize(), "0.0001 kb", "128 mb"),
        (MemorySize(), "1 pb", "the units are"),
        (MemorySize(first=1024), "1 kb 1", "128 mb"),
        (MemorySize(first=1024), "1023", "from 1 kb"),
        (Duration(), "1 year", "the units are"),
        (Duration(), "10 us", "the units are"),
        (Duration(), "-5", "the units are"),
        (Duration(), "+3600", "the units are"),
        (Duration(), "0.5 ms", "the units are"),
        (Duration(), "999999 d", "at most 100 years"),
        (Choice(("a", "b")), "c", "Give one of 'a', 'b'"),
        (Choice(("a",), refused={"c": "it is later"}), "C", "'c' is not in this version: it is later. Give 'a'"),
        (ColumnNames(), "a,,b", "none of them empty"),
        (ColumnNames(), "", "none of them empty"),
        (ColumnNames(), "a,b,a", "each column once"),
        (Text(), "  ", "1 to 1024"),
        (Text(last_length=3), "abcd", "1 to 3"),
        (SnapshotRange(), "7,3", "'3,7'"),
        (SnapshotRange(), "a tag,3", "or the names of two tags"),
        (SnapshotRange(), "3", "two snapshot ids"),
    ],
)
def test_what_is_no_value_gets_a_remedy(value_type: ValueType[Any], text: str, remedy: str) -> None:
    with pytest.raises(ValueError, match="Give") as caught:
        value_type.parse(text)
    assert remedy in str(caught.value)


@pytest.mark.parametrize("option", ALL_OPTIONS, ids=lambda option: option.key)
def test_defaults_are_values(option: Option[Any]) -> None:
    if option.default is None or option.default == ():
        return
    assert option.parse(option.type.format(option.default)) == option.default


@pytest.mark.parametrize("number", ["3600", "0", " 15 ", "1.5"])
def test_a_new_duration_has_a_unit(number: str) -> None:
    """A bare number would be milliseconds to one and seconds to another reader."""
    with pytest.raises(ValueError, match=rf"'{number.strip()} s' for seconds or '{number.strip()} ms' for milli"):
        Duration().check_new(number)
    Duration().check_new(f"{number} s")


def test_sizes_are_written_in_the_largest_unit_that_is_exact() -> None:
    assert MemorySize().format(128 << 20) == "128 mb"
    assert MemorySize().format(1025) == "1025 b"
    assert Duration().format(86_400_000) == "1 d"
    assert Duration().format(0) == "0 ms"


def test_an_error_names_option_value_and_remedy_and_shortens_the_value() -> None:
    option = next(option for option in ALL_OPTIONS if option.key == "target-file-size")
    with pytest.raises(InvalidArgument) as caught:
        option.parse("x" * 10_000_000)
    assert caught.value.message.startswith("Option 'target-file-size' = 'xxx")
    assert caught.value.message.endswith("the units are b, kb, mb, gb and tb.")
    assert len(caught.value.message) < 300
    assert caught.value.metadata["option"] == "target-file-size"
