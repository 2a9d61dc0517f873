"""Clients of the role `user` read what grants allow, for as long as they do; others are not checked at all."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import grpc
import pyarrow as pa
import pytest
import structlog
from prometheus_client import CollectorRegistry

from lakelog.client.connection.status import DETAILS_KEY, from_proto_status
from lakelog.clock import RandomIds, SystemClock
from lakelog.errors import LakelogError, PermissionDenied, Unavailable
from lakelog.rpc.messages import parse
from lakelog.rpc.v1 import reader_pb2, types_pb2
from lakelog.sdk.catalog import Catalog
from lakelog.serving.access import Access, Caller, Role, TokenEntry
from lakelog.storage.objects.stores import LocationStores
from metastore.memory import MemoryStore
from metastore.store.transaction import Store
from metastore.testing import in_process
from metastore.use_cases import UseCases
from reader.subscriptions import pump
from reader.subscriptions.metrics import SubscriptionMetrics
from reader.subscriptions.rights import MAX_AGE_S, ReadRight
from reader.subscriptions.servicer import ReaderServicer

WITHIN_S = 10.0
ITEMS = pa.schema([pa.field("id", pa.int64())])
TOKENS = tuple(
    TokenEntry(Caller(name, role), hashlib.sha256(f"{name}-token-0123456789".encode()).digest())
    for name, role in (("ann", Role.USER), ("roy", Role.READER))
)


class HandClock(SystemClock):
    """Goes on when a test says so."""

    at_s = 1000.0

    def monotonic_s(self) -> float:
        return self.at_s


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    async def open_store() -> Store:
        return MemoryStore(SystemClock())

    metastore = in_process(open_store, lambda store: UseCases(store, f"file://{tmp_path}/warehouse/"))
    catalog = Catalog(metastore, LocationStores())
    catalog.create_database("shop")
    for name in ("items", "secret"):
        catalog.create_table(f"shop.{name}", ITEMS).append(pa.table({"id": [1, 2]}, ITEMS))
    yield catalog
    metastore.close()


class Client:
    """The call of a client, as the servicer sees it."""

    def __init__(self, caller: str, *tables: str, consumer: str = "") -> None:
        self.requests: asyncio.Queue[Any] = asyncio.Queue()
        self.rows = 0
        self.kept = 0
        self.error: LakelogError | None = None
        self._caller = caller
        named = [reader_pb2.StreamTable(name=name) for name in tables or ("shop.items",)]
        start = reader_pb2.SubscribeStart(tables=named, options={"consumer-id": consumer} if consumer else {})
        self.requests.put_nowait(reader_pb2.SubscribeRequest(start=start))

    async def read(self) -> Any:
        return await self.requests.get()

    async def write(self, answer: reader_pb2.SubscribeResponse) -> None:
        self.rows += answer.WhichOneof("response") == "progress"
        self.kept += answer.WhichOneof("response") == "kept"

    def set_code(self, code: grpc.StatusCode) -> None: ...

    def set_details(self, message: str) -> None: ...

    def set_trailing_metadata(self, metadata: Sequence[tuple[str, bytes]]) -> None:
        self.error = from_proto_status(parse(types_pb2.Status, dict(metadata)[DETAILS_KEY]))

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("authorization", f"Bearer {self._caller}-token-0123456789"),)

    def auth_context(self) -> dict[str, Any]:
        return {}

    def peer(self) -> str:
        return "test"


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(WITHIN_S):
        while not what():
            await asyncio.sleep(0.01)


def run(catalog: Catalog, test: Callable[[Callable[[Client], Awaitable[Any]], HandClock], Awaitable[None]]) -> None:
    async def serve() -> None:
        clock = HandClock()
        servicer = ReaderServicer(
            catalog,
            Access(tokens=TOKENS),
            max_subscriptions=4,
            caller_share=1.0,
            holder="test",
            metrics=SubscriptionMetrics(CollectorRegistry()),
            log=structlog.get_logger(),
            ids=RandomIds(),
            draining=asyncio.Event(),
            clock=clock,
        )
        await test(lambda client: servicer.Subscribe(None, client), clock)  # type: ignore[arg-type]
        await until(lambda: servicer.used_slots == 0)

    asyncio.run(serve())


def refusal_of(client: Client) -> LakelogError:
    assert client.error is not None
    return client.error


def test_a_client_without_a_grant_reads_nothing_and_learns_nothing(catalog: Catalog) -> None:
    async def story(subscribe: Callable[[Client], Awaitable[Any]], _: HandClock) -> None:
        texts = []
        for tables in (["shop.items"], ["shop.none"], ["none.items"]):
            client = Client("ann", *tables)
            await subscribe(client)
            error = refusal_of(client)
            assert (client.rows, error.reason, type(error)) == (0, "NO_GRANT", PermissionDenied)
            texts.append((error.message.replace(tables[0], "?"), str(error.metadata).replace(tables[0], "?")))
        assert len(set(texts)) == 1
        # Which of several exists does not show either.
        for tables in (["shop.items", "shop.none"], ["shop.none", "shop.items"]):
            client = Client("ann", *tables)
            await subscribe(client)
            assert f"'{tables[0]}'" in refusal_of(client).message

    run(catalog, story)


def test_a_grant_on_one_of_two_tables_does_not_suffice(catalog: Catalog) -> None:
    catalog.grants.grant("owner", "shop.items", to="ann")

    async def story(subscribe: Callable[[Client], Awaitable[Any]], _: HandClock) -> None:
        client = Client("ann", "shop.items", "shop.secret")
        await subscribe(client)
        assert (refusal_of(client).reason, client.rows) == ("NO_GRANT", 0)

    run(catalog, story)


@pytest.mark.parametrize("scope", ["shop", "shop.items"])
def test_a_grant_that_is_taken_back_ends_the_subscription(catalog: Catalog, scope: str) -> None:
    catalog.grants.grant("reader", scope, to="ann")

    async def story(subscribe: Callable[[Client], Awaitable[Any]], clock: HandClock) -> None:
        client = Client("ann")
        call = asyncio.ensure_future(subscribe(client))
        await until(lambda: client.rows == 1)
        await asyncio.to_thread(catalog.grants.revoke, scope, "ann")
        await asyncio.to_thread(catalog.table("shop.items").append, pa.table({"id": [3]}, ITEMS))
        await until(lambda: client.rows == 2)
        clock.at_s += MAX_AGE_S
        await asyncio.to_thread(catalog.table("shop.items").append, pa.table({"id": [4]}, ITEMS))
        async with asyncio.timeout(WITHIN_S):
            await call
        assert (refusal_of(client).reason, client.rows) == ("NO_GRANT", 2)

    run(catalog, story)


def test_control_without_the_check_it_goes_on(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog.grants.grant("reader", "shop", to="ann")
    monkeypatch.setattr(ReadRight, "check_still", lambda _: None)

    async def story(subscribe: Callable[[Client], Awaitable[Any]], clock: HandClock) -> None:
        client = Client("ann")
        call = asyncio.ensure_future(subscribe(client))
        await until(lambda: client.rows == 1)
        await asyncio.to_thread(catalog.grants.revoke, "shop", "ann")
        clock.at_s += MAX_AGE_S
        await asyncio.to_thread(catalog.table("shop.items").append, pa.table({"id": [3]}, ITEMS))
        await until(lambda: client.rows == 2)
        client.requests.put_nowait(grpc.aio.EOF)
        await call

    run(catalog, story)


@pytest.mark.parametrize("consumer", ["", "c"], ids=["without a consumer", "with a consumer"])
@pytest.mark.parametrize("checked", [True, False], ids=["protected", "control"])
def test_a_grant_that_is_taken_back_ends_a_silent_subscription(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, consumer: str, checked: bool
) -> None:
    catalog.grants.grant("reader", "shop", to="ann")
    monkeypatch.setattr(pump, "_CHECK_EVERY_S", 0.05)
    monkeypatch.setattr("lakelog.reads.streams.open_stream._keep_every_s", lambda _: 0.05)
    asked = []
    check = ReadRight.check_still

    def noted(right: ReadRight) -> None:
        asked.append(right)
        if checked:
            check(right)

    monkeypatch.setattr(ReadRight, "check_still", noted)

    async def story(subscribe: Callable[[Client], Awaitable[Any]], clock: HandClock) -> None:
        client = Client("ann", consumer=consumer)
        call = asyncio.ensure_future(subscribe(client))
        await until(lambda: client.rows == 1)
        await asyncio.to_thread(catalog.grants.revoke, "shop", "ann")
        clock.at_s += MAX_AGE_S
        if checked:
            async with asyncio.timeout(WITHIN_S):
                await call
            assert (refusal_of(client).reason, client.rows) == ("NO_GRANT", 1)
            return
        await until(lambda: len(asked) >= 3)
        assert not call.done()
        client.requests.put_nowait(grpc.aio.EOF)
        await call

    run(catalog, story)


@pytest.mark.parametrize("checked", [True, False], ids=["protected", "control"])
def test_a_client_without_a_right_stores_no_position(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch, checked: bool
) -> None:
    catalog.grants.grant("reader", "shop", to="ann")
    if not checked:
        monkeypatch.setattr(ReadRight, "check_still", lambda _: None)

    def stored() -> list[Any]:
        return list(catalog.table("shop.items").consumers.list()["snapshot_id"].to_pylist())

    async def story(subscribe: Callable[[Client], Awaitable[Any]], clock: HandClock) -> None:
        client = Client("ann", consumer="c")
        call = asyncio.ensure_future(subscribe(client))
        await until(lambda: client.rows == 1)
        before = await asyncio.to_thread(stored)
        await asyncio.to_thread(catalog.grants.revoke, "shop", "ann")
        clock.at_s += MAX_AGE_S
        position = reader_pb2.StreamPosition(table="shop.items", snapshot_id=1)
        client.requests.put_nowait(reader_pb2.SubscribeRequest(keep=reader_pb2.KeepPositions(positions=[position])))
        if checked:
            async with asyncio.timeout(WITHIN_S):
                await call
            assert (refusal_of(client).reason, client.kept) == ("NO_GRANT", 0)
            assert await asyncio.to_thread(stored) == before
            return
        await until(lambda: client.kept == 1)
        assert await asyncio.to_thread(stored) != before
        client.requests.put_nowait(grpc.aio.EOF)
        await call

    run(catalog, story)


def test_a_metastore_that_does_not_answer_ends_it_and_one_that_does_not_know_the_service_says_so(
    catalog: Catalog, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story(subscribe: Callable[[Client], Awaitable[Any]], _: HandClock) -> None:
        for failure, reason in (
            (Unavailable("The metastore is away."), "UNAVAILABLE"),
            (PermissionDenied("reader has the role user"), "READER_WITHOUT_ROLE"),
        ):

            def fail(*_: Any, failure: LakelogError = failure) -> list[str]:
                raise failure

            monkeypatch.setattr(catalog.metastore, "check_access", fail, raising=False)
            client = Client("ann")
            await subscribe(client)
            assert (type(refusal_of(client)), refusal_of(client).reason) == (Unavailable, reason)
            assert "has the role user" not in refusal_of(client).message

    run(catalog, story)


def test_a_role_needs_no_grant_and_asks_for_nothing(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> list[str]:
        raise AssertionError("nothing is asked for a client with a role")

    monkeypatch.setattr(catalog.metastore, "check_access", fail, raising=False)

    async def story(subscribe: Callable[[Client], Awaitable[Any]], _: HandClock) -> None:
        client = Client("roy")
        call = asyncio.ensure_future(subscribe(client))
        await until(lambda: client.rows == 1)
        client.requests.put_nowait(grpc.aio.EOF)
        await call

    run(catalog, story)
