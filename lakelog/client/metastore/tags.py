"""Names of snapshots: a part of `Metastore`."""

from __future__ import annotations

from typing import Protocol

from lakelog.format.retention.tag import Tag


class Tags(Protocol):
    """Tags, which keep their snapshots from expiring."""

    def create_tag(self, table_uuid: str, name: str, snapshot_id: int = 0) -> Tag:
        """Gives a snapshot a name; 0: the newest.

        Raises:
            AlreadyExists: The table has a tag of this name.
            InvalidArgument: The name is not valid for a tag.
            NotFound: There is no such table or snapshot.
            SnapshotExpired: The snapshot is no longer retained.
            ResourceExhausted: The table has as many tags as it may have.
        """
        ...

    def list_tags(self, table_uuid: str) -> list[Tag]:
        """A table's tags by name."""
        ...

    def delete_tag(self, table_uuid: str, name: str) -> None:
        """Deletes a tag.

        Raises:
            NotFound: The table has none of this name; names the nearest ones.
        """
        ...
