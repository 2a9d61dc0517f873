"""Requests that arrive long after the headers of their call: the caller counts as it is when the request is there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from lakelog.rpc.v1 import catalog_pb2, snapshots_pb2
from lakelog.serving.access_settings import AccessSettings
from lakelog.serving.signed_tokens.rules import KeySource
from lakelog.serving.signed_tokens.verification import LEEWAY_S
from metastore.server.edge.admission import Admission
from tests.integration.server.rotating_server import (
    RotatingServer,
    push,
    replace,
    signed_by,
    token_for,
    wait_until,
)
from tests.integration.server.running_server import failure_of
from tests.support.issuer import key_for, to_jwk, to_jwks

ANN, BOB = (f"{name}-token-0123456789" for name in ("ann", "bob"))
KEY = key_for("ES256")
CREATE = catalog_pb2.CreateDatabaseRequest(name="late")
WATCH = snapshots_pb2.WatchRequest(positions=[snapshots_pb2.WatchPosition(table_uuid="a" * 32)])
UNAUTHENTICATED, DENIED = grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"ann admin {ANN}\nbob admin {BOB}\n")
    return path


@pytest.fixture
def server(tmp_path: Path, tokens: Path) -> Iterator[RotatingServer]:
    keys = tmp_path / "keys.json"
    keys.write_bytes(to_jwks(to_jwk(KEY)))
    running = RotatingServer(AccessSettings(token_file=tokens, signed=signed_by(KeySource(file=keys))))
    yield running
    running.stop()


@pytest.fixture
def passed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What the server has done: `expect` with the headers of a call, `admit` when it begins."""
    steps: list[str] = []

    def note(name: str) -> None:
        original = getattr(Admission, name)

        def noted(self: Admission, *arguments: Any) -> Any:
            found = original(self, *arguments)
            steps.append(name)
            return found

        monkeypatch.setattr(Admission, name, noted)

    note("expect")
    note("admit")
    return steps


class LateCall:
    """A call whose headers are sent at once, and its request when the test says so."""

    def __init__(self, target: str, method: str, request: Any, token: str) -> None:
        self._go = threading.Event()
        self._request = request.SerializeToString()
        self._channel = grpc.insecure_channel(target)
        call: Any = self._channel.stream_stream(f"/lakelog.rpc.v1.{method}")
        self.answers: list[bytes] = []
        self.code: grpc.StatusCode | None = None
        self.text = ""
        self._call = call(self._send(), metadata=[("authorization", f"Bearer {token}")])
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    def _send(self) -> Iterator[bytes]:
        self._go.wait()
        yield self._request

    def _read(self) -> None:
        try:
            for answer in self._call:
                self.answers.append(answer)
            self.code = grpc.StatusCode.OK
        except grpc.RpcError as error:
            self.text = str(error.details())
            self.code = error.code()

    def send(self) -> None:
        """Sends the request."""
        self._go.set()

    def finish(self) -> tuple[grpc.StatusCode | None, str]:
        """Sends the request and waits for the end: the code and the text."""
        self.send()
        self._reading.join(30)
        self._channel.close()
        return self.code, self.text

    def close(self) -> None:
        """Gives it up."""
        self._go.set()
        self._call.cancel()
        self._reading.join()
        self._channel.close()


def begin_create(server: RotatingServer, passed: list[str], token: str = BOB) -> LateCall:
    """A call whose request gRPC receives: the server has seen its headers alone."""
    call = LateCall(server.target, "CatalogService/CreateDatabase", CREATE, token)
    wait_until(lambda: passed == ["expect"])
    return call


def begin_watch(server: RotatingServer, passed: list[str], token: str = BOB) -> LateCall:
    """A call whose request the server receives: it was admitted."""
    call = LateCall(server.target, "SnapshotService/Watch", WATCH, token)
    wait_until(lambda: "admit" in passed)
    return call


def take_away(server: RotatingServer, tokens: Path, left: str = f"ann admin {ANN}\n") -> None:
    """Puts what is left into the token file, and waits until it holds."""
    replace(tokens, left)
    server.wait_for("token-file", "used")
    # It holds for every other call.
    assert failure_of(server.target, "CatalogService/DropDatabase", metadata=[("authorization", f"Bearer {BOB}")])[
        0
    ] in (UNAUTHENTICATED, DENIED)


@pytest.mark.parametrize(
    ("left", "code", "text"),
    [
        (f"ann admin {ANN}\n", UNAUTHENTICATED, "not known here"),
        (f"bob writer {BOB}\n", DENIED, "bob has the role writer"),
        (f"bob user {BOB}\n", DENIED, "bob has"),
    ],
)
def test_a_call_whose_caller_is_lost_before_its_request_is_refused(
    server: RotatingServer, passed: list[str], tokens: Path, left: str, code: grpc.StatusCode, text: str
) -> None:
    call = begin_create(server, passed)
    take_away(server, tokens, left)
    found, why = call.finish()
    assert found is code
    assert text in why
    assert not server.running.use_cases.databases


def test_a_call_whose_token_ends_before_its_request_is_refused(server: RotatingServer, passed: list[str]) -> None:
    token = token_for(KEY, lasts_s=1.5 - LEEWAY_S)
    header = [("authorization", f"Bearer {token}")]
    # Only the request of a caller that was verified before is left to gRPC.
    assert failure_of(server.target, "CatalogService/DropDatabase", metadata=header)[0] is not UNAUTHENTICATED
    passed.clear()
    call = begin_create(server, passed, token)
    wait_until(lambda: "expired" in failure_of(server.target, "CatalogService/DropDatabase", metadata=header)[1])
    code, why = call.finish()
    assert code is UNAUTHENTICATED
    assert "has expired" in why
    assert not server.running.use_cases.databases


def test_a_caller_that_is_still_known_is_served(server: RotatingServer, passed: list[str], tokens: Path) -> None:
    call = begin_create(server, passed, ANN)
    take_away(server, tokens)
    assert call.finish() == (grpc.StatusCode.OK, "")
    assert list(server.running.use_cases.databases) == ["late"]


def test_control_a_caller_that_is_not_recognized_again_is_served(
    server: RotatingServer, passed: list[str], tokens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Admission, "_is_current", lambda *_: True)
    call = begin_create(server, passed)
    take_away(server, tokens)
    assert call.finish() == (grpc.StatusCode.OK, "")
    assert list(server.running.use_cases.databases) == ["late"]


def test_a_watch_whose_caller_is_lost_before_its_request_never_begins(
    server: RotatingServer, passed: list[str], tokens: Path
) -> None:
    call = begin_watch(server, passed)
    take_away(server, tokens)
    code, why = call.finish()
    assert code is UNAUTHENTICATED
    assert "not known here" in why
    assert not server.running.use_cases.watched


def test_a_watch_whose_caller_is_lost_before_it_is_kept_ends(
    server: RotatingServer, passed: list[str], tokens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Admission, "_is_current", lambda *_: True)
    call = begin_watch(server, passed)
    take_away(server, tokens)
    code, why = call.finish()
    assert code is grpc.StatusCode.UNAVAILABLE
    assert "recognized no more" in why
    assert not call.answers


def test_control_without_both_checks_the_watch_goes_on(
    server: RotatingServer, passed: list[str], tokens: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Admission, "_is_current", lambda *_: True)
    monkeypatch.setattr("lakelog.serving.edge.known_callers._check", lambda stream: None)
    call = begin_watch(server, passed)
    take_away(server, tokens)
    call.send()
    wait_until(lambda: bool(server.running.use_cases.watched))
    push(server.running, 7)
    wait_until(lambda: bool(call.answers))
    call.close()
