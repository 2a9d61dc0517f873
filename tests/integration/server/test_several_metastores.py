"""Clients of a name that stands for several metastores: they take turns, and connect again after some time."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

import lakelog.client.connection.connection as connection_module
from lakelog.client.connection.retry import RetryPolicy
from lakelog.client.connection.target import Target
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.client.metastore.metastore import WatchPosition
from tests.integration.server.running_server import RunningServer, ScriptedUseCases

Start = Callable[..., RunningServer]
TABLE_UUID = "a" * 32


@dataclass(frozen=True)
class Name(Target):
    """A name that stands for several addresses, as gRPC writes it."""

    others: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"ipv4:{','.join(self.others)}"


def wait_until(holds: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < give_up_s
        time.sleep(0.01)


def count_calls(start_server: Start, monkeypatch: pytest.MonkeyPatch, calls: int) -> list[int]:
    """How many of the calls each of two metastores of a name got."""
    servers = [start_server(ScriptedUseCases()) for _ in range(2)]
    name = Name("127.0.0.1", servers[0].port, tuple(server.target for server in servers))
    monkeypatch.setattr("lakelog.client.grpc.metastore.parse_target", lambda _text: name)
    client = GrpcMetastore("metastore:7450")
    try:
        for _ in range(calls):
            client.list_databases()
    finally:
        client.close()
    return [server.use_cases.calls.count("list_databases") for server in servers]


def test_calls_take_turns(start_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    counts = count_calls(start_server, monkeypatch, 60)
    assert sum(counts) == 60
    assert min(counts) >= 20


def test_control_without_the_setting_one_metastore_gets_all(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = [option for option in connection_module._OPTIONS if option[0] != "grpc.service_config"]
    monkeypatch.setattr(connection_module, "_OPTIONS", tuple(options))
    assert sorted(count_calls(start_server, monkeypatch, 60)) == [0, 60]


def ended_within(server: RunningServer, wait_s: float) -> bool:
    """Whether the server ends an idle connection in that time."""
    ended, states = threading.Event(), list[Any]()

    def see(state: grpc.ChannelConnectivity) -> None:
        if states and states[-1] is grpc.ChannelConnectivity.READY and state is not grpc.ChannelConnectivity.READY:
            ended.set()
        states.append(state)

    with grpc.insecure_channel(server.target) as channel:
        channel.subscribe(see, try_to_connect=True)
        grpc.channel_ready_future(channel).result(10)
        return ended.wait(wait_s)


def test_old_connections_are_ended_so_that_clients_find_new_metastores(start_server: Start) -> None:
    assert ended_within(start_server(max_connection_age_s=0.2), 10)


def test_control_without_an_age_they_stay(start_server: Start) -> None:
    assert not ended_within(start_server(), 1)


def test_an_open_call_outlives_its_connections_age(start_server: Start, connect: Any) -> None:
    server = start_server(max_connection_age_s=0.2)
    client = connect(server.target)
    begun, go_on = threading.Event(), threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.to_thread(go_on.wait, 10)

    server.use_cases.before["list_databases"] = wait
    found: list[Any] = []
    caller = threading.Thread(target=lambda: found.append(client.list_databases()))
    caller.start()
    assert begun.wait(10)
    go_on.wait(0.6)
    go_on.set()
    caller.join(10)
    assert found == [[]]
    assert server.use_cases.calls == ["list_databases"]


def test_only_the_watches_of_a_metastore_that_goes_move_and_each_once(
    start_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = [start_server(ScriptedUseCases()) for _ in range(3)]
    name = Name("127.0.0.1", servers[0].port, tuple(server.target for server in servers))
    monkeypatch.setattr("lakelog.client.grpc.metastore.parse_target", lambda _text: name)
    client = GrpcMetastore("metastore:7450", retries=RetryPolicy(spread_s=0.2))
    watches = [client.watch([WatchPosition(TABLE_UUID, 0)]) for _ in range(60)]
    threads = [threading.Thread(target=list, args=(watch,), daemon=True) for watch in watches]

    def opened() -> list[int]:
        return [server.use_cases.calls.count("watch") for server in servers]

    try:
        client.list_databases()
        for thread in threads:
            thread.start()
        wait_until(lambda: sum(opened()) == 60)
        before = opened()
        assert min(before) > 0
        servers[0].stop()
        wait_until(lambda: sum(opened()) == 60 + before[0])
        # Time for those that would come back more than once.
        time.sleep(0.3)
        moved = [now - then for now, then in zip(opened(), before, strict=True)]
        assert moved[0] == 0
        assert sum(moved) == before[0], "the watches of the others stay where they are"
        assert min(moved[1:]) > 0
    finally:
        for watch in watches:
            watch.close()
        client.close()
        for thread in threads:
            thread.join(10)
