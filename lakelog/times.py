"""Points in time as users give them."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from lakelog.errors import InvalidArgument

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.timezone.utc)


def to_epoch_ms(value: Any, name: str) -> int:
    """Returns a point in time in milliseconds since the epoch, rounded down. Pure.

    Args:
        value: A whole number of milliseconds since the epoch, or a datetime with a time zone.
        name: The argument, for the message.

    Raises:
        InvalidArgument: It is neither; a datetime without a time zone would mean another time on each machine.
    """
    if isinstance(value, dt.datetime):
        if value.tzinfo is None:
            raise InvalidArgument(
                f"{name}={value.isoformat()} has no time zone. Add one, for instance "
                ".replace(tzinfo=datetime.timezone.utc).",
                metadata={"field": name},
            )
        return (value - _EPOCH) // dt.timedelta(milliseconds=1)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise InvalidArgument(
        f"{name}={value!r:.80} is no point in time: give a datetime with a time zone, or whole milliseconds since the "
        "epoch.",
        metadata={"field": name},
    )
