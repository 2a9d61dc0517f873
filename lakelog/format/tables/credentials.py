"""Short-lived keys of the object store, and which table a location belongs to. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

_OF_TABLE: Final = re.compile(r"s3://.*/([0-9a-f]{32})/?")


@dataclass(frozen=True)
class StoreCredentials:
    """Keys of the object store for the files of one table. It shows no secret.

    Args:
        access_key_id: The id of the key.
        secret_access_key: Signs requests.
        session_token: Goes with each request.
        expires_at_ms: When the store stops to accept them, in milliseconds since the epoch, by the metastore's clock.
        valid_ms: For how long they could be used when they were sent.
    """

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str = field(repr=False)
    expires_at_ms: int
    valid_ms: int

    def __reduce__(self) -> tuple[object, ...]:
        # Data for other processes holds no secrets: each process requests its own.
        raise TypeError("Keys of the object store are not pickled: each process requests its own from the metastore.")


def find_table_uuid(location: str) -> str | None:
    """The table whose files are at a location, as `make_location` has made it; None: it is none of a table's in S3."""
    found = _OF_TABLE.fullmatch(location.partition("?")[0])
    return found.group(1) if found else None


def make_location(warehouse: str, table_uuid: str) -> str:
    """The location of a table's files.

    Args:
        warehouse: An absolute URI without a slash at its end.
        table_uuid: The table.
    """
    return f"{warehouse}/{table_uuid}/"
