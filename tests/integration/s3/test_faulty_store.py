"""S3 that refuses, loses, cuts, delays and repeats, before a single store; the server is SeaweedFS."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakelog.errors import NotFound, Unavailable
from lakelog.storage.objects import calls, s3, s3_input
from lakelog.storage.objects.calls import CALLS
from lakelog.storage.objects.s3 import S3Store
from lakelog.storage.objects.store import S3Settings
from tests.integration.s3.faulty_store import CONTENT, open_faulty, put, read
from tests.support.s3.faults import Cut, Fault, Lost, Refused, Rule, Silent, Slow
from tests.support.s3.proxy import S3Proxy


@pytest.fixture
def proxy(s3_settings: S3Settings) -> Iterator[S3Proxy]:
    assert s3_settings.endpoint is not None
    with S3Proxy(s3_settings.endpoint) as proxy:
        yield proxy


@pytest.fixture
def store(s3_settings: S3Settings, proxy: S3Proxy) -> S3Store:
    return open_faulty(s3_settings, proxy, attempts=2)


ERROR = Refused(500, "InternalError")
FAULTS: list[Fault] = [
    Refused(),
    Refused(is_done=True),
    ERROR,
    Refused(500, "InternalError", is_done=True),
    Lost(),
    Lost(is_done=True),
    Lost(late_s=0.3),
    Cut(20),
    Slow(0.3),
]
LARGE = 11 << 20
"""More than one part of an upload."""


def test_each_kind_of_request_survives_each_fault(s3_settings: S3Settings, proxy: S3Proxy, store: S3Store) -> None:
    put(store, "data/x/seen")
    listed = [each.path for each in store.list_objects()]

    def try_one(number: int, fault: Fault) -> None:
        mine = open_faulty(s3_settings, proxy, f"{store.location[10:-1]}-{number}")
        key = mine.location.removeprefix("s3://lake/")[:-1]
        proxy.strike(*(Rule(fault, method, f"{key}/data/a/f", times=1) for method in ("HEAD", "PUT", "GET", "DELETE")))
        proxy.strike(Rule(fault, "GET", f"prefix={key}%2F$", times=1))
        assert put(mine, "data/a/f") == len(CONTENT)
        assert read(mine, "data/a/f") == CONTENT
        assert mine.size("data/a/f") == len(CONTENT)
        assert [each.path for each in mine.list_objects()] == ["data/a/f"]
        assert mine.delete("data/a/f")
        time.sleep(0.4 if isinstance(fault, Lost) and fault.late_s else 0)
        assert list(mine.list_objects()) == []

    with ThreadPoolExecutor(len(FAULTS)) as pool:
        for done in [pool.submit(try_one, number, fault) for number, fault in enumerate(FAULTS)]:
            done.result()
    assert [each.path for each in store.list_objects()] == listed
    # Answers without a body cannot be cut, and the first HEAD finds nothing, so there is no work to do for it.
    assert proxy.effects[Refused] >= 4 * 4, proxy.effects
    assert proxy.effects[Lost] >= 3 * 4, proxy.effects
    assert proxy.effects[Cut] == 2, proxy.effects
    assert proxy.effects[Slow], proxy.effects


@pytest.mark.parametrize("seed", range(4), ids=["lost", "500", "large lost", "large 500"])
def test_an_upload_that_is_complete_counts_even_if_each_answer_to_it_is_lost(
    proxy: S3Proxy, store: S3Store, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault: Lost | Refused = Refused(500, "InternalError", is_done=True) if seed % 2 else Lost(is_done=True)
    size = LARGE if seed >= 2 else len(CONTENT)
    content = (CONTENT * (size // len(CONTENT) + 1))[:size]
    last = Rule(fault, "PUT", r"/f$") if size < LARGE else Rule(fault, "POST", "uploadId")
    proxy.strike(last)
    assert put(store, "data/a/f", content) == size
    assert proxy.effects[type(fault)] >= 1
    proxy.heal()
    assert read(store, "data/a/f") == content
    # Control: without a look at the object, the error counts.
    monkeypatch.setattr(s3.S3Writer, "_is_complete", lambda *_: False)
    proxy.strike(last)
    with pytest.raises(Unavailable):
        put(store, "data/b/f", content)
    assert "data/b/f" not in [each.path for each in store.list_objects()], "what was given up was deleted"


@pytest.mark.parametrize("after", [0, len(CONTENT) // 2, len(CONTENT) - 1])
def test_an_answer_that_is_too_short_is_noticed(proxy: S3Proxy, store: S3Store, after: int) -> None:
    put(store, "data/a/f")
    # The proxy says that the part is all, so that no client can notice it by the length of the answer.
    proxy.strike(Rule(Cut(after, is_admitted=True), "GET", "/f", times=2))
    assert read(store, "data/a/f") == CONTENT
    assert proxy.effects[Cut] == 2
    proxy.strike(Rule(Cut(after, is_admitted=True), "GET", "/f"))
    with pytest.raises(Unavailable, match=r"fewer bytes of s3://lake/.*/data/a/f than requested") as caught:
        read(store, "data/a/f")
    assert caught.value.reason == "SHORT_READ"


def test_control_without_the_check_a_short_answer_shows_another_objects_bytes(
    proxy: S3Proxy, store: S3Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unchecked(opened: s3_input.Opened, ask: s3_input.Ask, name: str) -> s3_input.S3Input:
        return s3_input.open_s3_input(opened, ask, name, checks_length=False)

    put(store, "data/a/f")
    proxy.strike(Rule(Cut(len(CONTENT) // 2, is_admitted=True), "GET", "/f"))
    monkeypatch.setattr(s3, "open_s3_input", unchecked)
    found = read(store, "data/a/f")
    assert len(found) == len(CONTENT)
    assert found != CONTENT


def test_parquet_is_read_through_the_check(proxy: S3Proxy, store: S3Store) -> None:
    sink = pa.BufferOutputStream()
    rows = pa.table({"n": range(50_000)})
    pq.write_table(rows, sink, row_group_size=10_000)
    put(store, "data/a/f", sink.getvalue().to_pybytes())
    proxy.strike(Rule(Cut(100, is_admitted=True), "GET", "/f", share=0.4))
    whole = 0
    for _ in range(20):
        with store.open_input("data/a/f") as source, contextlib.suppress(Unavailable):
            assert pq.ParquetFile(source, pre_buffer=False).read().equals(rows)
            whole += 1
        if whole and proxy.effects[Cut] > 5:
            break
    assert whole
    assert proxy.effects[Cut] > 5


@pytest.mark.parametrize(
    ("fault", "reason", "said"),
    [
        (Refused(), "STORE_BUSY", "SERVICE_UNAVAILABLE|SLOW_DOWN|HTTP status 503"),
        (ERROR, "STORE_BUSY", "INTERNAL_FAILURE|HTTP status 500"),
        (Lost(), "UNAVAILABLE", "NETWORK_CONNECTION"),
    ],
    ids=["503", "500", "reset"],
)
def test_what_stays_without_an_answer_is_an_error_that_says_where(
    s3_settings: S3Settings, proxy: S3Proxy, fault: Fault, reason: str, said: str
) -> None:
    store = open_faulty(s3_settings, proxy, attempts=2)
    put(store, "data/a/f")
    proxy.strike(Rule(fault))
    attempts: list[Callable[[], object]] = [
        lambda: put(store, "data/a/g"),
        lambda: read(store, "data/a/f"),
        lambda: store.delete("data/a/f"),
        lambda: store.size("data/a/f"),
        lambda: list(store.list_objects("data/a")),
    ]
    with ThreadPoolExecutor(len(attempts)) as pool:
        for done in [pool.submit(attempt) for attempt in attempts]:
            with pytest.raises(Unavailable, match=said) as caught:
                done.result()
            assert caught.value.reason == reason
            assert proxy.endpoint in str(caught.value)
            assert f"{store.location}data/a" in str(caught.value)
            assert caught.value.__cause__ is None, "pyarrow's own error, with headers, is not shown"
    proxy.heal()
    assert [each.path for each in store.list_objects()] == ["data/a/f"], "what has an unknown outcome is not deleted"


@pytest.mark.parametrize("fault", [Silent(), Slow(bytes_per_s=200)], ids=["silent", "a byte now and then"])
def test_a_call_ends_at_its_deadline(s3_settings: S3Settings, proxy: S3Proxy, fault: Fault) -> None:
    store = open_faulty(s3_settings, proxy, timeout_s=1)
    put(store, "data/a/f")
    other = open_faulty(s3_settings, proxy)
    put(other, "data/a/g")
    proxy.strike(Rule(fault, "GET", "/f$"))
    with pytest.raises(Unavailable, match="in time") as caught:
        read(store, "data/a/f")
    assert caught.value.reason == "STORE_SLOW"
    assert proxy.effects[type(fault)]
    # The call without an answer hinders no other one.
    assert CALLS.left
    assert read(other, "data/a/g") == CONTENT
    proxy.heal()
    _wait(lambda: not CALLS.left)
    assert read(store, "data/a/f") == CONTENT


def test_calls_without_an_answer_are_bounded(
    s3_settings: S3Settings, proxy: S3Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(calls, "MOST_LEFT", 3)
    store = open_faulty(s3_settings, proxy, timeout_s=0.2)
    put(store, "data/a/f")
    proxy.strike(Rule(Silent(), "GET", "/f$"))
    for _ in range(6):
        with pytest.raises(Unavailable):
            read(store, "data/a/f")
    assert CALLS.left == 3
    assert proxy.effects[Silent] == 3
    proxy.heal()
    _wait(lambda: not CALLS.left)
    assert read(store, "data/a/f") == CONTENT


def test_an_upload_that_arrives_after_its_writer_gave_up_is_found_by_a_listing(
    s3_settings: S3Settings, proxy: S3Proxy
) -> None:
    store = open_faulty(s3_settings, proxy, attempts=1)
    threads = threading.active_count()
    proxy.strike(Rule(Lost(late_s=5), "PUT", "/f$"))
    with pytest.raises(Unavailable):
        put(store, "data/a/f")
    with pytest.raises(NotFound):
        store.size("data/a/f")
    proxy.heal()
    assert [each.path for each in store.list_objects("data/a")] == ["data/a/f"]
    assert threading.active_count() < threads + 100


def test_ctrl_c_ends_the_command_while_threads_wait_for_the_store(s3_settings: S3Settings) -> None:
    given = (s3_settings.endpoint, s3_settings.access_key_id, s3_settings.secret_access_key)
    arguments = [sys.executable, "-m", "tests.integration.s3.waiting_program", *map(str, given)]
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        assert program.stdout is not None
        said = []
        for _ in range(2):
            assert program.stdout.readline() == "waits\n"
            program.send_signal(signal.SIGINT)
            said.append(program.stdout.readline())
        assert program.stdout.read() == ""
        assert program.wait(60) == 130
    # Control: without the command's handler, the threads that the scan waits for end at their deadline.
    assert said == ["plain: the calls had ended\n", "handled: the calls run on\n"]


def _wait(is_done: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not is_done():
        assert time.monotonic() < end
        time.sleep(0.02)
