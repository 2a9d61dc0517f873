import pytest

from lakelog.cli.output.text import clean_text, format_age, format_bytes, format_time, parse_time, plural
from lakelog.errors import InvalidArgument


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (5 * 1024**3, "5.0 GiB"),
        (None, ""),
    ],
)
def test_sizes(size: int | None, text: str) -> None:
    assert format_bytes(size) == text


@pytest.mark.parametrize(
    ("time_ms", "text"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_357_034_400_007, "2013-01-01T10:00:00.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
        (10**18, "1000000000000000000 ms"),
        (None, ""),
    ],
)
def test_times(time_ms: int | None, text: str) -> None:
    assert format_time(time_ms) == text


@pytest.mark.parametrize(
    ("text", "time_ms"),
    [
        ("2013-01-01T10:00:00Z", 1_357_034_400_000),
        ("2013-01-01T11:00:00+01:00", 1_357_034_400_000),
        ("2013-01-01 10:00:00.007", 1_357_034_400_007),
        ("2013-01-01", 1_356_998_400_000),
        ("1357034400007", 1_357_034_400_007),
        ("1969-12-31T23:59:59.999Z", -1),
        ("-1", -1),
    ],
)
def test_times_are_read(text: str, time_ms: int) -> None:
    assert parse_time(text) == time_ms


@pytest.mark.parametrize("text", ["yesterday", "", "2013-13-01", "²", "--5", "9" * 30])
def test_what_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgument, match="cannot be read: write it as"):
        parse_time(text)


@pytest.mark.parametrize(
    ("age_ms", "text"),
    [
        (-5, "0 s"),
        (999, "0 s"),
        (3_000, "3 s"),
        (125_000, "2 min 5 s"),
        (120_000, "2 min"),
        (12_000_000, "3 h 20 min"),
        (90_000_000, "1 d 1 h"),
    ],
)
def test_ages(age_ms: int, text: str) -> None:
    assert format_age(age_ms) == text


def test_nothing_steers_the_terminal() -> None:
    assert clean_text("a\x1b[31mb\n\u202ec\x9b") == "a\\x1b[31mb\\n\\u202ec\\x9b"
    assert clean_text("żółć 東京") == "żółć 東京"
    assert "\u2028" not in clean_text("\u2028")


def test_plural() -> None:
    assert [plural(n, "row") for n in (0, 1, 2000)] == ["0 rows", "1 row", "2,000 rows"]
