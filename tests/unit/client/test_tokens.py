"""The token of a file: read again when it changes, and never lost while the file is being replaced."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from lakelog.cli.invocation import Invocation
from lakelog.client.connection.reader_target import parse_reader_targets
from lakelog.client.connection.target import check_token, parse_target
from lakelog.client.connection.tokens import FileToken, to_metadata
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.config import read_connect_settings
from lakelog.errors import InvalidArgument
from lakelog.privacy.redaction import blot_out
from lakelog.spark.connection import _read_settings, make_connection


class Times:
    """The monotonic clock of the module under test."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 100.0
        monkeypatch.setattr("lakelog.client.connection.tokens.time.monotonic", lambda: self.now_s)


@pytest.fixture
def times(monkeypatch: pytest.MonkeyPatch) -> Times:
    return Times(monkeypatch)


def replace(path: Path, text: str) -> None:
    """As Kubernetes does: the new content is there all at once."""
    new = path.with_suffix(".new")
    new.write_text(text)
    os.replace(new, path)


def test_a_token_follows_its_file(tmp_path: Path, times: Times) -> None:
    path = tmp_path / "token"
    replace(path, "first-token-1\n")
    token = FileToken(path)
    assert to_metadata(token) == (("authorization", "Bearer first-token-1"),)
    replace(path, "second-token")
    assert token.current() == "first-token-1", "looked at most once a second"
    times.now_s += 1
    assert token.current() == "second-token"
    assert blot_out("x second-token y") == "x *** y"


def test_a_link_above_the_file_is_followed(tmp_path: Path, times: Times) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "token").write_text(f"token-{name}")
    link = tmp_path / "..data"
    link.symlink_to("one")
    (tmp_path / "token").symlink_to("..data/token")
    token = FileToken(tmp_path / "token")
    assert token.current() == "token-one"
    (tmp_path / "..new").symlink_to("two")
    os.replace(tmp_path / "..new", link)
    times.now_s += 1
    assert token.current() == "token-two"


def test_a_known_token_stays_while_the_file_is_of_no_use(tmp_path: Path, times: Times) -> None:
    path = tmp_path / "token"
    token = FileToken(path)
    for _ in range(2):
        with pytest.raises(InvalidArgument, match=rf"token file {path} cannot be read: No such file"):
            token.current()
    replace(path, "first-token-1")
    assert token.current() == "first-token-1"
    for text in ("", "two words", "x" * 8193):
        replace(path, text)
        times.now_s += 1
        assert token.current() == "first-token-1"
        with pytest.raises(InvalidArgument, match="does not hold one token") as caught:
            FileToken(path).current()
        assert "words" not in caught.value.message
    path.unlink()
    times.now_s += 1
    assert token.current() == "first-token-1"
    replace(path, "second-token")
    times.now_s += 1
    assert token.current() == "second-token"


def test_it_pickles_as_its_path(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first-token-1")
    token = FileToken(path)
    token.current()
    data = pickle.dumps(GrpcMetastore("localhost:1", token=token))
    assert b"first-token-1" not in data
    assert pickle.loads(data)._connection.call_metadata == to_metadata(token)
    assert "first-token-1" not in repr(token) + repr(parse_reader_targets("h:1", tls=None, token=None))


def test_a_file_is_not_sent_without_tls_either(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is not sent to other:1 without TLS"):
        check_token(FileToken(tmp_path / "token"), parse_target("other:1"), tls=False)


def test_arguments_and_variables() -> None:
    def read(environment: dict[str, str], **given: str) -> object:
        return read_connect_settings(environment, target="h:1", **given).token  # type: ignore[arg-type]

    file, both = {"LAKELOG_TOKEN_FILE": "/t"}, {"LAKELOG_TOKEN_FILE": "/t", "LAKELOG_TOKEN": "x"}
    assert read(file) == FileToken("/t")
    assert read({}, token_file="/u") == read(both, token_file="/u") == FileToken("/u")
    assert read(both, token="y") == "y"
    assert read({"LAKELOG_TOKEN": "x"}, token_file="/u") == FileToken("/u")
    with pytest.raises(InvalidArgument, match="LAKELOG_TOKEN and LAKELOG_TOKEN_FILE exclude each other"):
        read(both)
    with pytest.raises(InvalidArgument, match="token= and token_file= exclude each other"):
        read({}, token="y", token_file="/u")


def test_the_command_signs_in_with_either(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKELOG_TOKEN", raising=False)
    monkeypatch.setenv("LAKELOG_TOKEN_FILE", "/t")
    assert Invocation().sign_in == FileToken("/t")
    assert Invocation(token="y").sign_in == "y"
    assert Invocation(token="y", token_file="/u").sign_in == FileToken("/u")
    monkeypatch.delenv("LAKELOG_TOKEN_FILE")
    assert Invocation().sign_in is None


def test_spark_hands_on_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("LAKELOG_TOKEN", raising=False)
    monkeypatch.setenv("LAKELOG_TOKEN_FILE", str(tmp_path / "token"))
    (tmp_path / "token").write_text("first-token-1")
    made = make_connection("h:1", tls=None, tls_ca=None, tls_cert=None, tls_key=None, token=None)
    assert made.token_file == str(tmp_path / "token")
    assert _read_settings(made).token == FileToken(tmp_path / "token")
    made = make_connection("h:1", tls=None, tls_ca=None, tls_cert=None, tls_key=None, token="given-token-1")
    found = _read_settings(made).token
    assert isinstance(found, FileToken)
    assert found.current() == "given-token-1"
