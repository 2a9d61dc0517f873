"""Dedicated compaction: for the tables that a compactor was started for, work is due even if they are write-only.

In a write-only table nothing becomes due without a request (semantics 6.5). So a compactor that was started for named
tables regularly asks the metastore to plan what their commits have made necessary since its last request; the first
request covers everything. If several compactors do so, they make the same jobs due, which is harmless.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import LakelogError, NotFound, OutcomeUnknown, PermissionDenied, Unavailable
from lakelog.serving.logging_setup import Logger

REQUEST_EVERY_S: Final = 5.0
"""How late a commit to a write-only table is noticed; a request without new commits costs a few reads by key."""


class DedicatedCompaction:
    """Remembers how far each table was planned."""

    def __init__(self, metastore: Metastore, log: Logger) -> None:
        self._metastore = metastore
        self._log = log
        self._planned: dict[str, int] = {}

    def plan(self, table_uuids: Sequence[str]) -> None:
        """Makes the compactions of these tables due; blocks.

        A table that is dropped meanwhile, or that cannot be planned, is skipped: the others still have work.

        Raises:
            Unavailable: The metastore is away; also OutcomeUnknown.
            PermissionDenied: We may not request this.
        """
        for table_uuid in table_uuids:
            try:
                planned = self._metastore.plan_compactions(table_uuid, self._planned.get(table_uuid, 0))
            except NotFound:
                self._planned.pop(table_uuid, None)
                continue
            except (Unavailable, OutcomeUnknown, PermissionDenied):
                raise
            except LakelogError as error:
                self._log.error("table could not be planned", table_uuid=table_uuid, error=error.message)
                continue
            self._planned[table_uuid] = planned.planned_until
            if planned.job_count:
                self._log.debug("made due", table_uuid=table_uuid, jobs=planned.job_count)
