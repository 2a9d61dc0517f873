"""Connecting: targets where nothing is, restarts, forks, pickles, threads."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from lakelog.client.connection.retry import NOT_CONNECTED, Deadlines, RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.client.metastore.metastore import WatchPosition
from lakelog.embedded.ports import free_port
from lakelog.errors import Effect, InvalidArgument, LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableName
from lakelog.testing.proxy import TcpProxy
from tests.integration.server.callers import wait_until
from tests.integration.server.running_server import RunningServer, ScriptedUseCases

Start = Callable[..., RunningServer]
Connect = Callable[..., GrpcMetastore]


def test_where_nothing_listens_the_error_says_what_to_do(connect: Connect) -> None:
    target = f"127.0.0.1:{free_port()}"
    began = time.monotonic()
    for call in (
        lambda client: client.list_databases(),
        lambda client: client.drop_table(TableName("a", "b")),
        lambda client: client.commit(CommitRequest("w", 1, (Change("a" * 32, SnapshotKind.APPEND, 0, 1),))),
        lambda client: client.open_commit_pipeline(),
        lambda client: list(client.watch([WatchPosition("a", 0)])),
    ):
        with pytest.raises(Unavailable, match="Is `lakelog up` running") as caught:
            call(connect(target, deadlines=Deadlines(connect_s=0.3)))
        assert target in caught.value.message
        assert "Nothing was sent" in caught.value.message
        assert caught.value.reason == NOT_CONNECTED
        assert caught.value.effect is Effect.NONE
    assert time.monotonic() - began < 8


def test_a_host_that_does_not_exist(connect: Connect) -> None:
    with pytest.raises(Unavailable, match=r"no-such-host\.invalid:7450"):
        connect("no-such-host.invalid:7450", deadlines=Deadlines(connect_s=0.5)).list_databases()


def test_a_port_that_takes_connections_and_never_answers(connect: Connect) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        began = time.monotonic()
        with pytest.raises(Unavailable, match=r"within 0\.5 s"):
            connect(f"127.0.0.1:{listener.getsockname()[1]}", deadlines=Deadlines(connect_s=0.5)).list_databases()
        assert time.monotonic() - began < 3


@pytest.mark.parametrize("said", [b"SSH-2.0-OpenSSH_9.6\r\n", bytes(range(256)) * 40], ids=["ssh", "noise"])
def test_what_speaks_something_else_is_no_metastore(connect: Connect, said: bytes) -> None:
    def speak(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                peer, _ = listener.accept()
                with peer:
                    peer.sendall(said)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        speaker = threading.Thread(target=speak, args=(listener,))
        speaker.start()
        with pytest.raises(Unavailable, match=r"No metastore answers at 127\.0\.0\.1:.*is the port right"):
            connect(f"127.0.0.1:{listener.getsockname()[1]}", deadlines=Deadlines(connect_s=0.5)).list_databases()
        listener.shutdown(socket.SHUT_RDWR)
    speaker.join()


def test_a_server_that_hangs_after_it_has_answered_is_distinguished_from_one_that_is_not_there(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    with TcpProxy(server.port) as proxy:
        client = connect(proxy.target, deadlines=Deadlines(connect_s=0.5, call_s=0.5), retries=RetryPolicy(total_s=1.5))
        client.list_databases()
        proxy.lose_answers()
        said = (
            r"^ListDatabases to .* was not answered within the deadline of 0\.5 s\. .*look whether the metastore hangs"
        )
        with pytest.raises(Unavailable, match=rf"{said}.* Asking again: No metastore answers"):
            client.list_databases()


def test_a_silent_connection_is_replaced_and_its_open_calls_end_with_the_client(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    with TcpProxy(server.port) as proxy:
        client = connect(proxy.target, deadlines=Deadlines(connect_s=0.3, call_s=0.5), retries=RetryPolicy(total_s=10))

        def follow() -> None:
            with contextlib.suppress(LakelogError):
                list(client.watch([WatchPosition("a" * 32, 0)]))

        watching = threading.Thread(target=follow)
        watching.start()
        wait_until(lambda: bool(server.use_cases.watched))
        assert client.list_databases() == []
        proxy.silence("answers")
        client.create_database("a", if_not_exists=True)
        assert proxy.swallowed, "the fault did not take effect"
        assert proxy.open_links == 2, "the watch keeps its connection"
        client.close()
        watching.join(10)
        assert not watching.is_alive()
        wait_until(lambda: proxy.open_links == 0)


def test_a_web_server_is_no_metastore(connect: Connect) -> None:
    class Page(BaseHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        with pytest.raises(Unavailable, match="No metastore answers"):
            connect(f"127.0.0.1:{server.server_address[1]}", deadlines=Deadlines(connect_s=1)).list_databases()
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_restarted_server_is_found_again(start_server: Start, connect: Connect) -> None:
    first = start_server()
    client = connect(first.target, deadlines=Deadlines(connect_s=5), retries=RetryPolicy(total_s=10))
    assert client.create_database("a")
    first.stop()
    again = threading.Timer(0.5, lambda: start_server(ScriptedUseCases(), port=first.port))
    again.start()
    assert client.create_database("b")
    again.join()
    assert [found.name for found in client.list_databases()] == ["b"]


def test_a_metastore_that_was_there_before_is_waited_for_longer_than_one_that_never_was(
    start_server: Start, connect: Connect
) -> None:
    first = start_server()
    impatient = {"deadlines": Deadlines(connect_s=0.3), "retries": RetryPolicy(total_s=10)}
    client = connect(first.target, **impatient)
    client.list_databases()
    copy, child_answers = pickle.loads(pickle.dumps(client)), []
    first.stop()
    with pytest.raises(Unavailable, match=r"within 0\.3 s"):
        connect(first.target, **impatient).list_databases()
    time.sleep(1.0)  # No answer is fresh any more: what follows asks first.
    again = threading.Timer(1.5, lambda: start_server(ScriptedUseCases(), port=first.port))
    again.start()
    try:
        other = threading.Thread(target=lambda: child_answers.append(copy.list_databases()))
        other.start()
        # A drop is never repeated once it may have been sent, but it was not.
        assert client.drop_table(TableName("a", "b"), if_exists=True) in (True, False)
        other.join()
        assert child_answers == [[]]
    finally:
        again.join()
        copy.close()


def test_how_long_a_metastore_that_was_there_before_was_waited_for_is_reported(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    client = connect(server.target, deadlines=Deadlines(connect_s=0.2), retries=RetryPolicy(total_s=0.8))
    client.list_databases()
    server.stop()
    time.sleep(1.1)
    began = time.monotonic()
    with pytest.raises(Unavailable, match=r"No metastore answers at .* within 0\.8 s .*Nothing was sent"):
        client.create_database("a")
    assert 0.6 < time.monotonic() - began < 3


def test_a_mutation_after_a_silence_is_certainly_not_sent_to_a_server_that_is_gone(
    start_server: Start, connect: Connect
) -> None:
    server = start_server()
    client = connect(server.target, deadlines=Deadlines(connect_s=0.3), retries=RetryPolicy(total_s=0.6))
    client.list_databases()
    server.stop()
    time.sleep(1.1)
    # A drop is never repeated, so an outcome that was unknown would show.
    with pytest.raises(Unavailable, match="Nothing was sent"):
        client.drop_table(TableName("a", "b"))


def test_a_closed_client_says_so(start_server: Start, connect: Connect) -> None:
    client = connect(start_server().target)
    client.list_databases()
    client.close()
    client.close()
    with pytest.raises(InvalidArgument, match="is closed"):
        client.list_databases()


def test_closing_while_a_mutation_runs_leaves_it_unknown(start_server: Start, connect: Connect) -> None:
    async def sleep() -> None:
        await asyncio.sleep(0.5)

    use_cases = ScriptedUseCases(before={"create_database": sleep})
    client = connect(start_server(use_cases).target)
    caught: list[Exception] = []

    def create() -> None:
        try:
            client.create_database("x")
        except LakelogError as error:
            caught.append(error)

    caller = threading.Thread(target=create)
    caller.start()
    while "create_database" not in use_cases.calls:
        time.sleep(0.01)
    client.close()
    caller.join(5)
    assert [type(error) for error in caught] == [OutcomeUnknown]


def test_threads_share_a_client(start_server: Start, connect: Connect) -> None:
    client = connect(start_server().target)
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: client.list_tables("shop"), range(200)))
    assert answers == [["orders"]] * 200


def test_a_client_pickles_as_its_parameters(start_server: Start, connect: Connect) -> None:
    server = start_server()
    client = connect(server.target)
    client.create_database("x")
    again: GrpcMetastore = pickle.loads(pickle.dumps(client))
    try:
        assert [found.name for found in again.list_databases()] == ["x"]
    finally:
        again.close()


# In a process of its own: a fork takes along what the threads of this one, such as Spark's, hold at that moment.
_FORKING_PROGRAM = """
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.client.connection.retry import Deadlines

client = GrpcMetastore(sys.argv[1], deadlines=Deadlines(connect_s=5, call_s=10))

def check():
    assert [found.name for found in client.list_databases()] == ["x"]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda _: client.list_tables("shop"), range(8))) == [["orders"]] * 8

assert client.create_database("x")
for _ in range(2):
    child = os.fork()
    if not child:
        check()
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    check()
client.close()
print("used on both sides")
"""


def test_a_forked_child_uses_the_client_and_so_does_the_parent(start_server: Start) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", _FORKING_PROGRAM, start_server().target], capture_output=True, text=True, timeout=60
    )
    assert (ran.returncode, ran.stdout) == (0, "used on both sides\n"), ran.stderr
