"""The times by which readers know that a writer which sends rows before their commit is alive.

A writer renews its open attempts every `HEARTBEAT_S`. The metastore measures silence by its own clock, from the last
renewal on, or from the opening. Silence only hides rows: it aborts nothing and deletes nothing.
"""

from __future__ import annotations

from typing import Final

HEARTBEAT_S: Final = 2.0
"""Time between renewals."""

SILENT_MS: Final = 10_000
"""An open attempt that was not heard of for longer is silent: rows that it sent are not shown before their commit.
Several renewals may be lost before."""

MAX_ATTEMPTS: Final = 1000
"""The most attempts of one request for states, or of one renewal."""
