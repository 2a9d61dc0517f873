"""Leases and pipelines: who does which work, and how far it is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LeaseGrant:
    """The answer to asking for a lease.

    Args:
        acquired: Whether the caller holds it now.
        epoch: The caller's epoch, or that of whoever holds it.
        holder: Who holds it now.
        remaining_ms: Until it ends unless renewed, by the database's clock.
    """

    acquired: bool
    epoch: int
    holder: str
    remaining_ms: int


@dataclass(frozen=True)
class Pipeline:
    """Where an ingestion pipeline is. `reported_at_ms` and `holder` are set by the metastore; see jobs.proto."""

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
