"""Sizes for people, in one form everywhere."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def format_size(size_bytes: int) -> str:
    """A number of bytes with one digit after the point and its unit, `1.4 MiB`; pure."""
    amount = float(size_bytes)
    for unit in _UNITS:
        # 1024.0 of a unit is shown as 1.0 of the next one.
        if abs(amount) < 1023.95 or unit == _UNITS[-1]:
            break
        amount /= 1024
    return f"{size_bytes} B" if unit == "B" else f"{amount:.1f} {unit}"
