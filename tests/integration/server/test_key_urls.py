"""Keys of an issuer that a real web server serves: trusted or not, away and back, new ones, and too much of them."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, LakelogError, Unavailable
from lakelog.serving.access_settings import AccessSettings
from lakelog.serving.rotation import live_keys
from lakelog.serving.rotation.live_access import LiveAccess
from lakelog.serving.signed_tokens import fetching
from lakelog.serving.signed_tokens.fetching import fetch_keys
from lakelog.serving.signed_tokens.keys import MOST_BYTES
from lakelog.serving.signed_tokens.rules import KeySource
from metastore.server.audit import log
from tests.integration.server.rotating_server import (
    RotatingServer,
    outcome_of,
    read_lines,
    replace,
    signed_by,
    token_for,
    wait_until,
)
from tests.support.certificates import TestAuthority
from tests.support.issuer import key_for, to_jwk, to_jwks
from tests.support.key_server import KeyServer

Connect = Callable[..., GrpcMetastore]
KEY, NEWER = key_for("ES256"), key_for("ES256", 1)
ONE, BOTH = to_jwks(to_jwk(KEY)), to_jwks(to_jwk(KEY), to_jwk(NEWER, "k2"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def web(authority: TestAuthority) -> Iterator[KeyServer]:
    server = KeyServer(authority.issue("issuer"), ONE)
    yield server
    server.close()


@pytest.fixture
def source(web: KeyServer, authority: TestAuthority) -> KeySource:
    return KeySource(url=web.url, ca=authority.ca.certificate)


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., RotatingServer]]:
    monkeypatch.setattr(live_keys, "LEAST_PAUSE_S", 0.0)
    monkeypatch.setattr(live_keys, "RETRY_S", 0.1)
    started: list[RotatingServer] = []

    def run(settings: AccessSettings) -> RotatingServer:
        started.append(RotatingServer(settings))
        return started[-1]

    yield run
    for each in started:
        each.stop()


Start = Callable[..., RotatingServer]


def test_a_new_key_is_fetched_when_a_token_names_it(
    start: Start, connect: Connect, web: KeyServer, source: KeySource
) -> None:
    server = start(AccessSettings(signed=signed_by(source)))
    old, new = (connect(server.target, token=token) for token in (token_for(KEY), token_for(NEWER, kid="k2")))
    assert (outcome_of(old.list_databases), outcome_of(new.list_databases)) == ("OK", "UNAUTHENTICATED")
    web.document = BOTH
    wait_until(lambda: outcome_of(new.list_databases) == "OK")
    assert outcome_of(old.list_databases) == "OK"


def test_an_issuer_that_is_away_locks_no_one_out(
    start: Start, connect: Connect, web: KeyServer, source: KeySource, capfd: pytest.CaptureFixture[str]
) -> None:
    server = start(AccessSettings(signed=signed_by(source)))
    known, new = (connect(server.target, token=token) for token in (token_for(KEY), token_for(NEWER, kid="k2")))
    web.status = 503
    assert outcome_of(new.list_databases) == "UNAUTHENTICATED"
    server.wait_for("token-keys", "refused")
    assert server.measure("rotation_refused", setting="token-keys") == 1
    assert outcome_of(known.list_databases) == "OK"
    tries = web.requests
    wait_until(lambda: web.requests >= tries + 3)
    web.document, web.status = BOTH, 200
    server.wait_for("token-keys", "used")
    wait_until(lambda: outcome_of(new.list_databases) == "OK")
    assert server.measure("rotation_refused", setting="token-keys") == 0
    reasons = [line["reason"] for line in read_lines(capfd.readouterr().err) if "reason" in line]
    assert len(reasons) == 1, "one line, however many tries"
    assert f"cannot be read from {web.url}: it answers with status 503" in reasons[0]


def test_garbage_makes_few_fetches(
    start: Start, connect: Connect, web: KeyServer, source: KeySource, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(AccessSettings(signed=signed_by(source)))
    monkeypatch.setattr(live_keys, "LEAST_PAUSE_S", 3600.0)
    for number in range(50):
        client = connect(server.target, token=token_for(NEWER, kid=f"x{number}"))
        assert outcome_of(client.list_databases) == "UNAUTHENTICATED"
    assert web.requests == 1
    # Control: without the pause each of them may fetch.
    monkeypatch.setattr(live_keys, "LEAST_PAUSE_S", 0.0)
    wait_until(lambda: outcome_of(client.list_databases) == "UNAUTHENTICATED" and web.requests > 1)


def test_at_the_start_keys_must_be_there_unless_there_is_another_way_in(
    start: Start, connect: Connect, web: KeyServer, source: KeySource, tmp_path: Path
) -> None:
    web.status = 500
    with pytest.raises(Unavailable, match="answers with status 500"):
        LiveAccess(AccessSettings(signed=signed_by(source)), SystemClock(), log)
    web.status, web.document = 200, b'{"keys": []}'
    with pytest.raises(Unavailable, match="empty list of keys"):
        LiveAccess(AccessSettings(signed=signed_by(source)), SystemClock(), log)
    web.document = b"<html>"
    with pytest.raises(Unavailable, match="neither JSON"):
        LiveAccess(AccessSettings(signed=signed_by(source)), SystemClock(), log)
    tokens = tmp_path / "tokens"
    tokens.write_text("ann admin ann-token-0123456789\n")
    server = start(AccessSettings(signed=signed_by(source), token_file=tokens))
    signed = connect(server.target, token=token_for(KEY))
    assert outcome_of(connect(server.target, token="ann-token-0123456789").list_databases) == "OK"
    with pytest.raises(LakelogError, match="has not reached their issuer's keys yet"):
        signed.list_databases()
    web.document = ONE
    wait_until(lambda: outcome_of(signed.list_databases) == "OK")


def problem_of(source: KeySource) -> str:
    with pytest.raises(LakelogError) as caught:
        fetch_keys(source)
    return caught.value.message


def test_whom_a_fetch_trusts(web: KeyServer, source: KeySource, tmp_path: Path) -> None:
    assert fetch_keys(source) == ONE
    stranger = TestAuthority(tmp_path / "other")
    assert "certificate is not trusted" in problem_of(KeySource(url=web.url, ca=stranger.ca.certificate))
    assert "certificate is not trusted" in problem_of(KeySource(url=web.url)), "the system's do not have it"
    assert "--token-keys-ca" in problem_of(KeySource(url=web.url, ca=tmp_path / "none"))
    assert web.requests == 1
    closed = KeySource(url="https://127.0.0.1:1/keys", ca=source.ca)
    assert "Connection refused" in problem_of(closed)


def test_a_token_is_sent_and_read_again_each_time(
    web: KeyServer, source: KeySource, tmp_path: Path, authority: TestAuthority
) -> None:
    path = tmp_path / "token"
    with_token = KeySource(url=source.url, ca=source.ca, token_file=path)
    with pytest.raises(InvalidArgument, match=rf"--token-keys-token-file {path} cannot be used: No such file"):
        fetch_keys(with_token)
    for token in ("first-token-1", "second-token"):
        web.token = token
        replace(path, f"{token}\n")
        assert fetch_keys(with_token) == ONE
    assert "answers with status 401" in problem_of(source)
    replace(path, "two words")
    with pytest.raises(InvalidArgument, match="does not hold one token") as caught:
        fetch_keys(with_token)
    assert "words" not in caught.value.message


def test_redirects_are_not_followed(web: KeyServer, source: KeySource, authority: TestAuthority) -> None:
    other = KeyServer(authority.issue("elsewhere"), BOTH)
    web.status, web.location = 302, other.url
    assert "answers with status 302" in problem_of(source)
    assert other.requests == 0
    assert fetch_keys(KeySource(url=other.url, ca=source.ca)) == BOTH, "control: the place itself can be read"
    other.close()


def test_what_is_sent_is_bounded(web: KeyServer, source: KeySource, monkeypatch: pytest.MonkeyPatch) -> None:
    web.document = b" " * (MOST_BYTES + 1)
    assert f"sends more than {MOST_BYTES} bytes" in problem_of(source)
    web.document, web.drip_s = ONE, 0.01
    monkeypatch.setattr(fetching, "TOTAL_S", 0.2)
    assert "sends for longer than 0.2 s" in problem_of(source)
    # Control: with more time, that many bytes arrive.
    monkeypatch.setattr(fetching, "TOTAL_S", 60.0)
    assert fetch_keys(source) == ONE


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n"


@contextlib.contextmanager
def dripping(head: bytes, rest: bytes) -> Iterator[int]:
    """A server that sends the first bytes one by one, and then the rest; yields its port."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            connected, _ = listening.accept()
            with connected, contextlib.suppress(OSError):
                for byte in head:
                    if ended.wait(0.02):
                        return
                    connected.sendall(bytes([byte]))
                connected.recv(65536)
                connected.sendall(rest)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield listening.getsockname()[1]
        ended.set()
        thread.join()


@pytest.mark.parametrize(
    ("scheme", "head"),
    [("http", ANSWER), ("http", b"HTTP/1.1 200 OK\r\n" * 500), ("https", b"\x16\x03\x03\x40\x00" + bytes(5000))],
    ids=["status line", "headers", "TLS"],
)
def test_a_server_that_sends_byte_by_byte_is_left_in_time(
    monkeypatch: pytest.MonkeyPatch, source: KeySource, scheme: str, head: bytes
) -> None:
    monkeypatch.setattr(fetching, "TOTAL_S", 0.2)
    with dripping(head, ONE) as port:
        found = problem_of(KeySource(url=f"{scheme}://127.0.0.1:{port}/keys", ca=source.ca))
        assert "sends for longer than 0.2 s" in found


def test_control_with_more_time_such_an_answer_is_read() -> None:
    with dripping(ANSWER, ONE) as port:
        assert fetch_keys(KeySource(url=f"http://127.0.0.1:{port}/keys")) == ONE


def test_a_server_that_does_not_answer(web: KeyServer, source: KeySource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "_WAIT_S", 0.2)
    monkeypatch.setattr(web, "_answer", lambda handler: time.sleep(1))
    assert "does not answer within 0.2 s" in problem_of(source)


def test_plain_http_on_this_machine() -> None:
    plain: Any = KeyServer(None, ONE)
    assert fetch_keys(KeySource(url=plain.url)) == ONE
    plain.close()
