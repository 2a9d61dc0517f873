"""The use case of vended keys: their location, their caller, requests to the token service, and the log."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pyarrow as pa
import pytest

from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, NotFound, PermissionDenied, Unavailable
from lakelog.format.tables.table import TableInfo, TableName
from metastore.credentials import vending
from metastore.credentials.signing import SigningKeys
from metastore.credentials.token_service import SessionKeys
from metastore.credentials.vending import Vended, Vending, VendSettings
from metastore.memory import MemoryStore
from metastore.ownership import EVERYONE, Principal
from metastore.use_cases import UseCases

ANN, BEN = Principal("ann"), Principal("ben")
DURATION_S = 900


class HandClock(SystemClock):
    """Goes on when a test says so."""

    def __init__(self) -> None:
        self.at_s = 1000.0

    def monotonic_s(self) -> float:
        return self.at_s

    def now_ms(self) -> int:
        return int(self.at_s * 1000)


class FakeSource:
    """Gives keys with a number, for as long as requested by its own clock."""

    def __init__(self, clock: HandClock) -> None:
        self._clock = clock
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.error: Exception | None = None
        self.go = threading.Event()
        self.go.set()
        self.ahead_s = 0.0

    def request_keys(self, session: str, policy: str) -> SessionKeys:
        self.asked.append((session, json.loads(policy)))
        self.go.wait(10)
        if self.error is not None:
            raise self.error
        number = len(self.asked)
        expires_at_s = self._clock.at_s + self.ahead_s + DURATION_S
        return SessionKeys(SigningKeys(f"id-{number}", f"secret-{number}", "token"), int(expires_at_s * 1000))


class World:
    def __init__(self, use_cases: UseCases, clock: HandClock, source: FakeSource) -> None:
        self.use_cases, self.clock, self.source = use_cases, clock, source
        self.noted: list[Vended] = []
        self.vending = Vending(
            use_cases.staging._store, clock, VendSettings(source, "aws", DURATION_S, "s3://lake/w"), self.noted.append
        )

    async def make(self, name: str) -> TableInfo:
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
        table, _ = await self.use_cases.catalog.create_table(TableName("shop", name), schema, by=EVERYONE)
        return table

    async def read(self, table: TableInfo, by: Principal = ANN) -> str:
        found = await self.vending.vend_read_credentials(table.table_uuid, by=by)
        assert found is not None
        return found.access_key_id


def in_world(work: Callable[[World], Awaitable[None]], warehouse: str = "s3://lake/w") -> None:
    async def run() -> None:
        clock = HandClock()
        use_cases = UseCases(MemoryStore(SystemClock()), warehouse, planners=())
        await use_cases.catalog.create_database("shop")
        world = World(use_cases, clock, FakeSource(clock))
        try:
            await work(world)
        finally:
            world.vending.close()
            await use_cases.close()

    asyncio.run(run())


def test_keys_are_for_the_tables_own_location_and_are_noted() -> None:
    async def work(world: World) -> None:
        table = await world.make("orders")
        found = await world.vending.vend_write_credentials(table.table_uuid, by=ANN)
        assert found is not None
        assert (found.secret_access_key, found.session_token, found.valid_ms) == ("secret-1", "token", 900_000)
        ((session, policy),) = world.source.asked
        assert session == "ann"
        assert policy["Statement"][0]["Resource"] == [f"arn:aws:s3:::lake/w/{table.table_uuid}/*"]
        assert world.noted == [Vended("ann", "shop.orders", table.table_uuid, "write", 1_900_000)]
        for shown in (repr(found), repr(world.noted), repr(SigningKeys("id-1", "secret-1", "token"))):
            assert not any(secret in shown for secret in ("secret-1", "id-1", "'token'"))

    in_world(work)


def test_keys_are_given_again_to_the_same_caller_only() -> None:
    async def work(world: World) -> None:
        orders, users = await world.make("orders"), await world.make("users")
        assert [await world.read(orders), await world.read(orders)] == ["id-1", "id-1"]
        assert await world.read(orders, BEN) == "id-2"
        assert await world.read(users) == "id-3"
        written = await world.vending.vend_write_credentials(orders.table_uuid, by=ANN)
        assert written is not None
        assert written.access_key_id == "id-4"
        world.clock.at_s += 0.25 * DURATION_S
        again = await world.vending.vend_read_credentials(orders.table_uuid, by=ANN)
        assert again is not None
        assert (again.access_key_id, again.valid_ms) == ("id-1", 675_000)
        world.clock.at_s += 1
        assert await world.read(orders) == "id-5"
        # Each answer is noted, also one with keys that were given before.
        assert [each.caller for each in world.noted] == ["ann", "ann", "ben", "ann", "ann", "ann", "ann"]

    in_world(work)


def test_those_who_come_at_once_share_one_request_and_an_error_is_not_kept() -> None:
    async def work(world: World) -> None:
        table = await world.make("orders")
        world.source.go.clear()
        waiting = [asyncio.create_task(world.read(table)) for _ in range(20)]
        while not world.source.asked:
            await asyncio.sleep(0.001)
        waiting.pop().cancel()
        world.source.go.set()
        assert set(await asyncio.gather(*waiting)) == {"id-1"}
        world.clock.at_s += DURATION_S
        world.source.error = Unavailable("It does not answer.")
        with pytest.raises(Unavailable):
            await world.read(table)
        world.source.error = None
        assert await world.read(table) == "id-3"
        assert len(world.noted) == 20

    in_world(work)


async def ask_for_many(world: World, count: int) -> list[asyncio.Task[str]]:
    """Calls of one caller for so many tables, all of which wait."""
    world.source.go.clear()
    calls = [asyncio.create_task(world.read(await world.make(f"t{number}"))) for number in range(count)]
    while len(world.source.asked) < min(count, 2):
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.01)
    return calls


@pytest.mark.parametrize("share", [2, 8])
def test_a_caller_that_floods_takes_its_share_alone(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vending, "_CALLER_REQUESTS", share)

    async def work(world: World) -> None:
        calls = await ask_for_many(world, 30)
        asked = len(world.source.asked)
        other = asyncio.create_task(world.read(await world.make("orders"), BEN))
        await asyncio.sleep(0.05)
        # The control: with a share of all requests the other caller waits for the flood.
        assert (asked, [session for session, _ in world.source.asked].count("ben")) == (
            (2, 1) if share == 2 else (8, 0)
        )
        world.source.go.set()
        await asyncio.gather(other, *calls)

    in_world(work)


def test_a_request_that_has_not_begun_ends_with_its_last_call() -> None:
    async def work(world: World) -> None:
        calls = await ask_for_many(world, 30)
        # Two calls wait for the last table.
        last = await world.use_cases.catalog.get_table(TableName("shop", "t29"))
        calls.append(asyncio.create_task(world.read(last)))
        await asyncio.sleep(0.01)
        for each in calls[:-1]:
            each.cancel()
        await asyncio.gather(*calls[:-1], return_exceptions=True)
        world.source.go.set()
        await calls[-1]
        # The control: the two that had begun, and the one that is still wanted, have run.
        assert len(world.source.asked) == 3
        # A request that was cancelled is in the way of no later one.
        assert await world.read(await world.use_cases.catalog.get_table(TableName("shop", "t9"))) == "id-4"

    in_world(work)


@pytest.mark.parametrize("wait_s", [0.05, 5])
def test_requests_without_an_answer_are_given_up(wait_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vending, "_WAIT_S", wait_s)

    async def work(world: World) -> None:
        calls = await ask_for_many(world, 10)
        done, _ = await asyncio.wait(calls, timeout=0.3)
        # The control: within the wait they are not given up.
        assert len(done) == (10 if wait_s < 1 else 0)
        threads = [each for each in threading.enumerate() if each.name == "lakelog-vending"]
        assert threads
        assert all(each.daemon for each in threads), "else the process could not end"
        if wait_s < 1:
            for each in done:
                with pytest.raises(Unavailable, match=r"within 0\.05 s"):
                    each.result()
            # The threads of the first ones still wait, and others have keys.
            hung, world.source.go = world.source.go, threading.Event()
            world.source.go.set()
            for name in ("t0", "t9"):
                table = await world.use_cases.catalog.get_table(TableName("shop", name))
                assert (await world.read(table)).startswith("id-")
            hung.set()
        world.source.go.set()
        await asyncio.gather(*calls, return_exceptions=True)

    in_world(work)


def test_a_request_that_is_older_than_the_wait_is_replaced() -> None:
    async def work(world: World) -> None:
        (first,) = await ask_for_many(world, 1)
        table = await world.use_cases.catalog.get_table(TableName("shop", "t0"))
        # The control: a younger one is shared.
        world.clock.at_s += 14
        second = asyncio.create_task(world.read(table))
        await asyncio.sleep(0.01)
        assert len(world.source.asked) == 1
        hung, world.source.go = world.source.go, threading.Event()
        world.source.go.set()
        world.clock.at_s += 1
        assert await world.read(table) == "id-2"
        hung.set()
        await asyncio.gather(first, second)
        assert await world.read(table) == "id-2"

    in_world(work)


@pytest.mark.parametrize("share", [5, 1000])
def test_keys_of_one_caller_do_not_evict_those_of_others(share: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vending, "_CALLER_KEPT", share)
    monkeypatch.setattr(vending, "_MOST_KEPT", 8)

    async def work(world: World) -> None:
        orders = await world.make("orders")
        assert await world.read(orders, BEN) == "id-1"
        tables = [await world.make(f"t{number}") for number in range(20)]
        for each in tables:
            await world.read(each)
        # Its own last ones are kept, and those of the other caller.
        assert await world.read(orders, BEN) == "id-1"
        assert await world.read(tables[-1]) == "id-21"
        # The control: its first ones have left.
        assert await world.read(tables[0]) == "id-22"

    in_world(work)


@pytest.mark.parametrize("looks_again", [True, False])
def test_a_right_that_was_taken_back_meanwhile_gives_no_keys(looks_again: bool) -> None:
    async def work(world: World) -> None:
        table = await world.make("orders")

        async def refuse() -> None:
            assert world.source.asked, "the check is made when the keys are there"
            raise PermissionDenied("ann has no grant.")

        # The control: without the check there are keys.
        vend = world.vending.vend_read_credentials(
            table.table_uuid, check_right=refuse if looks_again else None, by=ANN
        )
        if looks_again:
            with pytest.raises(PermissionDenied):
                await vend
        else:
            assert await vend is not None
        assert len(world.noted) == (0 if looks_again else 1)

    in_world(work)


def test_a_clock_that_is_wrong_gives_no_keys_for_longer_and_none_that_have_ended() -> None:
    async def work(world: World) -> None:
        table = await world.make("orders")
        world.source.ahead_s = 7200
        found = await world.vending.vend_read_credentials(table.table_uuid, by=ANN)
        assert found is not None
        assert found.valid_ms == DURATION_S * 1000
        world.source.ahead_s = -7200
        with pytest.raises(Unavailable, match="compare the clocks"):
            await world.read(table, BEN)

    in_world(work)


@pytest.mark.parametrize("granted_s", [DURATION_S, 600, 100])
def test_keys_are_given_again_for_a_part_of_the_time_that_the_store_grants(granted_s: int) -> None:
    async def work(world: World) -> None:
        table = await world.make("orders")
        world.source.ahead_s = granted_s - DURATION_S
        assert [await world.read(table) for _ in range(100)] == ["id-1"] * 100
        world.clock.at_s += 0.24 * granted_s
        assert await world.read(table) == "id-1"
        # The control: later there are new ones.
        world.clock.at_s += 0.02 * granted_s
        assert await world.read(table) == "id-2"

    in_world(work)


@pytest.mark.parametrize("refused", ["id-1", "id-9", ""])
def test_keys_that_the_store_refused_are_not_given_again(refused: str) -> None:
    async def work(world: World) -> None:
        table = await world.make("orders")
        vend = world.vending.vend_write_credentials
        found = []
        # The third call is another process, which still has the first keys.
        for refused_key_id in ("", refused, refused):
            keys = await vend(table.table_uuid, refused_key_id=refused_key_id, by=ANN)
            assert keys is not None
            found.append(keys.access_key_id)
        # The control: other keys that were refused are no reason.
        assert found == (["id-1", "id-2", "id-2"] if refused == "id-1" else ["id-1"] * 3)
        with pytest.raises(InvalidArgument, match="refused_key_id"):
            await vend(table.table_uuid, refused_key_id="x" * 129, by=ANN)

    in_world(work)


def test_tables_that_are_dropped_have_keys_and_unknown_ones_have_none() -> None:
    async def work(world: World) -> None:
        table = await world.make("orders")
        await world.use_cases.catalog.drop_table(table.name)
        assert await world.read(table) == "id-1"
        assert world.noted[0].table == "shop.orders"
        with pytest.raises(NotFound):
            await world.vending.vend_read_credentials("0" * 32, by=ANN)
        with pytest.raises(InvalidArgument, match="table_uuid"):
            await world.vending.vend_read_credentials("../etc", by=ANN)

    in_world(work)


def test_a_metastore_that_vends_nothing_answers_without_keys() -> None:
    async def without(world: World) -> None:
        table = await world.make("orders")
        assert await world.use_cases.vending.vend_read_credentials(table.table_uuid, by=ANN) is None

    async def local(world: World) -> None:
        table = await world.make("orders")
        assert await world.vending.vend_write_credentials(table.table_uuid, by=ANN) is None
        assert (world.source.asked, world.noted) == ([], [])

    in_world(without)
    in_world(local, "file:///warehouse")


@pytest.mark.parametrize("warehouse", ["s3://lake/w", "s3://lake/w2", "s3://old/w", "s3://lake"])
def test_keys_are_for_tables_below_the_present_warehouse(warehouse: str) -> None:
    async def work(world: World) -> None:
        table = await world.make("orders")
        found = await world.vending.vend_read_credentials(table.table_uuid, by=ANN)
        # The control: a table of the present warehouse has keys. Others are reached by the client's own.
        assert (found is not None) == (warehouse == "s3://lake/w")

    in_world(work, warehouse)
