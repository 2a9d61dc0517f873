from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from lakelog.demo.subscriber import Numbers, read_numbers, write_numbers


def changes(*rows: tuple[str, str, str, int | None]) -> pa.RecordBatch:
    kinds, status, carrier, delay = zip(*rows, strict=True)
    return pa.record_batch(
        {"carrier": carrier, "status": status, "arr_delay": pa.array(delay, pa.int32()), "_row_kind": kinds}
    )


def test_changes_add_and_take_away() -> None:
    numbers = Numbers()
    numbers.add(changes(("+I", "scheduled", "AA", None), ("+I", "arrived", "AA", 5), ("+I", "arrived", "UA", -7)))
    numbers.add(changes(("-U", "scheduled", "AA", None), ("+U", "departed", "AA", None), ("-D", "arrived", "UA", -7)))
    numbers.add(changes(("-U", "departed", "AA", None), ("+U", "arrived", "AA", 20)))
    assert {name: count for name, count in numbers.by_status.items() if count} == {"arrived": 2}
    assert (numbers.arrivals, numbers.delay_minutes) == ({"AA": 2, "UA": 0}, {"AA": 25, "UA": 0})


def test_numbers_are_kept_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "numbers.json"
    assert read_numbers(file) == Numbers()
    numbers = Numbers(3, {"arrived": 1}, {"AA": 1}, {"AA": -4})
    write_numbers(numbers, file)
    write_numbers(numbers, file)
    assert read_numbers(file) == numbers
    assert list(tmp_path.iterdir()) == [file]
