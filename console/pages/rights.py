"""What the caller may do: the metastore is asked, so no rule stands here a second time."""

from __future__ import annotations

from collections.abc import Callable

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import PermissionDenied


def may_write(metastore: Metastore, table_uuid: str) -> bool:
    """Whether the caller may change rows of a table, compact it, tag it, and so on.

    The list of expired files is for writers; one entry of it costs next to nothing.
    """
    return _may(lambda: metastore.list_expired_files(table_uuid, 1))


def has_role(metastore: Metastore) -> bool:
    """Whether the caller has a role, and so sees everything, beyond what is granted to it."""
    return _may(metastore.describe_queue)


def is_admin(metastore: Metastore) -> bool:
    """Whether the caller may list the grants of any other caller, as admins do."""
    return _may(lambda: metastore.list_grants(principal="nobody"))


def _may(request: Callable[[], object]) -> bool:
    try:
        request()
    except PermissionDenied:
        return False
    return True
