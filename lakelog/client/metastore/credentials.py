"""Short-lived keys of the object store for the files of one table: a part of `Metastore`."""

from __future__ import annotations

from typing import Protocol

from lakelog.format.tables.credentials import StoreCredentials


class Credentials(Protocol):
    """Keys that the metastore vends."""

    def vend_read_credentials(self, table_uuid: str, *, refused_key_id: str = "") -> StoreCredentials | None:
        """Keys that read the files of a table, live or dropped; None: this metastore vends none for it.

        Args:
            table_uuid: The table.
            refused_key_id: The id of a key that the store has refused: not this one again. Older metastores ignore it.

        Raises:
            NotFound: There is no such table.
            PermissionDenied: The caller may not read it, or the store refuses keys to the metastore.
            Unavailable: The store's token service does not answer.
        """
        ...

    def vend_write_credentials(self, table_uuid: str, *, refused_key_id: str = "") -> StoreCredentials | None:
        """Keys that read, write and delete the files of a table; as `vend_read_credentials`."""
        ...
