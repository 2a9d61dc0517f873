"""The times by which readers know that a writer which sends rows before their commit is alive.

A writer renews its open attempts every `HEARTBEAT_S`. The metastore measures silence by its own clock, from the last
renewal on, or from the opening. Silence only hides rows: it aborts nothing and deletes nothing.
"""

from __future__ import annotations

from typing import Final

HEARTBEAT_S: Final = 2.0
"""Time between renewals."""

SILENT_MS: Final = 10_000
"""An open attempt without a renewal for longer is silent: its rows are not shown before its commit. Several renewals
can be lost before that."""

MAX_ATTEMPTS: Final = 1000
"""The most attempts of one request for states, or of one renewal."""
