"""Token files and certificates are replaced under open connections, while the server runs."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lakelog.client.connection.retry import Deadlines
from lakelog.client.connection.target import TlsFiles
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, LakelogError, PermissionDenied, Unavailable
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.serving.access_settings import AccessSettings
from lakelog.serving.listening import ServerTls
from lakelog.serving.rotation.live_tls import LiveTls
from tests.integration.server.metastore_process import Process
from tests.integration.server.rotating_server import (
    RotatingServer,
    Watching,
    outcome_of,
    push,
    read_lines,
    replace,
    token_for,
    wait_until,
)
from tests.integration.server.running_server import ScriptedUseCases
from tests.integration.server.tcp_proxy import TcpProxy
from tests.support.certificates import Pair, TestAuthority
from tests.support.issuer import AUDIENCE, ISSUER, key_for, to_jwk, to_jwks

Connect = Callable[..., GrpcMetastore]
ANN, BOB, EVE = (f"{name}-token-0123456789" for name in ("ann", "bob", "eve"))


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def tokens(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"ann admin {ANN}\nbob writer {BOB}\n")
    return path


@pytest.fixture
def start() -> Iterator[Callable[..., RotatingServer]]:
    started: list[RotatingServer] = []

    def run(*arguments: Any, **options: Any) -> RotatingServer:
        started.append(RotatingServer(*arguments, **options))
        return started[-1]

    yield run
    for each in started:
        each.stop()


Start = Callable[..., RotatingServer]


def test_a_token_file_is_replaced(
    start: Start, connect: Connect, tokens: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = start(AccessSettings(token_file=tokens))
    ann, bob, eve = (connect(server.target, token=token) for token in (ANN, BOB, EVE))
    watches = [Watching(each) for each in (ann, bob)]
    wait_until(lambda: len(server.running.use_cases.watched) == 2)
    assert [outcome_of(each.list_databases) for each in (ann, bob, eve)] == ["OK", "OK", "UNAUTHENTICATED"]
    replace(tokens, f"ann admin {ANN}\neve reader {EVE}\n")
    server.wait_for("token-file", "used")
    assert [outcome_of(each.list_databases) for each in (ann, bob, eve)] == ["OK", "UNAUTHENTICATED", "OK"]
    assert "not known here" in watches[1].wait_for_end().message
    push(server.running, 1)
    wait_until(lambda: watches[0].seen == [1])
    assert len(server.running.use_cases.watched) == 2, "the caller that is still known keeps its watch"
    # A lower role.
    replace(tokens, f"ann user {ANN}\n")
    server.wait_for("token-file", "used", 2)
    assert watches[0].wait_for_end().message.startswith("ann has ")
    # What cannot be used changes nothing.
    for bad in (f"ann admin {ANN} {BOB}", f"{ANN} admin ann", ""):
        replace(tokens, bad)
        refused = server.measure("rotations_total", setting="token-file", outcome="refused")
        server.wait_for("token-file", "refused", refused + 1)
    tokens.unlink()
    server.wait_for("token-file", "refused", 4)
    assert outcome_of(ann.list_databases) != "UNAUTHENTICATED"
    lines = read_lines(capfd.readouterr().err)
    reasons = [line["reason"] for line in lines if line["event"].startswith("what is new cannot")]
    assert len(reasons) == 4, "one line a change"
    assert "No such file" in reasons[-1]
    assert not any(token in json.dumps(lines) for token in (ANN, BOB, EVE))


def test_control_without_rotation_an_old_token_stays_in(start: Start, connect: Connect, tokens: Path) -> None:
    server = start(AccessSettings(token_file=tokens), every_s=3600.0)
    bob = connect(server.target, token=BOB)
    assert outcome_of(bob.list_databases) == "OK"
    replace(tokens, f"ann admin {ANN}\n")
    assert outcome_of(bob.list_databases) == "OK"
    # As SIGHUP does.
    server.running.loop.call_soon_threadsafe(server.rotation.look_now)
    server.wait_for("token-file", "used")
    assert outcome_of(bob.list_databases) == "UNAUTHENTICATED"


def test_a_stream_of_commits_answers_what_it_has_read_when_its_caller_is_lost(
    start: Start, connect: Connect, tokens: Path
) -> None:
    cases = ScriptedUseCases(commit_delay_s=lambda request: 0.5)
    server = start(AccessSettings(token_file=tokens), use_cases=cases)
    pipeline = connect(server.target, token=BOB).open_commit_pipeline()
    change = (Change("a" * 32, SnapshotKind.APPEND, 0, 1),)
    first = [pipeline.submit(CommitRequest("w", number, change)) for number in (1, 2, 3)]
    wait_until(lambda: len(cases.commit_order) == 3)
    replace(tokens, f"ann admin {ANN}\n")
    for future in first:
        assert future.exception(20) is None
    wait_until(lambda: pipeline._ended is not None)
    with pytest.raises(LakelogError, match="recognized no more"):
        pipeline.submit(CommitRequest("w", 4, change))
    pipeline.close()
    assert cases.commit_order == [1, 2, 3]
    # The refusal may be here before the commit is, which then is not sent.
    with pytest.raises((PermissionDenied, Unavailable), match="not known here"):
        connect(server.target, token=BOB).open_commit_pipeline().submit(CommitRequest("w", 4, change)).result(20)


def subject_of(server: RotatingServer, authority: TestAuthority, client: Pair | None = None) -> str:
    """The common name in the certificate that a new connection sees."""
    context = ssl.create_default_context(cafile=str(authority.ca.certificate))
    if client is not None:
        context.load_cert_chain(client.certificate, client.key)
    host, _, port = server.target.rpartition(":")
    with socket.create_connection((host, int(port))) as plain, context.wrap_socket(plain, server_hostname=host) as tls:
        found: Any = tls.getpeercert()
        return str(found["subject"][0][0][1])


class Files:
    """The places of a server's certificate, key and client authority."""

    def __init__(self, folder: Path, pair: Pair, client_ca: Path | None = None) -> None:
        self.tls = ServerTls(
            folder / "tls.crt", folder / "tls.key", None if client_ca is None else folder / "client-ca.crt"
        )
        if self.tls.client_ca is not None and client_ca is not None:
            replace(self.tls.client_ca, client_ca.read_bytes())
        self.put(pair)

    def put(self, pair: Pair) -> None:
        replace(self.tls.key, pair.key.read_bytes())
        replace(self.tls.certificate, pair.certificate.read_bytes())


def test_a_certificate_is_replaced_under_load(
    start: Start, connect: Connect, tokens: Path, authority: TestAuthority, tmp_path: Path
) -> None:
    one, two = (authority.issue(name) for name in ("one", "two"))
    files = Files(tmp_path, one)
    server = start(AccessSettings(token_file=tokens), files.tls)
    client = connect(server.target, tls=TlsFiles(ca=authority.ca.certificate), token=ANN)
    calls, failures, stop = [0], [], threading.Event()

    def load() -> None:
        while not stop.is_set():
            try:
                client.list_databases()
                calls[0] += 1
            except LakelogError as error:
                failures.append(error)

    thread = threading.Thread(target=load)
    thread.start()
    wait_until(lambda: calls[0] > 0)
    assert subject_of(server, authority) == "one"
    session = client._connection._session
    # Not the certificate of this key: nothing changes.
    replace(files.tls.key, two.key.read_bytes())
    server.wait_for("tls-cert", "refused")
    assert subject_of(server, authority) == "one"
    replace(files.tls.certificate, two.certificate.read_bytes())
    server.wait_for("tls-cert", "used")
    assert subject_of(server, authority) == "two"
    before = calls[0]
    wait_until(lambda: calls[0] > before)
    stop.set()
    thread.join()
    assert not failures
    assert client._connection._session is session, "the old connection goes on"
    assert 0 < server.measure("certificate_remaining_seconds") < 3 * 86_400


def test_the_authority_of_clients_is_replaced(
    start: Start, connect: Connect, authority: TestAuthority, tmp_path: Path
) -> None:
    other = TestAuthority(tmp_path / "other")
    server_pair, old, new = authority.issue("server"), authority.issue("old"), other.issue("new")
    files = Files(tmp_path, server_pair, authority.ca.certificate)
    server = start(AccessSettings(any_certificate=True, takes_certificates=True), files.tls)

    def client(pair: Pair) -> GrpcMetastore:
        files = TlsFiles(authority.ca.certificate, pair.certificate, pair.key)
        return connect(server.target, tls=files, deadlines=Deadlines(connect_s=0.3))

    opened = client(old)
    assert outcome_of(opened.list_databases) == "OK"
    assert outcome_of(client(new).list_databases) == "NOT_CONNECTED"
    assert files.tls.client_ca is not None
    replace(files.tls.client_ca, other.ca.certificate.read_bytes())
    server.wait_for("tls-cert", "used")
    assert outcome_of(client(new).list_databases) == "OK"
    assert outcome_of(client(old).list_databases) == "NOT_CONNECTED"
    assert outcome_of(opened.list_databases) == "OK", "an open connection goes on"


def test_a_client_takes_its_new_certificate_when_it_reconnects(
    start: Start, connect: Connect, authority: TestAuthority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = TestAuthority(tmp_path / "other")
    files = Files(tmp_path, authority.issue("server"), authority.ca.certificate)
    (tmp_path / "client").mkdir()
    own = Files(tmp_path / "client", authority.issue("ann"))
    server = start(AccessSettings(any_certificate=True, takes_certificates=True), files.tls)
    proxy = TcpProxy(server.running.port)
    client, control = (
        connect(proxy.target, tls=TlsFiles(authority.ca.certificate, own.tls.certificate, own.tls.key)) for _ in "ab"
    )
    assert [outcome_of(each.list_databases) for each in (client, control)] == ["OK", "OK"]
    own.put(other.issue("bob"))
    assert files.tls.client_ca is not None
    replace(files.tls.client_ca, other.ca.certificate.read_bytes())
    server.wait_for("tls-cert", "used")
    proxy.cut()
    assert outcome_of(client.list_databases) == "OK"
    # Control: a client that does not look at its files is refused for its old certificate.
    session = control._connection._session
    assert session is not None
    monkeypatch.setattr(TlsFiles, "find_state", lambda self: session.tls_state)
    assert outcome_of(control.list_databases) in ("NOT_CONNECTED", "UNAVAILABLE")
    proxy.close()


def run_openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


def test_certificates_that_are_refused_at_the_start(authority: TestAuthority, tmp_path: Path) -> None:
    one, two = (authority.issue(name) for name in ("first", "second"))

    def problem(certificate: bytes, key: bytes, client_ca: bytes | None = None) -> str:
        files = Files(tmp_path, one, None if client_ca is None else one.certificate)
        replace(files.tls.certificate, certificate)
        replace(files.tls.key, key)
        if client_ca is not None and files.tls.client_ca is not None:
            replace(files.tls.client_ca, client_ca)
        with pytest.raises(InvalidArgument) as caught:
            LiveTls(files.tls, SystemClock())
        assert "MII" not in caught.value.message
        return caught.value.message

    good, key = one.certificate.read_bytes(), one.key.read_bytes()
    assert "is not the key of the certificate" in problem(good, two.key.read_bytes())
    assert "does not hold certificates in PEM format (--tls-cert)" in problem(key, key)
    assert "does not hold an unencrypted private key in PEM format (--tls-key)" in problem(good, good)
    assert "does not hold certificates in PEM format (--tls-client-ca)" in problem(good, key, b"none")
    locked = tmp_path / "locked.key"
    run_openssl("ec", "-in", str(one.key), "-aes256", "-passout", "pass:sesame", "-out", str(locked))
    assert "unencrypted" in problem(good, locked.read_bytes())


class SetClock(SystemClock):
    """A clock that a test sets."""

    def __init__(self) -> None:
        self.ahead_s = 0.0

    def now_ms(self) -> int:
        return super().now_ms() + int(self.ahead_s * 1000)


def test_the_end_of_a_certificate_is_said_ahead_of_time(authority: TestAuthority, tmp_path: Path) -> None:
    clock = SetClock()
    files = Files(tmp_path, authority.issue("ending"))
    tls = LiveTls(files.tls, clock)
    assert tls.find_warning() is None
    # It lives for two days.
    clock.ahead_s = 1.7 * 86_400
    warning = tls.find_warning()
    assert warning is not None
    assert "expires at 20" in warning
    assert tls.find_warning() is None, "once a day"
    clock.ahead_s = 2.8 * 86_400
    assert "has expired at 20" in (tls.find_warning() or "")
    assert tls.remaining_s() < 0
    with pytest.raises(InvalidArgument, match="has expired at 20"):
        LiveTls(files.tls, clock)
    clock.ahead_s = -86_400
    with pytest.raises(InvalidArgument, match="is not valid before 20"):
        LiveTls(files.tls, clock)


def test_a_metastore_of_its_own_process_follows_its_files(
    migrated_url: str, serve: Callable[..., Process], connect: Connect, tokens: Path, tmp_path: Path
) -> None:
    key, newer = key_for("ES256"), key_for("ES256", 1)
    keys = tmp_path / "keys.json"
    replace(keys, to_jwks(to_jwk(key)))
    signed = ["--token-keys", str(keys), "--token-issuer", ISSUER, "--token-audience", AUDIENCE]
    process = serve(migrated_url, "--token-file", str(tokens), *signed, "--token-role-claim", "role")
    ann, bob, old, new = (
        connect(process.target, token=token) for token in (ANN, BOB, token_for(key), token_for(newer, kid="k2"))
    )
    assert [outcome_of(each.list_databases) for each in (ann, bob, old, new)] == ["OK", "OK", "OK", "UNAUTHENTICATED"]
    replace(tokens, f"ann admin {ANN}\n")
    replace(keys, to_jwks(to_jwk(newer, "k2")))
    process.process.send_signal(signal.SIGHUP)
    wait_until(lambda: outcome_of(bob.list_databases) == "UNAUTHENTICATED")
    wait_until(lambda: outcome_of(old.list_databases) == "UNAUTHENTICATED")
    assert [outcome_of(each.list_databases) for each in (ann, new)] == ["OK", "OK"]
