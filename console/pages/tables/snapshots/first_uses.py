"""Since when versions of a schema are in use: the first retained snapshot of each.

The metastore keeps the time when a version was made, and none of its first use. But snapshots name their version, and
versions only go up. So the first snapshot of a version is found by halves, without a list of all snapshots.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from lakelog.format.tables.snapshot import Snapshot
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table


def find_first_uses(catalog: Catalog, table: Table, versions: Iterable[int]) -> dict[int, Snapshot]:
    """The first snapshot of each version, by version.

    A version is left out if no commit has used it yet, and if it may be older than the oldest retained snapshot.
    """
    latest = catalog.metastore.list_latest([table.uuid])[0]
    earliest, newest = latest.earliest_snapshot_id, latest.snapshot_id

    @cache
    def load(wanted: int) -> Snapshot | None:
        """The snapshot of this number, or the next one: some may have expired meanwhile."""
        page = catalog.metastore.list_snapshots(table.uuid, after=wanted - 1, limit=1)
        return page.snapshots[0] if page.snapshots else None

    def find(version: int) -> Snapshot | None:
        low, high = earliest, newest
        while low < high:
            middle = (low + high) // 2
            found = load(middle)
            if found is None or found.schema_id >= version:
                high = middle
            else:
                low = middle + 1
        return load(low)

    if not newest:
        return {}
    found = {version: find(version) for version in versions}
    return {
        version: first
        for version, first in found.items()
        if first is not None and first.schema_id == version and (first.snapshot_id > earliest or earliest == 1)
    }
