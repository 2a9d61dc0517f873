"""Snapshots, and ranges of them, named by tags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import InvalidArgument
from lakelog.format.retention.tag import to_unknown_tag
from lakelog.format.tables.table import TableInfo
from lakelog.options.declared.reads_and_writes import INCREMENTAL_BETWEEN


@dataclass(frozen=True)
class ResolvedRange:
    """A range of snapshots by their ids.

    Args:
        after: Excluded; 0: from the first on.
        until: Included.
        by_tags: Whether a tag named one of them.
    """

    after: int
    until: int
    by_tags: bool


def resolve_range(metastore: Metastore, table: TableInfo, between: tuple[int | str, int | str]) -> ResolvedRange:
    """Finds the snapshots that tags name; asks the metastore if there are any.

    Args:
        metastore: Knows the tags.
        table: The table.
        between: The value of `incremental-between`.

    Raises:
        NotFound: The table has no such tag; names the nearest ones.
        InvalidArgument: The first snapshot is later than the second.
    """
    by_tags = any(isinstance(each, str) for each in between)
    tags = _list(metastore, table) if by_tags else {}
    after, until = (_find(each, table, tags) for each in between)
    if after > until:
        raise InvalidArgument(
            f"Option '{INCREMENTAL_BETWEEN.key}' = '{between[0]},{between[1]}' names snapshot {after} of {table.name} "
            f"and then {until}, which is older. Give the older one first: '{between[1]},{between[0]}'.",
            metadata={"option": INCREMENTAL_BETWEEN.key, "table": str(table.name)},
        )
    return ResolvedRange(after, until, by_tags)


def find_tagged(metastore: Metastore, table: TableInfo, name: str) -> int:
    """Returns the snapshot that has a tag; blocks.

    Raises:
        NotFound: The table has no such tag; names the nearest ones.
    """
    return _find(name, table, _list(metastore, table))


def _list(metastore: Metastore, table: TableInfo) -> dict[str, int]:
    return {tag.name: tag.snapshot_id for tag in metastore.list_tags(table.table_uuid)}


def _find(named: int | str, table: TableInfo, tags: Mapping[str, int]) -> int:
    if isinstance(named, int):
        return named
    if named not in tags:
        raise to_unknown_tag(str(table.name), named, sorted(tags))
    return tags[named]
