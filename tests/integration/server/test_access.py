"""Who gets in: tokens, roles and certificates over a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import grpc
import pyarrow as pa
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from lakelog.client.connection.retry import Deadlines
from lakelog.client.connection.target import TlsFiles
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.clock import SystemClock
from lakelog.errors import InvalidArgument, PermissionDenied, Unavailable
from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.grant import GrantLevel
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.format.tables.table import TableName
from lakelog.serving.access import Access, Role, parse_token_file
from lakelog.serving.listening import ServerTls
from lakelog.serving.methods import OF_METASTORE, list_methods
from lakelog.serving.rotation.live_tls import LiveTls
from metastore.memory import MemoryStore
from metastore.server.access import NEEDED_ROLES
from metastore.use_cases import UseCases
from tests.integration.server.running_server import RunningServer, failure_of
from tests.support.certificates import TestAuthority

Start = Callable[..., RunningServer]
Connect = Callable[..., GrpcMetastore]

READER, WRITER, ADMIN = ("reader-token-0123456789", "writer-token-0123456789", "admin-token-0123456789")
TOKENS = parse_token_file(
    f"ann reader {READER}\n\n# comment\nbob writer {WRITER}\neve admin {ADMIN}\n", "tokens"
).tokens


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TestAuthority:
    return TestAuthority(tmp_path_factory.mktemp("certificates"))


def test_every_rpc_has_an_entry_and_every_entry_an_rpc() -> None:
    known = {f"/{method.containing_service.full_name}/{method.name}" for method in list_methods(OF_METASTORE)}
    listed = {method for method in NEEDED_ROLES if method.startswith("/lakelog.")}
    assert listed == known
    assert all(NEEDED_ROLES[method] is not None for method in known), "none of ours is open to everyone"


def test_a_method_without_an_entry_is_refused(start_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    remaining = {key: role for key, role in NEEDED_ROLES.items() if not key.endswith("/ListTables")}
    monkeypatch.setattr("metastore.server.access.NEEDED_ROLES", remaining)
    code, text = failure_of(start_server().target, "CatalogService/ListTables")
    assert code is grpc.StatusCode.PERMISSION_DENIED
    assert "open to no role" in text


def test_roles(start_server: Start, connect: Connect, capfd: pytest.CaptureFixture[str]) -> None:
    target = start_server(access=Access(tokens=TOKENS)).target
    reader, writer, admin = (connect(target, token=token) for token in (READER, WRITER, ADMIN))
    assert reader.list_databases() == []
    with pytest.raises(PermissionDenied, match="ann has neither the role writer nor a grant of writer") as caught:
        reader.stage_attempt(["a" * 32], "w")
    assert caught.value.metadata["needed"] == "writer"
    assert writer.stage_attempt(["a" * 32], "w").attempt_id
    assert writer.list_databases() == []
    with pytest.raises(PermissionDenied, match="needs admin"):
        writer.create_database("x")
    assert admin.create_database("x")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    refused = [(line["caller"], line["method"]) for line in lines if line["event"] == "refused"]
    assert refused == [("ann", "StageAttempt"), ("bob", "CreateDatabase")], "the audit says who was refused"


def test_strangers(start_server: Start, connect: Connect, capfd: pytest.CaptureFixture[str]) -> None:
    server = start_server(access=Access(tokens=TOKENS))
    for token, words in [(None, "no token"), ("wrong-token-0123456789", "not known"), (READER[:-1], "not known")]:
        with pytest.raises(PermissionDenied, match=words) as caught:
            connect(server.target, token=token).list_databases()
        assert caught.value.reason == "UNAUTHENTICATED"
        assert token is None or token not in caught.value.message
    code, text = failure_of(
        server.target, "CatalogService/ListDatabases", metadata=[("authorization", f"Basic {READER}")]
    )
    assert code is grpc.StatusCode.UNAUTHENTICATED
    assert "Bearer" in text
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    refused = [line for line in lines if line["event"] == "refused"]
    assert [line["method"] for line in refused] == ["ListDatabases"] * 4
    assert all("127.0.0.1" in line["peer"] for line in refused)
    assert "token-0123456789" not in json.dumps(lines)


def test_a_stranger_is_refused_before_the_request_is_read(start_server: Start) -> None:
    server = start_server(access=Access(tokens=TOKENS))
    # Bytes that are no message would be INVALID_ARGUMENT, had anyone looked at them.
    bad_token = [("authorization", "Bearer nobody-knows-this-one")]
    code, _ = failure_of(server.target, "SnapshotService/Commit", b"\x0a\xff\xff", metadata=bad_token)
    assert code is grpc.StatusCode.UNAUTHENTICATED


def test_a_refused_pipeline_fails_with_the_reason(start_server: Start, connect: Connect) -> None:
    target = start_server(access=Access(tokens=TOKENS)).target
    pipeline = connect(target, token=READER).open_commit_pipeline()
    # The refusal may be here before the commit is, which then is not even sent; either way it is told.
    with pytest.raises((PermissionDenied, Unavailable), match="neither the role writer"):
        pipeline.submit(CommitRequest("w", 1, (Change("a" * 32, SnapshotKind.APPEND, 0, 1),))).result(5)
    pipeline.close()


def test_probes_need_no_token_and_reflection_needs_one(start_server: Start) -> None:
    server = start_server(access=Access(tokens=TOKENS))
    with grpc.insecure_channel(server.target) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "lakelog.rpc.v1.SnapshotService", "lakelog.rpc.v1.JobService"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=5)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        with pytest.raises(grpc.RpcError) as caught:
            ProtoReflectionDescriptorDatabase(channel).get_services()
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def test_reflection_lists_the_services(start_server: Start) -> None:
    with grpc.insecure_channel(start_server().target) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        assert "lakelog.rpc.v1.SnapshotService" in database.get_services()
        assert database.FindFileContainingSymbol("lakelog.rpc.v1.CommitRequest").name.endswith("snapshots.proto")


def test_tls_with_a_token(start_server: Start, connect: Connect, authority: TestAuthority, tmp_path: Path) -> None:
    own = authority.issue("server")
    server = start_server(access=Access(tokens=TOKENS), tls=ServerTls(own.certificate, own.key))
    ca = TlsFiles(ca=authority.ca.certificate)
    assert connect(server.target, tls=ca, token=READER).list_databases() == []
    with pytest.raises(PermissionDenied, match="no token"):
        connect(server.target, tls=ca).list_databases()
    with pytest.raises(Unavailable, match=r"No metastore answers .* without TLS"):
        connect(server.target, token=READER).list_databases()
    stranger = TestAuthority(tmp_path / "other")
    with pytest.raises(Unavailable, match="do the certificates fit"):
        connect(server.target, tls=TlsFiles(ca=stranger.ca.certificate), token=READER).list_databases()


def test_tls_against_plaintext_names_the_option_to_leave_out(start_server: Start, connect: Connect) -> None:
    with pytest.raises(Unavailable, match=r"does not speak TLS.*Leave TLS out") as caught:
        connect(start_server().target, tls=TlsFiles(), deadlines=Deadlines(connect_s=1.0)).list_databases()
    assert "SSL" not in caught.value.message


def test_mutual_tls(start_server: Start, connect: Connect, authority: TestAuthority) -> None:
    own, flights, no_one = (authority.issue(name) for name in ("server", "flights", "nobody"))
    tls = ServerTls(own.certificate, own.key, authority.ca.certificate)
    server = start_server(access=Access(tokens=TOKENS, certificates={"flights": Role.WRITER}), tls=tls)

    def with_certificate(pair: object = None, **options: object) -> GrpcMetastore:
        files = {} if pair is None else {"certificate": pair.certificate, "key": pair.key}  # type: ignore[attr-defined]
        return connect(server.target, tls=TlsFiles(ca=authority.ca.certificate, **files), **options)

    assert with_certificate(flights).register_writer("w") == 1
    with pytest.raises(PermissionDenied, match="flights has the role writer"):
        with_certificate(flights).create_database("x")
    with pytest.raises(PermissionDenied, match="certificate of nobody is valid but no role"):
        with_certificate(no_one).list_databases()
    # A token comes before the certificate: people behind a proxy's certificate keep their own roles.
    with pytest.raises(PermissionDenied, match="ann has neither the role writer"):
        with_certificate(flights, token=READER).register_writer("w")
    with pytest.raises(Unavailable):
        with_certificate().list_databases()


def test_certificates_that_have_expired(
    start_server: Start, connect: Connect, authority: TestAuthority, tmp_path: Path
) -> None:
    """A server does not start with one. One that runs on with it gets no clients, and a client with one no server."""
    own, old, old_client = authority.issue("server"), authority.issue("old", days=-1), authority.issue("late", days=-1)
    with pytest.raises(InvalidArgument, match=r"has expired.*--tls-cert") as refused:
        LiveTls(ServerTls(old.certificate, old.key), SystemClock())
    assert "\n" not in refused.value.message
    running = start_server(access=Access(tokens=TOKENS), tls=ServerTls(old.certificate, old.key))
    ca = TlsFiles(ca=authority.ca.certificate)
    with pytest.raises(Unavailable, match=r"certificate has expired.* do the certificates fit"):
        connect(running.target, tls=ca, token=READER).list_databases()
    tls = ServerTls(own.certificate, own.key, authority.ca.certificate)
    mutual = start_server(access=Access(certificates={"late": Role.ADMIN}), tls=tls)
    files = TlsFiles(ca=authority.ca.certificate, certificate=old_client.certificate, key=old_client.key)
    with pytest.raises(Unavailable, match="do the certificates fit"):
        connect(mutual.target, tls=files).list_databases()


def test_every_certificate_of_a_private_authority(
    start_server: Start, connect: Connect, authority: TestAuthority
) -> None:
    own, someone = authority.issue("server"), authority.issue("someone")
    tls = ServerTls(own.certificate, own.key, authority.ca.certificate)
    server = start_server(access=Access(any_certificate=True), tls=tls)
    files = TlsFiles(ca=authority.ca.certificate, certificate=someone.certificate, key=someone.key)
    assert connect(server.target, tls=files).create_database("x")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "lists no caller"),
        ("# only a comment", "lists no caller"),
        ("ann reader", "Line 1 .* has 2 words"),
        ("\nann boss secret-secret-secret", "Line 2 .* unknown role"),
        ("a/b reader secret-secret-secret", "malformed name"),
        ("ann reader short", "too short"),
        ("ann reader secret-secret-secret\nbob admin secret-secret-secret", "Line 2 .* repeats the token of ann"),
    ],
)
def test_token_files_that_cannot_be_used(text: str, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        parse_token_file(text, "/etc/tokens")
    assert "secret" not in caught.value.message


def test_grants_have_lines_in_the_audit(
    start_server: Start, connect: Connect, capfd: pytest.CaptureFixture[str]
) -> None:
    """Who granted what to whom where, and who was refused."""
    server = start_server(UseCases(MemoryStore(SystemClock()), "file:///w"), access=Access(tokens=TOKENS))
    reader, admin = (connect(server.target, token=token) for token in (READER, ADMIN))
    admin.create_database("shop")
    admin.create_table(TableName("shop", "orders"), pa.schema([("id", pa.int64())]))
    admin.grant("shop", "orders", GrantLevel.WRITER, "team")
    admin.revoke("shop", "orders", "team")
    with pytest.raises(PermissionDenied):
        reader.grant("shop", "", GrantLevel.OWNER, "ann")
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    named = [each for each in lines if each.get("method") in ("Grant", "Revoke")]
    shown = [
        [each.get(key) for key in ("caller", "outcome", "database", "table", "principal", "granted")] for each in named
    ]
    assert shown == [
        ["eve", "OK", "shop", "orders", "team", "writer"],
        ["eve", "OK", "shop", "orders", "team", None],
        ["ann", "NO_GRANT", None, None, None, None],
    ]
    assert "'shop'" in named[2]["message"]
