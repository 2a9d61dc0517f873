"""Who the caller is and what it may do: the metastore is asked, so no rule stands here a second time."""

from __future__ import annotations

import threading
from collections.abc import Collection
from typing import Final
from weakref import WeakKeyDictionary

from lakelog.errors import LakelogError
from lakelog.format.tables.grant import CallerRole, GrantLevel, Identity
from lakelog.sdk.catalog import Catalog

_KNOWN_S: Final = 60.0
"""For so long an answer decides which actions are offered; the metastore decides anew when one is done."""

_MOST_KNOWN: Final = 1000

_WRITES: Final[WeakKeyDictionary[Catalog, dict[str, tuple[float, bool]]]] = WeakKeyDictionary()
_IDENTITIES: Final[WeakKeyDictionary[Catalog, tuple[float, Identity]]] = WeakKeyDictionary()
_lock: Final = threading.Lock()


def who_is(catalog: Catalog) -> Identity:
    """The caller of a catalog."""
    now_s = catalog.context.clock.monotonic_s()
    with _lock:
        until_s, known = _IDENTITIES.get(catalog, (0.0, None))
    if known is None or now_s >= until_s:
        known = catalog.metastore.who_am_i()
        with _lock:
            _IDENTITIES[catalog] = (now_s + _KNOWN_S, known)
    return known


def name_caller(catalog: Catalog) -> str:
    """The caller's name and role for the head of a page; empty: no one is identified, or the metastore is away."""
    try:
        found = who_is(catalog)
    except LakelogError:
        return ""
    return f"{found.name} ({found.role.value})" if found.name else ""


def may_write(catalog: Catalog, table_uuid: str) -> bool:
    """Whether the caller may change rows of a table, compact it, tag it, and so on."""
    return table_uuid in find_writable(catalog, [table_uuid])


def find_writable(catalog: Catalog, table_uuids: Collection[str]) -> set[str]:
    """Those of some tables, at most 1000, that the caller may write to."""
    now_s = catalog.context.clock.monotonic_s()
    wanted = set(table_uuids)
    with _lock:
        known = _WRITES.setdefault(catalog, {})
        found = {uuid: known[uuid][1] for uuid in wanted if uuid in known and now_s < known[uuid][0]}
    if missing := sorted(wanted - found.keys()):
        identity = catalog.metastore.who_am_i(missing)
        found |= {uuid: identity.may(GrantLevel.WRITER, uuid) for uuid in missing}
        with _lock:
            for uuid in missing:
                while len(known) >= _MOST_KNOWN:
                    known.pop(next(iter(known)))
                known[uuid] = (now_s + _KNOWN_S, found[uuid])
    return {uuid for uuid, may in found.items() if may}


def has_role(catalog: Catalog) -> bool:
    """Whether the caller has a role, and so sees everything, beyond what is granted to it."""
    return who_is(catalog).role is not CallerRole.USER


def is_admin(catalog: Catalog) -> bool:
    """Whether the caller may list the grants of any other caller, as admins do."""
    return who_is(catalog).role is CallerRole.ADMIN
