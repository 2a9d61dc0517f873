"""The settings of both servers that say who gets in, and what is refused at the start."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

import metastore.config
import reader.config
from lakelog.serving.access_settings import AccessSettings
from lakelog.serving.signed_tokens.rules import KeySource, TokenRules

DEV = ["serve", "--insecure-dev"]
SIGNED = ["--token-issuer", "https://i.test", "--token-audience", "lakelog"]


def of_metastore(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> AccessSettings:
    database = {"LAKELOG_DATABASE_URL": "postgresql://h/d", "LAKELOG_WAREHOUSE": "/w"}
    config = metastore.config.parse_command([*arguments], {**database, **(environment or {})}).config
    assert isinstance(config, metastore.config.ServeConfig)
    return config.access


def of_reader(arguments: Sequence[str], environment: Mapping[str, str] | None = None) -> AccessSettings:
    config = reader.config.parse_config([*arguments], environment or {})
    assert isinstance(config, reader.config.ServeConfig)
    return config.access


Parse = Callable[..., AccessSettings]
both = pytest.mark.parametrize("parse", [of_metastore, of_reader])


@both
def test_signed_tokens(parse: Parse, tmp_path: Path) -> None:
    access = parse([*DEV, "--token-keys", "/keys.json", *SIGNED])
    assert not access.open
    assert access.signed is not None
    assert access.signed.rules == TokenRules("https://i.test", "lakelog", "sub", None)
    assert access.signed.keys == KeySource(file=Path("/keys.json"))
    access = parse(
        DEV,
        {
            "LAKELOG_SERVER_TOKEN_KEYS": "https://kubernetes.default.svc/openid/v1/jwks",
            "LAKELOG_SERVER_TOKEN_ISSUER": "i",
            "LAKELOG_SERVER_TOKEN_AUDIENCE": "a",
            "LAKELOG_SERVER_TOKEN_NAME_CLAIM": "email",
            "LAKELOG_SERVER_TOKEN_ROLE_CLAIM": "role",
            "LAKELOG_SERVER_TOKEN_KEYS_CA": "/ca",
            "LAKELOG_SERVER_TOKEN_KEYS_TOKEN_FILE": "/token",
        },
    )
    assert access.signed is not None
    assert access.signed.rules == TokenRules("i", "a", "email", "role")
    assert access.signed.keys == KeySource(
        url="https://kubernetes.default.svc/openid/v1/jwks", ca=Path("/ca"), token_file=Path("/token")
    )


@both
def test_a_certificate_is_an_admins_only_if_it_is_the_one_way_in(parse: Parse, tmp_path: Path) -> None:
    for name in ("cert", "key", "ca"):
        (tmp_path / name).write_text("-----BEGIN X-----")
    tls = [f"--tls-{name}={tmp_path / file}" for name, file in (("cert", "cert"), ("key", "key"), ("client-ca", "ca"))]
    assert parse(["serve", *tls]).any_certificate
    assert not parse(["serve", *tls, "--token-keys", "/k", *SIGNED]).any_certificate
    (tmp_path / "tokens").write_text("ann reader cert\nbob:x writer signed\n")
    file = f"--token-file={tmp_path / 'tokens'}"
    assert not parse(["serve", *tls, file, "--token-keys", "/k", *SIGNED]).any_certificate


@both
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--token-keys", "/k"], "--token-issuer is missing"),
        (["--token-keys", "/k", "--token-issuer", "i"], "--token-audience is missing"),
        (["--token-issuer", "i"], "--token-issuer is for signed tokens, which need --token-keys"),
        (["--token-role-claim", "r"], "--token-role-claim is for signed tokens"),
        (["--token-keys", "http://idp.test/keys", *SIGNED], "would be read without TLS"),
        (["--token-keys", "ftp://idp.test/keys", *SIGNED], "neither a file nor an https:// URL"),
        (["--token-keys", "file:///etc/keys", *SIGNED], "neither a file nor an https:// URL"),
        (["--token-keys", "https://ann:sekret@idp.test/keys", *SIGNED], "has a user or password"),
        (["--token-keys", "https://[", *SIGNED], "neither a file nor an https:// URL"),
        (["--token-keys", "/k", *SIGNED, "--token-keys-ca", "/c"], "are for a URL"),
        (["--token-keys", "/k", *SIGNED, "--token-keys-token-file", "/c"], "are for a URL"),
    ],
)
def test_what_cannot_be(parse: Parse, arguments: list[str], words: str) -> None:
    with pytest.raises(Exception, match=words) as caught:
        parse([*DEV, *arguments])
    assert type(caught.value).__name__ in ("InvalidArgument", "StartupFailure")
    assert "sekret" not in str(caught.value)


@both
def test_http_is_for_this_machine(parse: Parse) -> None:
    for host in ("127.0.0.1:1", "localhost:1", "[::1]:1"):
        access = parse([*DEV, "--token-keys", f"http://{host}/keys", *SIGNED])
        assert access.signed is not None


@both
def test_entries_for_signed_tokens_need_keys(parse: Parse, tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    file.write_text("system:serviceaccount:a:b writer signed\n")
    with pytest.raises(Exception, match="has entries for signed tokens, which need --token-keys"):
        parse([*DEV, "--token-file", str(file)])
    assert parse([*DEV, "--token-file", str(file), "--token-keys", "/k", *SIGNED]).token_file == file


@both
def test_the_clients_own_token_file_opens_no_server(parse: Parse, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("x" * 40)
    environment: Any = {"LAKELOG_TOKEN_FILE": str(tmp_path / "token")}
    assert parse(DEV, environment).open
    (tmp_path / "tokens").write_text(f"ann reader {'t' * 20}")
    environment["LAKELOG_SERVER_TOKEN_FILE"] = str(tmp_path / "tokens")
    assert not parse(DEV, environment).open
