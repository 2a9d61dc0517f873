"""Epochs: numbers that a metastore gives to the instances of a writer, job, lease or consumer (reliability C3). Pure.

An instance is fenced because another one has another epoch. So an epoch must never be given twice, even if the
database was set back to an older state and has forgotten what it gave since. Three rules together ensure that:

1. An epoch is a time: microseconds of the database's clock since 1970. So epochs given after a restore are above epochs
   given before it.
2. Its low bits are random. So a clock that is earlier than the last epoch, or that was set back too, does not give the
   same numbers again.
3. Every effect needs exactly the current epoch. A lower epoch belongs to an instance that was replaced. A higher epoch
   is from before a restore; it is refused too, because the database does not know which other instances exist.

Epochs of one name rise. Between two of them there are at least `EPOCH_STEP` numbers, which belong to the lower one:
jobs number their commits with them.
"""

from __future__ import annotations

from typing import Final

EPOCH_STEP: Final = 1 << 20
"""The least distance between two epochs of a name, about a second; also the range of the random bits."""

EPOCH_UNKNOWN: Final = "EPOCH_UNKNOWN"
"""The reason of a `Fenced` about an epoch that is above the current one."""


def make_epoch(last: int, time_us: int, draw: int) -> int:
    """Returns the epoch after `last`. Pure; Postgres does the same in SQL.

    Args:
        last: The last epoch of this name; 0: none is known.
        time_us: The store's time, in microseconds since 1970.
        draw: A random number, from 0 to below `EPOCH_STEP`.
    """
    return max(last + EPOCH_STEP, time_us) + draw


def explain_unknown(epoch: int, current: int) -> str:
    """Explains why a higher epoch than the current one is refused."""
    known = f"only {current}" if current else "none"
    return (
        f"the metastore does not know epoch {epoch}, and has given {known}: its database was set back to an older state"
    )
