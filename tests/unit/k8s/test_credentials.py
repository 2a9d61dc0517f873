"""The Job of the local overlay: what it makes fits together, and an attempt that was cut off is gone on with."""

from __future__ import annotations

import hashlib
import importlib.util
import ssl
import sys
import threading
import urllib.error
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import grpc
import pytest

from lakelog.errors import Unavailable
from lakelog.serving.access import Role, parse_token_file
from lakelog.serving.listening import ServerTls
from tests.unit.k8s.manifests import K8S, build, of_kind
from tests.unit.k8s.rules import LOCAL_SECRETS, SECRETS

SCRIPT = K8S / "overlays" / "local" / "credentials" / "make_credentials.py"


@pytest.fixture(scope="module")
def job() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_credentials", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Cluster:
    """Secrets of a namespace, in memory; it goes away after some calls."""

    def __init__(self, calls: int = 1000) -> None:
        self.secrets: dict[str, dict[str, str]] = {}
        self.kinds: dict[str, str] = {}
        self.order: list[str] = []
        self.calls = calls

    def read(self, name: str) -> Mapping[str, str]:
        self._count()
        return self.secrets[name]

    def create(self, name: str, data: Mapping[str, str], kind: str = "Opaque") -> bool:
        self._count()
        if name in self.secrets:
            return False
        self.secrets[name] = dict(data)
        self.kinds[name] = kind
        self.order.append(name)
        return True

    def _count(self) -> None:
        self.calls -= 1
        if self.calls < 0:
            raise Unavailable("The API is away.")


@pytest.fixture(scope="module")
def made(job: ModuleType) -> Cluster:
    cluster = Cluster()
    job.make_all(cluster, "lakelog")
    return cluster


def check_fits(secrets: dict[str, dict[str, str]]) -> None:
    """What pods take from different Secrets belongs together."""
    listed = parse_token_file(secrets["caller-tokens"]["tokens"], "tokens")
    assert listed.certificates == {}
    known = {entry.caller.name: entry.digest for entry in listed.tokens}
    for name, digest in known.items():
        assert hashlib.sha256(secrets[f"{name}-token"]["token"].encode()).digest() == digest
    assert secrets["postgres-password"]["password"] in secrets["metastore-database"]["url"]
    assert {
        secrets[name]["ca.crt"] for name in ("metastore-tls", "reader-tls", "console-tls", "certificate-authority")
    } == {secrets["certificate-authority"]["ca.crt"]}


def test_it_makes_every_secret_that_the_manifests_name(made: Cluster) -> None:
    wanted = {name: set(keys) for name, keys in (SECRETS | LOCAL_SECRETS).items() if name != "kafka-secrets"}
    assert {name: set(data) for name, data in made.secrets.items()} == wanted
    assert {name for name, kind in made.kinds.items() if kind == "kubernetes.io/tls"} == {
        "metastore-tls",
        "reader-tls",
        "console-tls",
    }
    check_fits(made.secrets)


def test_callers_have_the_least_role_that_they_need(made: Cluster) -> None:
    listed = parse_token_file(made.secrets["caller-tokens"]["tokens"], "tokens")
    roles = {entry.caller.name: entry.caller.role for entry in listed.tokens}
    writers = dict.fromkeys(("writer", "publisher", "compactor", "streams"), Role.WRITER)
    assert roles == {"admin": Role.ADMIN, "reader": Role.READER, **writers}


def test_nothing_is_the_same_in_two_installations(job: ModuleType, made: Cluster) -> None:
    other = Cluster()
    job.make_all(other, "lakelog")
    values = {value for data in made.secrets.values() for value in data.values()}
    assert not values & {value for data in other.secrets.values() for value in data.values()}


def test_an_attempt_that_was_cut_off_anywhere_is_gone_on_with(job: ModuleType, made: Cluster) -> None:
    for calls in range(len(made.order) + 3):
        cluster = Cluster(calls)
        try:
            job.make_all(cluster, "lakelog")
        except Unavailable:
            before = {name: dict(data) for name, data in cluster.secrets.items()}
            cluster.calls = 1000
            job.make_all(cluster, "lakelog")
            assert {name: cluster.secrets[name] for name in before} == before
        check_fits(cluster.secrets)
        assert cluster.order == made.order


def test_its_rights_are_what_it_uses(job: ModuleType, made: Cluster) -> None:
    reads: list[str] = []

    class Watched(Cluster):
        def read(self, name: str) -> Mapping[str, str]:
            reads.append(name)
            return super().read(name)

    again = Watched()
    again.secrets = dict(made.secrets)
    job.make_all(again, "lakelog")
    (role,) = of_kind(build("local"), "Role")
    (allowed,) = [rule["resourceNames"] for rule in role["rules"] if rule["verbs"] == ["get"]]
    assert sorted(set(reads)) == sorted(allowed)


def test_clients_trust_the_certificates_under_each_name_and_under_no_other(made: Cluster, tmp_path: Path) -> None:
    data = made.secrets["metastore-tls"]
    for name in ("tls.crt", "tls.key"):
        (tmp_path / name).write_text(data[name])
    tls = ServerTls(tmp_path / "tls.crt", tmp_path / "tls.key")
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool)
        port = server.add_secure_port("127.0.0.1:0", tls.load_credentials())
        server.start()
        try:
            answers = {}
            for name in ("metastore", "metastore.lakelog.svc", "localhost", "reader"):
                options = [("grpc.ssl_target_name_override", name)]
                credentials = grpc.ssl_channel_credentials(data["ca.crt"].encode())
                with grpc.secure_channel(f"127.0.0.1:{port}", credentials, options=options) as channel:
                    call: Any = channel.unary_unary("/x/y")
                    with pytest.raises(grpc.RpcError) as caught:
                        call(b"", timeout=10)
                    answers[name] = caught.value.code()
            found = grpc.StatusCode.UNIMPLEMENTED
            unknown = grpc.StatusCode.UNAVAILABLE
            assert answers == {
                "metastore": found,
                "metastore.lakelog.svc": found,
                "localhost": found,
                "reader": unknown,
            }
        finally:
            server.stop(None)


@pytest.fixture
def api(job: ModuleType, made: Cluster, tmp_path: Path) -> Iterator[tuple[str, Path, list[Any]]]:
    """A server that answers as the API of Kubernetes does, with the account's folder and what it was sent."""
    seen: list[Any] = []
    data = made.secrets["metastore-tls"]

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            seen.append((self.path, self.headers["Authorization"]))
            body = b'{"kind": "Status"}'
            self.send_response(403 if self.headers["Authorization"] != "Bearer good" else 409)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Says nothing."""

    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).write_text(data[name])
    (tmp_path / "token").write_text("good\n")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "tls.crt", tmp_path / "tls.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"https://127.0.0.1:{server.server_address[1]}", tmp_path, seen
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_api_is_asked_with_the_accounts_token_and_certificate(
    job: ModuleType, api: tuple[str, Path, list[Any]]
) -> None:
    url, account, seen = api
    cluster = job.Cluster(url, account, "lakelog")
    assert cluster.create("x", {"a": "b"}) is False
    assert seen == [("/api/v1/namespaces/lakelog/secrets", "Bearer good")]
    (account / "token").write_text("bad")
    with pytest.raises(urllib.error.HTTPError) as refused:
        cluster.create("x", {"a": "b"})
    assert refused.value.code == 403
    refused.value.close()


def test_what_fails_for_good_is_said_in_one_line(
    job: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_arguments: object) -> None:
        raise urllib.error.HTTPError("https://x", 403, "Forbidden", Message(), None)

    monkeypatch.setattr(job, "make_all", fail)
    times = iter([0.0, 1.0, 500.0])
    # The job's own clock alone: other threads of this process look at theirs.
    clock = SimpleNamespace(monotonic=lambda: next(times), sleep=lambda _seconds: None)
    monkeypatch.setattr(job, "time", clock)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(sys, "argv", ["x", "--account=/a", "--namespace=lakelog"])
    assert job.main() == 1
    assert capsys.readouterr().err == "credentials: the Secrets cannot be made: HTTP Error 403: Forbidden\n"
