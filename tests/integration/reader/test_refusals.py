"""Who may subscribe at the reader service, and what those are told who ask for what cannot be."""

from __future__ import annotations

import contextlib
import signal
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

import lakelog
from lakelog.client.connection.reader_target import parse_reader_targets
from lakelog.client.connection.target import TlsFiles
from lakelog.errors import InvalidArgument, NotFound, PermissionDenied, Unavailable
from lakelog.reads.streams.remote_stream import open_remote_stream
from lakelog.reads.streams.request import StreamRequest
from lakelog.rpc.services import Stubs
from lakelog.rpc.v1 import reader_pb2
from lakelog.sdk.catalog import Catalog
from tests.support.certificates import TestAuthority
from tests.support.issuer import AUDIENCE, ISSUER, key_for, sign, to_jwk, to_jwks
from tests.support.replicas import Replica

from .rows import SUBSCRIPTIONS, WAIT_S, Start, is_silent, items, make_append, take


def test_tokens_are_asked_for(catalog: Catalog, database: str, start_replica: Start, tmp_path: Path) -> None:
    table = make_append(catalog, database)
    tokens, keys = tmp_path / "tokens", tmp_path / "keys"
    tokens.write_text("ann reader 0123456789abcdef\nann reader signed\n")
    key = key_for("ES256")
    keys.write_bytes(to_jwks(to_jwk(key)))
    signed = ["--token-keys", str(keys), "--token-issuer", ISSUER, "--token-audience", AUDIENCE]
    replica = start_replica("--token-file", str(tokens), *signed)
    with pytest.raises(PermissionDenied, match="The call has no token"):
        table.subscribe(reader=replica.target)
    target = str(catalog.metastore._connection.target)  # type: ignore[attr-defined]
    with (
        lakelog.connect(target, token="0123456789abcdef", reader=replica.target) as known,
        known.table(table.name).subscribe() as stream,
    ):
        table.append(items(1))
        assert len(take(stream, 1)) == 1
        with (
            lakelog.connect(target, token=sign(key, now_s=time.time()), reader=replica.target) as account,
            account.table(table.name).subscribe() as other,
        ):
            # Without a restart: her token goes, and that of the account stays.
            tokens.write_text("bob reader fedcba9876543210\nann reader signed\n")
            replica.process.send_signal(signal.SIGHUP)
            with pytest.raises(PermissionDenied, match="The token is not known here"):
                stream.read(WAIT_S)
            table.append(items(1))
            assert len(take(other, 1)) == 1


def test_tls_and_certificates(catalog: Catalog, database: str, start_replica: Start, tmp_path: Path) -> None:
    table = make_append(catalog, database)
    authority = TestAuthority(tmp_path / "authority")
    own, ann = authority.issue("server"), authority.issue("ann")
    tokens = tmp_path / "tokens"
    tokens.write_text("ann reader cert\nbob reader 0123456789abcdef\n")
    files = ["--tls-cert", str(own.certificate), "--tls-key", str(own.key), "--tls-client-ca"]
    replica = start_replica(*files, str(authority.ca.certificate), "--token-file", str(tokens))
    with_own = TlsFiles(authority.ca.certificate, ann.certificate, ann.key)
    reader = parse_reader_targets(replica.target, tls=with_own, token=None)
    stream = open_remote_stream(reader, [table.info], StreamRequest())
    table.append(items(1))
    shown = next(progress.batch for progress in stream.follower.follow() if progress.batch is not None)
    assert shown.data.to_pylist() == [{"id": 1, "v": "x1"}]
    stream.follower.close()
    stranger = authority.issue("stranger")
    other = TlsFiles(authority.ca.certificate, stranger.certificate, stranger.key)
    with pytest.raises(PermissionDenied, match="no role is given to that name"):
        open_remote_stream(parse_reader_targets(replica.target, tls=other, token=None), [table.info], StreamRequest())
    with pytest.raises(Unavailable):
        open_remote_stream(parse_reader_targets(replica.target, tls=None, token=None), [table.info], StreamRequest())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"scan_mode": "oldest"}, r"'scan\.mode' = 'oldest' is not possible"),
        ({"options": {"scan.snapshot-idd": 1}}, r"Did you mean 'scan\.snapshot-id'"),
        ({"columns": ["w"]}, "has no column 'w'"),
        ({"filter": "w = 1"}, "w"),
        ({"reader": "localhost"}, "reader: The target 'localhost' is without a port"),
        ({"reader": ","}, "names no reader service"),
        ({"reader": 7}, "reader=7 is no text"),
    ],
)
def test_what_cannot_be_is_refused_as_without_it(
    catalog: Catalog, database: str, shared_replica: Replica, arguments: dict[str, Any], message: str
) -> None:
    table = make_append(catalog, database)
    with pytest.raises(InvalidArgument, match=message):
        table.subscribe(**{"reader": shared_replica.target, **arguments})


def test_a_table_that_was_dropped_ends_the_stream(catalog: Catalog, database: str, shared_replica: Replica) -> None:
    table = make_append(catalog, database)
    with table.subscribe(reader=shared_replica.target) as stream:
        assert is_silent(stream)
        catalog.drop_table(table.name)
        with pytest.raises(NotFound, match="was dropped, so no change will come any more"):
            stream.read(WAIT_S)


def test_raw_clients_receive_what_is_wrong(catalog: Catalog, database: str, shared_replica: Replica) -> None:
    table = make_append(catalog, database)
    start = reader_pb2.SubscribeRequest(
        start=reader_pb2.SubscribeStart(tables=[reader_pb2.StreamTable(name=table.name)])
    )
    remade = reader_pb2.SubscribeRequest()
    remade.CopyFrom(start)
    remade.start.resume.add(table_uuid="0" * 32, snapshot_id=1)
    another = reader_pb2.SubscribeRequest()
    another.CopyFrom(start)
    another.start.tables[0].table_uuid = "0" * 32
    keep = reader_pb2.SubscribeRequest(
        keep=reader_pb2.KeepPositions(positions=[reader_pb2.StreamPosition(table="other.table")])
    )
    taken = reader_pb2.SubscribeRequest(taken=reader_pb2.TakenProgress(sequence=99))
    with grpc.insecure_channel(shared_replica.target) as channel:
        subscribe = Stubs(channel, reader_pb2.DESCRIPTOR.services_by_name.values()).Subscribe
        for requests, code, message in (
            ([], None, ""),
            ([taken], grpc.StatusCode.INVALID_ARGUMENT, "first message has no start"),
            ([start, start], grpc.StatusCode.INVALID_ARGUMENT, "that has begun holds start"),
            ([start, keep], grpc.StatusCode.INVALID_ARGUMENT, "keep names 'other.table'"),
            ([remade], grpc.StatusCode.FAILED_PRECONDITION, "was dropped and made anew"),
            ([another], grpc.StatusCode.NOT_FOUND, "another one has its name"),
            ([start, taken], None, ""),
        ):
            answers = subscribe(iter(requests), timeout=20)
            with contextlib.suppress(grpc.RpcError):
                list(answers)
            assert answers.code() is (code or grpc.StatusCode.OK), answers.details()
            assert message in answers.details()
    shared_replica.wait_for(SUBSCRIPTIONS, 0)


def test_no_call_is_left_without_an_end(catalog: Catalog, database: str, shared_replica: Replica) -> None:
    """Clients that leave, or say something wrong, while they are being sent to."""
    table = make_append(catalog, database)
    table.append(items(*range(50_000)))
    start = reader_pb2.SubscribeRequest(
        start=reader_pb2.SubscribeStart(tables=[reader_pb2.StreamTable(name=table.name)])
    )
    with grpc.insecure_channel(shared_replica.target) as channel:
        subscribe = Stubs(channel, reader_pb2.DESCRIPTOR.services_by_name.values()).Subscribe
        for _ in range(60):
            for requests in ([start], [start, start]):
                answers = subscribe(iter(requests), timeout=20)
                with contextlib.suppress(grpc.RpcError):
                    list(answers)
                assert answers.code() is not grpc.StatusCode.DEADLINE_EXCEEDED
    shared_replica.wait_for(SUBSCRIPTIONS, 0)
