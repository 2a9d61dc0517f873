"""Targets, TLS files and tokens: what is taken, and what the refusals say."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.client.connection.target import Target, TlsFiles, parse_target
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import InvalidArgument


@pytest.mark.parametrize(
    ("text", "target", "loopback"),
    [
        ("localhost:7450", Target("localhost", 7450), True),
        ("127.0.0.1:1", Target("127.0.0.1", 1), True),
        ("[::1]:7450", Target("::1", 7450), True),
        ("[2001:db8::7]:65535", Target("2001:db8::7", 65535), False),
        ("metastore.prod.example.com:443", Target("metastore.prod.example.com", 443), False),
        ("10.0.0.7:7450", Target("10.0.0.7", 7450), False),
        ("lake_log-1:7450", Target("lake_log-1", 7450), False),
    ],
)
def test_targets(text: str, target: Target, loopback: bool) -> None:
    assert parse_target(text) == target
    assert str(target) == text
    assert target.is_loopback is loopback


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("http://localhost:7450", ["is a URL", "here perhaps localhost:7450"]),
        ("grpc://ann:secret@db:7450/x", ["is a URL", "here perhaps db:7450"]),
        ("dns:///db:7450", ["is a", "here perhaps db:7450"]),
        ("/var/run/x.sock", ["is a path"]),
        ("localhost", ["without a port", "here perhaps localhost:7450"]),
        ("", ["without a port"]),
        ("::1", ["without a port", "[::1]:7450"]),
        ("[::1]", ["without a port", "[::1]:7450"]),
        ("localhost:", ["valid port"]),
        ("localhost:0", ["valid port"]),
        ("localhost:65536", ["valid port"]),
        ("localhost:7450x", ["valid port"]),
        (":7450", ["valid host"]),
        ("local host:7450", ["valid host"]),
        ("[zz]:7450", ["valid host"]),
        ("a\nb:7450", ["valid host"]),
    ],
)
def test_what_is_no_target(text: str, words: list[str]) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse_target(text)
    assert "localhost:7450" in caught.value.message
    assert "secret" not in caught.value.message
    for word in words:
        assert word in caught.value.message


def test_a_token_leaves_the_machine_only_under_tls() -> None:
    GrpcMetastore("localhost:7450", token="t").close()
    GrpcMetastore("db:7450", token="t", tls=TlsFiles()).close()
    with pytest.raises(InvalidArgument, match="without TLS") as caught:
        GrpcMetastore("db:7450", token="very-secret")
    assert "very-secret" not in caught.value.message


@pytest.mark.parametrize("token", ["", "two words", "ends\n", "é"])
def test_tokens_that_no_header_can_hold(token: str) -> None:
    with pytest.raises(InvalidArgument, match="printable ASCII"):
        GrpcMetastore("localhost:7450", token=token)


def test_the_token_is_not_shown() -> None:
    assert "very-secret" not in repr(GrpcMetastore("localhost:7450", token="very-secret"))


def test_tls_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="only one is given"):
        TlsFiles(certificate="x")
    with pytest.raises(InvalidArgument, match=r"tls\.ca=/nowhere/ca\.pem cannot be read: No such file"):
        TlsFiles(ca="/nowhere/ca.pem").load_credentials()
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(InvalidArgument, match="not in PEM format"):
        TlsFiles(ca=tmp_path / "ca.pem").load_credentials()
