"""Finds out whether the grants of a caller suffice for what its request needs.

Objectives, which conflict: a grant that was taken back ends what it allowed within seconds, at every metastore; and a
call of a caller with grants costs no query. So grants are cached for `MAX_AGE_S`, and every change of a caller's grant
takes that caller out of the caches: here at once, and at other metastores with an announcement through the store. Where
the callers are not known, all are taken out: a database was dropped, or announcements may have been missed.

Invariants:

1. What is not known is not allowed. An error of the store refuses the call.
2. Nothing older than `MAX_AGE_S` decides, whether or not announcements arrive.
3. A change of a grant that this metastore has answered decides every later check here: a query that began before it
   does not fill the cache.
4. A table's grant is found by its uuid, never by its name. A name is looked up for each request, so that a new table
   of an old name gets nothing.
"""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.clock import Clock
from lakelog.format.jobs.overview import Overview
from lakelog.format.tables.grant import GrantLevel

from ..store.transaction import Store, Transaction, run_transaction
from .needs import HeldGrants, Need, NeedKind

MAX_AGE_S: Final = 3.0
"""How late a metastore notices at worst that another one has changed a grant."""

ANNOUNCED: Final = "grants"
"""The name by which metastores on one store announce that grants have changed; of one caller as `grants/<caller>`."""

_OF_CALLER: Final = f"{ANNOUNCED}/"

_MAX_CACHED: Final = 200_000
"""Grants in the cache, of all callers together: some 50 MB."""

_MAX_LOCATIONS: Final = 20_000
"""Tables whose databases are cached."""

_MAX_DROPPED: Final = 1000
"""Dropped tables of one name of which all must be allowed, if a request says none's uuid."""

_UUID: Final = re.compile(r"[0-9a-f]{32}")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PIPELINE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
_MAX_JOB: Final = 2**62


@dataclass(frozen=True)
class _Cached:
    held: HeldGrants
    loaded_at_s: float


class GrantChecks:
    """Loads and caches the grants of callers, and judges requests by them. Runs on one event loop.

    Args:
        store: Where everything is stored.
        clock: Measures the age of what is cached.
        announce: Announces a name to other metastores on the same store.
        max_cached: Grants in the cache.
    """

    def __init__(
        self, store: Store, clock: Clock, announce: Callable[[str], None], *, max_cached: int = _MAX_CACHED
    ) -> None:
        self._store = store
        self._clock = clock
        self._announce = announce
        self._max_cached = max_cached
        self._cached: OrderedDict[str, _Cached] = OrderedDict()
        self._cached_grants = 0
        self._loading: dict[str, asyncio.Task[HeldGrants]] = {}
        self._locations: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._changes = 0

    def changed(self) -> None:
        """Forgets what is cached, here and soon at other metastores: a database was dropped."""
        self.forget()
        self._announce(ANNOUNCED)

    def changed_of(self, caller: str) -> None:
        """Forgets what is cached of one caller, here and soon at other metastores: a grant of it has changed."""
        self.forget_caller(caller, ())
        self._announce(f"{_OF_CALLER}{caller}")

    def announced(self, names: Collection[str]) -> None:
        """Hears an announcement of another metastore; an empty one means that some may have been missed."""
        if not names or ANNOUNCED in names:
            self.forget()
            return
        for name in names:
            if name.startswith(_OF_CALLER):
                self.forget_caller(name.removeprefix(_OF_CALLER), ())

    def forget(self) -> None:
        """Forgets what is cached here."""
        self._changes += 1
        self._cached.clear()
        self._cached_grants = 0
        self._loading.clear()
        self._locations.clear()

    def forget_caller(self, caller: str, needs: Collection[Need]) -> None:
        """Forgets what is cached of one caller, and where the tables of some needs are."""
        self._loading.pop(caller, None)
        before = self._cached.pop(caller, None)
        self._cached_grants -= 0 if before is None else _size(before)
        for need in needs:
            self._locations.pop(need.key, None)

    def known_level(self, caller: str) -> int:
        """The highest level of a caller anywhere, if its grants are cached; else 0."""
        cached = self._cached.get(caller)
        return cached.held.highest if cached is not None and self._is_fresh(cached.loaded_at_s) else 0

    async def load(self, caller: str) -> HeldGrants:
        """The grants of a caller, at most `MAX_AGE_S` old. The same object as long as it is cached.

        Raises:
            Unavailable: The store is lost.
        """
        cached = self._cached.get(caller)
        if cached is not None and self._is_fresh(cached.loaded_at_s):
            self._cached.move_to_end(caller)
            return cached.held
        loading = self._loading.get(caller)
        if loading is None:
            loading = self._loading[caller] = asyncio.create_task(self._load(caller), name="grants")
            loading.add_done_callback(lambda task: self._loaded(caller, task))
        # One caller that gives up must not fail the others.
        return await asyncio.shield(loading)

    async def find_lacking(self, held: HeldGrants, needs: Sequence[Need]) -> list[Need]:
        """Those needs for which grants do not suffice, in their order; also for all that does not exist.

        Raises:
            Unavailable: The store is lost.
        """
        if not held.grants:
            return list(needs)
        open_needs = [need for need in needs if not self._is_met_at_once(held, need)]
        if not open_needs:
            return []
        return await run_transaction(self._store, lambda tx: self._find_lacking(tx, held, open_needs))

    async def find_readable(self, held: HeldGrants, table_uuids: Collection[str]) -> set[str]:
        """Those tables, live or dropped, that a caller may read."""
        needs = [Need(NeedKind.TABLE, GrantLevel.READER, uuid) for uuid in dict.fromkeys(table_uuids)]
        return set(table_uuids) - {need.key for need in await self.find_lacking(held, needs)}

    async def measure_tables(self, held: HeldGrants) -> dict[str, list[int]]:
        """The sizes in bytes of the live tables on which a caller has a grant of its own, by database."""
        tables = {each.table_uuid: each.database for each in held.grants if each.name}
        sizes: dict[str, list[int]] = {}
        if tables:
            heads = await run_transaction(self._store, lambda tx: tx.find_heads(sorted(tables)))
            for uuid, head in heads.items():
                sizes.setdefault(tables[uuid], []).append(head.total_bytes)
        return sizes

    async def sum_tables(self, held: HeldGrants) -> Overview:
        """Sums over the live tables that a caller may read.

        Raises:
            Unavailable: The store is lost.
        """
        uuids = sorted({each.table_uuid for each in held.grants if each.name})
        return await run_transaction(self._store, lambda tx: tx.sum_tables(sorted(held.databases), uuids))

    def _is_fresh(self, loaded_at_s: float) -> bool:
        return self._clock.monotonic_s() - loaded_at_s < MAX_AGE_S

    async def _load(self, caller: str) -> HeldGrants:
        began_s = self._clock.monotonic_s()
        held = HeldGrants(tuple(await run_transaction(self._store, lambda tx: tx.load_held_grants(caller))))
        # Else the caller was forgotten meanwhile: what was found may be from before the change.
        if self._loading.get(caller) is asyncio.current_task():
            self._put(caller, _Cached(held, began_s))
        return held

    def _loaded(self, caller: str, task: asyncio.Task[HeldGrants]) -> None:
        if self._loading.get(caller) is task:
            del self._loading[caller]
        if not task.cancelled():
            # Those that wait raise it; if all have given up, no one does.
            task.exception()

    def _put(self, caller: str, cached: _Cached) -> None:
        before = self._cached.pop(caller, None)
        self._cached_grants += _size(cached) - (0 if before is None else _size(before))
        self._cached[caller] = cached
        while self._cached_grants > self._max_cached and len(self._cached) > 1:
            _, evicted = self._cached.popitem(last=False)
            self._cached_grants -= _size(evicted)

    def _is_met_at_once(self, held: HeldGrants, need: Need) -> bool:
        """Whether a need is met by what is cached."""
        match need.kind:
            case NeedKind.DATABASE | NeedKind.NAME:
                return held.level_at(need.key) >= need.level
            case NeedKind.TABLE:
                database, at_s = self._locations.get(need.key, ("", 0.0))
                return held.level_at(database if self._is_fresh(at_s) else "", need.key) >= need.level
            case NeedKind.ANYWHERE:
                return held.highest >= need.level
        return False

    async def _find_lacking(self, tx: Transaction, held: HeldGrants, needs: Sequence[Need]) -> list[Need]:
        tables: dict[Need, list[str]] = {}
        lacking_of_all = set()
        for need in needs:
            if need.kind is NeedKind.PIPELINE_NAME and await _is_free(tx, need.key):
                if held.highest < need.level:
                    lacking_of_all.add(need)
                continue
            tables[need] = await _find_tables(tx, need)
        databases = await self._find_databases(tx, {uuid for uuids in tables.values() for uuid in uuids})
        return [
            need
            for need in needs
            if need in lacking_of_all or (need in tables and not _is_met(held, need, tables[need], databases))
        ]

    async def _find_databases(self, tx: Transaction, table_uuids: Collection[str]) -> dict[str, str]:
        if not table_uuids:
            return {}
        began_s, changes = self._clock.monotonic_s(), self._changes
        found = await tx.find_databases_of(sorted(table_uuids))
        if changes == self._changes:
            for uuid, database in found.items():
                self._locations[uuid] = (database, began_s)
                self._locations.move_to_end(uuid)
            while len(self._locations) > _MAX_LOCATIONS:
                self._locations.popitem(last=False)
        return found


async def _is_free(tx: Transaction, pipeline: str) -> bool:
    return await _find_table_of_pipeline(tx, pipeline) is None


async def _find_table_of_pipeline(tx: Transaction, name: str) -> str | None:
    """The name of the table for which a pipeline has reported; None: none of this name has."""
    return await tx.find_pipeline_table(name) if _PIPELINE.fullmatch(name) else None


async def _find_tables(tx: Transaction, need: Need) -> list[str]:
    """The uuids of the tables that a need is about; none: there are none, or it names something malformed."""
    match need.kind:
        case NeedKind.TABLE:
            return [need.key] if _UUID.fullmatch(need.key) else []
        case NeedKind.NAME:
            if _NAME.fullmatch(need.key) and _NAME.fullmatch(need.table):
                found = await tx.find_table_uuid(need.key, need.table)
                return [] if found is None else [found]
        case NeedKind.JOB:
            if 0 < int(need.key) < _MAX_JOB:
                job = await tx.find_job(int(need.key))
                return [] if job is None else [job.table_uuid]
        case NeedKind.ATTEMPT:
            if _UUID.fullmatch(need.key):
                return list(await tx.find_attempt_tables(need.key) or ())
        case NeedKind.PIPELINE | NeedKind.PIPELINE_NAME:
            name = await _find_table_of_pipeline(tx, need.key)
            if name is not None:
                database, _, table = name.partition(".")
                return await _find_tables(tx, Need(NeedKind.NAME, need.level, database, table))
        case NeedKind.DROPPED:
            if _NAME.fullmatch(need.key) and _NAME.fullmatch(need.table):
                uuids = [each.table_uuid for each in await tx.list_dropped(need.key, need.table, _MAX_DROPPED)]
                # The uuid of another table would not do: errors name the dropped tables of this name.
                return [uuid for uuid in uuids if need.uuid in ("", uuid)]
    return []


def _is_met(held: HeldGrants, need: Need, tables: Sequence[str], databases: dict[str, str]) -> bool:
    """Whether a caller has the level at all tables of a need; it has none without tables. Pure."""
    if not tables or any(uuid not in databases or held.level_at(databases[uuid], uuid) < need.level for uuid in tables):
        return False
    if need.kind is NeedKind.DROPPED and any(databases[uuid] != need.into for uuid in tables):
        # It comes into another database than it was in, or into one that was made after its own was dropped.
        return held.level_at(need.into) >= need.level
    return True


def _size(cached: _Cached) -> int:
    # A caller without grants takes room as well.
    return 1 + len(cached.held.grants)
