"""Callers with signed tokens at a real server: who gets in, what the others learn, and what the log says of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from lakelog.client.connection.tokens import FileToken
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import PermissionDenied
from lakelog.serving.access_settings import AccessSettings
from lakelog.serving.signed_tokens import failures
from lakelog.serving.signed_tokens.rules import KeySource
from lakelog.serving.signed_tokens.verification import LEEWAY_S
from tests.integration.server.rotating_server import (
    RotatingServer,
    Watching,
    outcome_of,
    push,
    read_lines,
    replace,
    signed_by,
    token_for,
    wait_until,
)
from tests.integration.server.running_server import failure_of
from tests.support.issuer import AUDIENCE, ISSUER, key_for, to_jwk, to_jwks

Connect = Callable[..., GrpcMetastore]
KEY = key_for("ES256")


@pytest.fixture
def keys(tmp_path: Path) -> Path:
    path = tmp_path / "keys.json"
    path.write_bytes(to_jwks(to_jwk(KEY)))
    return path


@pytest.fixture
def start(keys: Path) -> Iterator[Callable[..., RotatingServer]]:
    started: list[RotatingServer] = []

    def run(**options: Any) -> RotatingServer:
        files = {name: options.pop(name) for name in ("token_file",) if name in options}
        settings = AccessSettings(signed=signed_by(KeySource(file=keys)), **files)
        started.append(RotatingServer(settings, **options))
        return started[-1]

    yield run
    for each in started:
        each.stop()


Start = Callable[..., RotatingServer]


def test_roles_of_signed_callers(start: Start, connect: Connect, tmp_path: Path) -> None:
    (tmp_path / "tokens").write_text("system:serviceaccount:team-a:importer writer signed\n")
    target = start(token_file=tmp_path / "tokens").target
    account = connect(target, token=token_for(KEY, sub="system:serviceaccount:team-a:importer", role=None))
    assert account.register_writer("w") == 1
    with pytest.raises(PermissionDenied, match="signed:system:serviceaccount:team-a:importer has the role writer"):
        account.create_database("x")
    assert connect(target, token=token_for(KEY, role="admin")).create_database("x")
    with pytest.raises(PermissionDenied, match="signed:ann has neither the role writer nor a grant"):
        connect(target, token=token_for(KEY, role=None)).register_writer("w")


def test_refusals_are_clear_and_leave_lines_without_the_token(
    start: Start, connect: Connect, capfd: pytest.CaptureFixture[str]
) -> None:
    target = start().target
    stranger = key_for("ES256", 1)
    refused = {
        "has expired": token_for(KEY, lasts_s=-3600),
        "not valid yet": token_for(KEY, nbf=4_000_000_000),
        f"issuer {ISSUER}": token_for(KEY, iss="https://canary.test"),
        f"audience {AUDIENCE}": token_for(KEY, aud="canary"),
        "names a key": token_for(stranger, kid="k9"),
        "signature of the token is wrong": token_for(stranger),
        "longer than 8192": f"{token_for(KEY)[:-1]}{'A' * 8000}",
        "has a role": token_for(KEY, role="canary"),
        "no usable name": token_for(KEY, sub="canary name"),
        "not known here": "canary-canary-canary-canary",
    }
    for words, token in refused.items():
        code, text = failure_of(target, "CatalogService/ListDatabases", metadata=[("authorization", f"Bearer {token}")])
        assert code is grpc.StatusCode.UNAUTHENTICATED
        assert words in text
    lines = [line for line in read_lines(capfd.readouterr().err) if line["event"] == "refused"]
    assert [line["outcome"] for line in lines] == ["UNAUTHENTICATED"] * len(refused)
    assert all(line["caller"] is None and "127.0.0.1" in line["peer"] for line in lines)
    shown = json.dumps(lines)
    assert "canary" not in shown
    for token in refused.values():
        assert not any(part in shown for part in token.split(".") if len(part) > 8)


@pytest.mark.parametrize("bounded", [True, False], ids=["protected", "control"])
def test_wrong_tokens_of_an_address_are_checked_only_so_often(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch, bounded: bool
) -> None:
    if bounded:
        monkeypatch.setattr(failures, "BURST", 3.0)
        monkeypatch.setattr(failures, "RATE", 0.001)
    target, stranger = start().target, key_for("ES256", 1)
    known = connect(target, token=token_for(KEY))
    assert outcome_of(known.list_databases) == "OK"
    codes = []
    for number in range(6):
        header = [("authorization", f"Bearer {token_for(stranger, sub=f'x{number}')}")]
        codes.append(failure_of(target, "CatalogService/ListDatabases", metadata=header)[0])
    checked = 3 if bounded else 6
    assert codes == [grpc.StatusCode.UNAUTHENTICATED] * checked + [grpc.StatusCode.RESOURCE_EXHAUSTED] * (6 - checked)
    assert outcome_of(known.list_databases) == "OK", "a token that was verified is not concerned"


def test_a_refusal_has_an_id_that_its_line_has(
    start: Start, connect: Connect, capfd: pytest.CaptureFixture[str]
) -> None:
    target = start().target
    with pytest.raises(PermissionDenied) as caught:
        connect(target, token=token_for(KEY, aud="x")).list_databases()
    for given in ("from-a-proxy:1", "no id at all", "x" * 65):
        failure_of(target, "CatalogService/ListDatabases", metadata=[("x-request-id", given)])
    assert connect(target, token=token_for(KEY)).create_database("x")
    ids = [line["request_id"] for line in read_lines(capfd.readouterr().err) if "request_id" in line]
    assert ids[:2] == [caught.value.metadata["request_id"], "from-a-proxy:1"]
    assert [len(found) for found in ids[2:]] == [32] * 3, "those of the server, also for what took effect"
    assert len(set(ids)) == 5


def wait_for_watches(server: RotatingServer, count: int) -> None:
    wait_until(lambda: len(server.running.use_cases.watched) == count)


SOON = 1.2 - LEEWAY_S
"""A token that lasts so long is refused in 1.2 seconds."""


def test_a_watch_goes_on_with_the_newer_token_of_a_file(start: Start, connect: Connect, tmp_path: Path) -> None:
    server = start()
    path = tmp_path / "token"
    replace(path, token_for(KEY, lasts_s=SOON))
    client = connect(server.target, token=FileToken(path))
    watching = Watching(client)
    wait_for_watches(server, 1)
    replace(path, token_for(KEY))
    wait_for_watches(server, 2)
    push(server.running, 1)
    wait_until(lambda: watching.seen == [1])
    assert outcome_of(client.list_databases) == "OK"
    watching.close()


def test_a_watch_ends_with_its_token(start: Start, connect: Connect, capfd: pytest.CaptureFixture[str]) -> None:
    server = start()
    watching = Watching(connect(server.target, token=token_for(KEY, lasts_s=SOON)))
    assert "has expired" in watching.wait_for_end().message
    lines = read_lines(capfd.readouterr().err)
    ended = [line for line in lines if line["event"] == "stream ended"]
    assert [(line["caller"], line["outcome"]) for line in ended] == [("signed:ann", "CALLER_LOST")]


def test_control_a_watch_whose_caller_is_not_recognized_again_goes_on(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.serving.edge.known_callers._check", lambda stream: None)
    server = start()
    client = connect(server.target, token=token_for(KEY, lasts_s=SOON))
    watching = Watching(client)
    wait_for_watches(server, 1)
    wait_until(lambda: outcome_of(client.list_databases) == "UNAUTHENTICATED")
    push(server.running, 1)
    wait_until(lambda: watching.seen == [1])
    watching.close()


def test_a_call_is_made_again_with_a_token_that_was_replaced_just_now(
    start: Start, connect: Connect, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The file is looked at rarely, so the client still has the token that is refused.
    monkeypatch.setattr("lakelog.client.connection.tokens._LOOK_EVERY_S", 3600.0)
    server = start()
    path = tmp_path / "token"
    replace(path, token_for(KEY, lasts_s=SOON))
    client = connect(server.target, token=FileToken(path))
    assert outcome_of(client.list_databases) == "OK"
    wait_until(lambda: outcome_of(client.list_databases) == "UNAUTHENTICATED")
    replace(path, token_for(KEY))
    assert outcome_of(client.list_databases) == "OK"


def test_an_issuer_takes_all_tokens_back(
    start: Start, connect: Connect, keys: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    server = start()
    client = connect(server.target, token=token_for(KEY))
    watching = Watching(client)
    wait_for_watches(server, 1)
    # Control: an empty file is no list of keys, and changes nothing.
    replace(keys, b"")
    server.wait_for("token-keys", "refused")
    assert outcome_of(client.list_databases) == "OK"
    replace(keys, b'{"keys": []}')
    server.wait_for("token-keys", "used")
    assert outcome_of(client.list_databases) == "UNAUTHENTICATED"
    assert "publishes an empty list of keys" in watching.wait_for_end().message
    assert server.measure("rotation_empty", setting="token-keys") == 1
    replace(keys, to_jwks(to_jwk(KEY)))
    server.wait_for("token-keys", "used", 2)
    wait_until(lambda: server.measure("rotation_empty", setting="token-keys") == 0)
    assert outcome_of(client.list_databases) == "OK"
    lines = read_lines(capfd.readouterr().err)
    assert [line["setting"] for line in lines if line["event"] == "what is in use lets no one in"] == ["token-keys"]


def test_keys_of_a_file_are_replaced(start: Start, connect: Connect, keys: Path) -> None:
    server = start()
    newer = key_for("ES256", 1)
    old, new = (connect(server.target, token=token) for token in (token_for(KEY), token_for(newer, kid="k2")))
    assert (outcome_of(old.list_databases), outcome_of(new.list_databases)) == ("OK", "UNAUTHENTICATED")
    watching = Watching(old)
    wait_for_watches(server, 1)
    replace(keys, to_jwks(to_jwk(KEY), to_jwk(newer, "k2")))
    server.wait_for("token-keys", "used")
    assert (outcome_of(old.list_databases), outcome_of(new.list_databases)) == ("OK", "OK")
    push(server.running, 1)
    wait_until(lambda: watching.seen == [1])
    assert len(server.running.use_cases.watched) == 1, "its caller is still known, so the watch goes on"
    replace(keys, b"{}")
    server.wait_for("token-keys", "refused")
    assert server.measure("rotation_refused", setting="token-keys") == 1
    assert (outcome_of(old.list_databases), outcome_of(new.list_databases)) == ("OK", "OK")
    replace(keys, to_jwks(to_jwk(newer, "k2")))
    server.wait_for("token-keys", "used", 2)
    assert server.measure("rotation_refused", setting="token-keys") == 0
    assert (outcome_of(old.list_databases), outcome_of(new.list_databases)) == ("UNAUTHENTICATED", "OK")
    assert "names a key" in watching.wait_for_end().message
