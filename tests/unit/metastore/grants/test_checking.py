"""The cache of grants: how old it may be, what empties it, and that what is not known is not allowed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import Unavailable
from lakelog.format.tables.grant import GrantLevel
from lakelog.format.tables.table import TableName
from metastore.grants import checking
from metastore.grants.checking import ANNOUNCED, MAX_AGE_S, GrantChecks
from metastore.grants.grants import Grants
from metastore.grants.needs import HeldGrants, Need, NeedKind
from metastore.memory import MemoryStore
from metastore.ownership import EVERYONE
from metastore.store.transaction import run_transaction
from metastore.use_cases import UseCases

READER, WRITER, OWNER = GrantLevel


class HandClock(SystemClock):
    """Goes on when a test says so."""

    def __init__(self) -> None:
        self.at_s = 1000.0

    def monotonic_s(self) -> float:
        return self.at_s


class CountingStore(MemoryStore):
    """Counts transactions, runs `before` in each, and fails if it is lost."""

    def __init__(self) -> None:
        super().__init__(SystemClock())
        self.count = 0
        self.is_lost = False
        self.before: Callable[[], Awaitable[None]] | None = None

    def transaction(self) -> Any:
        self.count += 1
        if self.is_lost:
            raise Unavailable("The database is away.")
        return super().transaction()


class World:
    """A database `shop` with a table `orders`, and checks beside those of the metastore."""

    def __init__(self) -> None:
        self.store = CountingStore()
        self.clock = HandClock()
        self.announced: list[str] = []
        self.use_cases = UseCases(self.store, "file:///w", planners=())
        self.checks = GrantChecks(self.store, self.clock, self.announced.append)
        self.uuid = ""

    async def open(self) -> World:
        await self.use_cases.catalog.create_database("shop")
        schema = pa.schema([("id", pa.int64())])
        table, _ = await self.use_cases.catalog.create_table(TableName("shop", "orders"), schema, by=EVERYONE)
        self.uuid = table.table_uuid
        return self

    async def grant(self, level: GrantLevel, *, table: str = "orders", principal: str = "bob") -> None:
        await self.use_cases.grants.grant("shop", table, level, principal, by=EVERYONE)

    async def may(self, level: GrantLevel, principal: str = "bob") -> bool:
        need = Need(NeedKind.TABLE, level, self.uuid)
        return not await self.checks.find_lacking(await self.checks.load(principal), [need])


def run(story: Callable[[World], Awaitable[None]]) -> None:
    async def tell() -> None:
        await story(await World().open())

    asyncio.run(tell())


def test_a_cached_grant_costs_no_query_until_it_is_too_old() -> None:
    async def story(world: World) -> None:
        await world.grant(WRITER)
        assert await world.may(WRITER)
        count = world.store.count
        for _ in range(5):
            assert await world.may(WRITER)
        assert world.store.count == count
        # The other metastore takes it back, and its announcement is lost.
        await world.use_cases.grants.revoke("shop", "orders", "bob")
        world.clock.at_s += MAX_AGE_S * 0.99
        assert await world.may(WRITER)
        world.clock.at_s += MAX_AGE_S * 0.02
        assert not await world.may(READER)

    run(story)


def test_what_is_cached_is_known_without_a_query() -> None:
    async def story(world: World) -> None:
        await world.grant(WRITER)
        assert world.checks.known_level("bob") == 0
        assert await world.may(READER)
        count = world.store.count
        assert world.checks.known_level("bob") == WRITER
        world.clock.at_s += MAX_AGE_S
        assert world.checks.known_level("bob") == 0
        assert world.store.count == count

    run(story)


def test_a_grant_on_the_database_costs_no_query_either_once_the_table_is_known() -> None:
    async def story(world: World) -> None:
        await world.grant(OWNER, table="")
        assert await world.may(OWNER)
        count = world.store.count
        assert await world.may(OWNER)
        assert world.store.count == count

    run(story)


@pytest.mark.parametrize("names", [frozenset(), frozenset({ANNOUNCED, "a" * 32})])
def test_an_announcement_empties_the_cache_also_one_that_says_that_some_were_missed(names: frozenset[str]) -> None:
    async def story(world: World) -> None:
        await world.grant(WRITER)
        assert await world.may(WRITER)
        await world.use_cases.grants.revoke("shop", "orders", "bob")
        world.checks.announced({"a" * 32})
        assert await world.may(WRITER), "that was about a table"
        world.checks.announced(names)
        assert not await world.may(WRITER)

    run(story)


def test_a_change_is_announced_and_holds_here_at_once() -> None:
    async def story(world: World) -> None:
        await world.grant(WRITER)
        assert await world.may(WRITER)
        await world.use_cases.grants.revoke("shop", "orders", "bob")
        world.checks.changed_of("bob")
        assert world.announced == [f"{ANNOUNCED}/bob"]
        assert not await world.may(WRITER)

    run(story)


def test_a_change_of_one_caller_leaves_the_others_cached() -> None:
    async def story(world: World) -> None:
        for name in ("bob", "ann"):
            await world.grant(WRITER, principal=name)
            assert await world.may(WRITER, name)
        count = world.store.count
        world.checks.announced(frozenset({f"{ANNOUNCED}/bob", "a" * 32}))
        assert await world.may(WRITER, "ann")
        assert world.store.count == count
        assert await world.may(WRITER)
        assert world.store.count > count

    run(story)


def test_only_a_change_is_announced() -> None:
    async def story(world: World) -> None:
        changed: list[str] = []
        grants = Grants(world.store, world.checks, changed.append)
        for level in (READER, READER, WRITER, WRITER, READER):
            granted = await grants.grant("shop", "orders", level, "bob", by=EVERYONE)
            assert granted.grant.level is level
        await grants.revoke("shop", "orders", "bob")
        assert changed == ["bob"] * 4

    run(story)


@pytest.mark.parametrize("forgets", [True, False])
def test_a_query_from_before_a_change_does_not_fill_the_cache(monkeypatch: pytest.MonkeyPatch, forgets: bool) -> None:
    async def story(world: World) -> None:
        await world.grant(WRITER)
        gate = asyncio.Event()
        real = run_transaction

        async def slow(store: Any, work: Any) -> Any:
            found = await real(store, work)
            await gate.wait()
            return found

        monkeypatch.setattr(checking, "run_transaction", slow)
        early = asyncio.create_task(world.checks.load("bob"))
        await asyncio.sleep(0.01)
        await world.use_cases.grants.revoke("shop", "orders", "bob")
        if forgets:
            world.checks.changed_of("bob")
        gate.set()
        await early
        # The control: without the change's notice it is what the query found.
        assert await world.may(WRITER) is not forgets

    run(story)


def test_a_store_that_is_lost_allows_nothing() -> None:
    async def story(world: World) -> None:
        await world.grant(WRITER)
        assert await world.may(WRITER)
        world.store.is_lost = True
        world.clock.at_s += MAX_AGE_S
        for _ in range(2):
            with pytest.raises(Unavailable):
                await world.may(WRITER)
        world.store.is_lost = False
        assert await world.may(WRITER)

    run(story)


def test_callers_at_once_share_one_query_and_one_that_gives_up_fails_no_other() -> None:
    async def story(world: World) -> None:
        await world.grant(WRITER)
        count = world.store.count
        loads = [asyncio.create_task(world.checks.load("bob")) for _ in range(10)]
        await asyncio.sleep(0)
        loads[0].cancel()
        found = await asyncio.gather(*loads, return_exceptions=True)
        assert world.store.count == count + 1
        assert len({id(each) for each in found[1:]}) == 1
        assert isinstance(found[1], HeldGrants)

    run(story)


def test_the_cache_is_bounded_by_grants_of_all_callers() -> None:
    async def story(world: World) -> None:
        checks = GrantChecks(world.store, world.clock, world.announced.append, max_cached=10)
        await world.grant(READER)
        for number in range(100):
            await checks.load(f"caller-{number}")
            await checks.load("bob")
        count = world.store.count
        await checks.load("bob")
        assert world.store.count == count, "used last"
        await checks.load("caller-0")
        assert world.store.count == count + 1, "evicted"

    run(story)


@pytest.mark.parametrize("uuid", ["", "A" * 32, "x", "\x00" * 32, "é" * 32])
def test_what_is_no_uuid_is_no_table(uuid: str) -> None:
    async def story(world: World) -> None:
        await world.grant(OWNER, table="")
        need = Need(NeedKind.TABLE, READER, uuid)
        assert await world.checks.find_lacking(await world.checks.load("bob"), [need]) == [need]

    run(story)
