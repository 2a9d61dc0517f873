"""What the caller may do: the metastore is asked, so no rule stands here a second time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final
from weakref import WeakKeyDictionary

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import PermissionDenied
from lakelog.sdk.catalog import Catalog

_KNOWN_S: Final = 60.0
"""For so long an answer decides which actions are offered; the metastore decides anew when one is done."""

_MOST_KNOWN: Final = 1000

_known: Final[WeakKeyDictionary[Catalog, dict[str, tuple[float, bool]]]] = WeakKeyDictionary()
_lock: Final = threading.Lock()


def may_write(catalog: Catalog, table_uuid: str) -> bool:
    """Whether the caller may change rows of a table, compact it, tag it, and so on.

    The list of expired files is for writers; one entry of it costs next to nothing. But each request is a line in the
    metastore's log, and open pages ask every few seconds.
    """
    with _lock:
        known = _known.setdefault(catalog, {})
        until_s, may = known.get(table_uuid, (0.0, False))
    if catalog.context.clock.monotonic_s() >= until_s:
        may = _may(lambda: catalog.metastore.list_expired_files(table_uuid, 1))
        with _lock:
            while len(known) >= _MOST_KNOWN:
                known.pop(next(iter(known)))
            known[table_uuid] = (catalog.context.clock.monotonic_s() + _KNOWN_S, may)
    return may


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
