"""Leases and pipelines: the holder of each piece of work, and its progress."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MEMBERSHIP_LEASES: Final = "publisher-seat"
"""How the names of leases begin by which publishers count each other. All the time they try and release free ones."""


@dataclass(frozen=True)
class LeaseGrant:
    """The answer to a request for a lease.

    Args:
        acquired: Whether the caller holds it now.
        epoch: The caller's epoch, or that of the current holder.
        holder: The current holder.
        remaining_ms: Time until it ends unless renewed, by the database's clock.
    """

    acquired: bool
    epoch: int
    holder: str
    remaining_ms: int


@dataclass(frozen=True)
class Pipeline:
    """The state of an ingestion pipeline. The metastore sets `reported_at_ms` and `holder`; see jobs.proto."""

    name: str
    table: str
    source: str
    state: str
    last_batch_id: int | None
    position: str
    lag: int | None
    total_rows: int
    dead_letter_rows: int
    last_error: str
    reported_at_ms: int = 0
    holder: str = ""
