"""Requests to a token service over real HTTP: their form, and what becomes of wrong answers."""

from __future__ import annotations

import contextlib
import datetime as dt
import http.server
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from lakelog.errors import InvalidArgument, LakelogError, PermissionDenied, Unavailable
from metastore.credentials import sending, token_service
from metastore.credentials.identity import WebIdentity, read_identity
from metastore.credentials.opening import open_vending
from metastore.credentials.policy import make_policy
from metastore.credentials.signing import SigningKeys, sign_request
from metastore.credentials.token_service import TokenService, check_endpoint, to_session_name

ROLE = "arn:aws:iam::123456789012:role/tables"
POLICY = make_policy("aws", "s3://lake/w/t/", writes=False)
OWN = SigningKeys("own-id", "own-secret-0123456789", "own-token-0123456789")
ANSWER = """<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ASIA1</AccessKeyId>
<SecretAccessKey>vended-secret/+=</SecretAccessKey><SessionToken>vended&amp;token</SessionToken>
<Expiration>2026-01-01T01:00:00Z</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""


class FakeService:
    """A web server that answers as a test says, and remembers what it got."""

    def __init__(self) -> None:
        self.status, self.answer, self.pause_s, self.location = 200, ANSWER, 0.0, ""
        # Of "headers" or "body" a byte comes now and then, without an end.
        self.trickles = ""
        self.got: list[tuple[dict[str, str], bytes]] = []
        self.is_closed, self.cut = threading.Event(), 0
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                owner.got.append(({name.lower(): value for name, value in self.headers.items()}, body))
                time.sleep(owner.pause_s)
                if owner.trickles:
                    self._trickle()
                    return
                self.send_response(owner.status)
                if owner.location:
                    self.send_header("Location", owner.location)
                self.end_headers()
                self.wfile.write(owner.answer.encode())

            def _trickle(self) -> None:
                self.wfile.write(b"HTTP/1.1 200 OK\r\n" + (b"\r\n" if owner.trickles == "body" else b"X: "))
                with contextlib.suppress(OSError):
                    while not owner.is_closed.wait(0.02):
                        self.wfile.write(b"<")
                owner.cut += 1

            def log_message(self, *_: Any) -> None:
                """Writes nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        self.is_closed.set()
        self._server.shutdown()
        self._server.server_close()

    @property
    def form(self) -> dict[str, str]:
        return {name: value for name, (value,) in parse_qs(self.got[-1][1].decode()).items()}


@pytest.fixture
def fake() -> Iterator[FakeService]:
    made = FakeService()
    yield made
    made.close()


def open_service(fake: FakeService, identity: SigningKeys | WebIdentity = OWN) -> TokenService:
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    return TokenService(fake.url, "eu-west-1", ROLE, 900, lambda: identity, now=lambda: now)


def test_a_request_is_signed_and_names_role_policy_and_time(fake: FakeService) -> None:
    found = open_service(fake).request_keys("team-a:importer/x", POLICY)
    assert found.keys == SigningKeys("ASIA1", "vended-secret/+=", "vended&token")
    assert found.expires_at_ms == 1_767_229_200_000
    assert fake.form == {
        "Action": "AssumeRole",
        "Version": "2011-06-15",
        "RoleArn": ROLE,
        "RoleSessionName": "lakelog-team-a-importer-x",
        "DurationSeconds": "900",
        "Policy": POLICY,
    }
    headers, body = fake.got[-1]
    expected = sign_request(
        OWN,
        host=fake.url.removeprefix("http://"),
        headers={"Content-Type": headers["content-type"]},
        body=body,
        region="eu-west-1",
        service="sts",
        now=dt.datetime(2026, 1, 1, tzinfo=dt.UTC),
    )
    assert headers["authorization"] == expected["authorization"]
    assert headers["x-amz-security-token"] == OWN.session_token
    assert "own-secret" not in f"{fake.got}"


def test_a_service_accounts_token_stands_for_the_signature(fake: FakeService) -> None:
    open_service(fake, WebIdentity("aaaa.bbbb.cccc")).request_keys("x", POLICY)
    headers, _ = fake.got[-1]
    assert "authorization" not in headers
    assert fake.form["Action"] == "AssumeRoleWithWebIdentity"
    assert fake.form["WebIdentityToken"] == "aaaa.bbbb.cccc"
    assert json.loads(fake.form["Policy"]) == json.loads(POLICY)


@pytest.mark.parametrize(
    ("status", "answer", "kind", "said"),
    [
        (
            403,
            "<Error><Code>AccessDenied</Code><Message>own-secret</Message></Error>",
            PermissionDenied,
            "AccessDenied",
        ),
        (400, "<Error><Code>MalformedPolicyDocument</Code></Error>", PermissionDenied, "MalformedPolicyDocument"),
        (400, "own-secret", PermissionDenied, "status 400"),
        (400, "<Error><Code>Throttling</Code></Error>", Unavailable, "Throttling"),
        (503, "own-secret", Unavailable, "status 503"),
        (200, "own-secret", Unavailable, "no AccessKeyId"),
        (200, ANSWER.replace("2026-01-01T01:00:00Z", "soon"), Unavailable, "no time of expiration"),
        (200, "x" * 70_000, Unavailable, "more than 65536 bytes"),
        (302, "", PermissionDenied, "status 302"),
    ],
)
def test_a_wrong_answer_is_an_error_that_repeats_only_its_code(
    fake: FakeService, status: int, answer: str, kind: type[LakelogError], said: str
) -> None:
    fake.status, fake.answer = status, answer
    if status == 302:
        fake.location = f"{fake.url}/elsewhere"
    with pytest.raises(kind) as caught:
        open_service(fake).request_keys("x", POLICY)
    assert said in caught.value.message
    assert caught.value.reason in ("CREDENTIALS_REFUSED", "CREDENTIALS_UNAVAILABLE")
    assert "own-secret" not in f"{caught.value.message} {caught.value.metadata}"
    # A redirect is not followed, since the request holds a signature or a token.
    assert len(fake.got) == 1


def test_a_service_that_does_not_answer_is_unavailable(fake: FakeService, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_service, "_WAIT_S", 0.05)
    fake.pause_s = 1.0
    with pytest.raises(Unavailable, match="does not answer within"):
        open_service(fake).request_keys("x", POLICY)
    fake.close()
    with pytest.raises(Unavailable, match="Connection refused"):
        open_service(fake).request_keys("x", POLICY)


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_service_that_sends_a_byte_now_and_then_is_cut_off(
    fake: FakeService, monkeypatch: pytest.MonkeyPatch, part: str
) -> None:
    # The control: one that only takes long sends its keys.
    monkeypatch.setattr(token_service, "_WAIT_S", 0.4)
    fake.pause_s = 0.01
    assert open_service(fake).request_keys("x", POLICY).keys.access_key_id == "ASIA1"
    fake.trickles = part
    with pytest.raises(Unavailable, match="does not answer within"):
        open_service(fake).request_keys("x", POLICY)
    # The connection is cut, so no thread of the metastore stays.
    while not fake.cut or any(not each.daemon for each in threading.enumerate() if each.name == "lakelog-store"):
        time.sleep(0.01)
    while sending._CALLS.left:
        time.sleep(0.01)


@pytest.mark.parametrize(
    ("endpoint", "said"),
    [
        ("sts.amazonaws.com", "is not http://host:port"),
        ("https://key:secret@sts", "is not http://host:port"),
        ("https://sts/path", "is not http://host:port"),
        ("http://sts:99999", "is not http://host:port"),
        ("http://s3.internal:8333", "in plaintext over the network: write https://"),
    ],
)
def test_endpoints_that_are_refused(endpoint: str, said: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_endpoint(endpoint)
    assert said in caught.value.message
    assert "secret" not in caught.value.message


def test_names_of_sessions_have_a_form_that_stores_take() -> None:
    assert to_session_name("a/b|c:d~e@f") == "lakelog-a-b-c-d-e@f"
    assert len(to_session_name("x" * 256)) == 64
    assert to_session_name("") == "lakelog-"


def test_the_identity_is_keys_or_the_file_of_a_token(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("aaaa.bbbb.cccc\n")
    of_file = {"AWS_WEB_IDENTITY_TOKEN_FILE": str(path)}
    assert read_identity(of_file) == WebIdentity("aaaa.bbbb.cccc")
    path.write_text("dddd.eeee.ffff\n")
    assert read_identity(of_file) == WebIdentity("dddd.eeee.ffff")
    keys = {"AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s", "LAKELOG_S3_SESSION_TOKEN": "t"}
    assert read_identity(of_file | keys) == SigningKeys("i", "s", "t")
    path.write_text("two tokens")
    for environment, said in (
        ({}, "needs an identity of its own"),
        (of_file, "does not hold one token"),
        ({"AWS_WEB_IDENTITY_TOKEN_FILE": str(tmp_path / "none")}, "No such file"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            read_identity(environment)


def test_settings_that_do_not_fit_are_refused() -> None:
    def opened(role: str | None, endpoint: str | None, warehouse: str, **environment: str) -> str:
        vend = open_vending(role, endpoint, 900, warehouse, environment)
        assert vend is not None
        assert isinstance(vend.source, TokenService)
        return vend.source.endpoint

    assert opened(ROLE, None, "s3://lake/w", AWS_REGION="eu-west-1") == "https://sts.eu-west-1.amazonaws.com"
    china = ROLE.replace("aws", "aws-cn")
    assert opened(china, None, "s3://lake/w", AWS_REGION="cn-north-1") == "https://sts.cn-north-1.amazonaws.com.cn"
    assert opened(ROLE, None, "s3://lake/w", AWS_ENDPOINT_URL_S3="https://s3.internal") == "https://s3.internal"
    assert opened(ROLE, "https://sts.internal", "s3://lake/w", AWS_ENDPOINT_URL="https://x") == "https://sts.internal"
    assert open_vending(None, None, 900, "file:///w", {}) is None
    for role, endpoint, warehouse, said in (
        (None, "https://sts", "s3://lake/w", "without --vend-role"),
        ("tables", None, "s3://lake/w", "is not the ARN of a role"),
        (ROLE, None, "file:///w", "needs a warehouse in S3"),
        (ROLE, None, "s3://lake/a*b", "have a meaning in policies"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            open_vending(role, endpoint, 900, warehouse, {})
