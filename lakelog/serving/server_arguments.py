"""Settings of a service that listens: the address, the TLS files, and the callers that it serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from lakelog.client.connection.target import Target, parse_target
from lakelog.errors import InvalidArgument
from lakelog.serving.access_settings import AccessSettings, SignedSettings
from lakelog.serving.arguments import Argument, Values, refusal
from lakelog.serving.listening import ServerTls
from lakelog.serving.settings import setting, switch
from lakelog.serving.signed_tokens.rules import KeySource, TokenRules

METRICS_PORT_HELP: Final = (
    "Port of /metrics, /healthz and /livez over HTTP, on the host of --listen; default: none; 0: a free one."
)
HEALTH_PORT_HELP: Final = (
    "Port of gRPC health alone, in plaintext, for probes that know no TLS, as those of Kubernetes; on the host of "
    "--listen; default: none; 0: a free one."
)


def listen_setting(variable: str, default_port: int, what: str = "the gRPC server") -> Any:
    """Where the server listens; port 0 for a free one."""
    what = f"host:port of {what}; default 127.0.0.1:{default_port}; port 0: a free one."
    return setting(lambda values: _read_listen(values, default_port), Argument("listen", variable, what))


def tls_setting(client_ca: str) -> Any:
    """The server's files, None only if it is insecure; `client_ca` explains --tls-client-ca."""
    return setting(
        _read_tls,
        Argument("tls-cert", "LAKELOG_SERVER_TLS_CERT", "The server's certificate with its chain, PEM."),
        Argument("tls-key", "LAKELOG_SERVER_TLS_KEY", "The private key of --tls-cert, PEM."),
        Argument("tls-client-ca", "LAKELOG_SERVER_TLS_CLIENT_CA", client_ca),
    )


def access_setting(token_file: str, *, certificate_use: str) -> Any:
    """How the service identifies callers.

    Args:
        token_file: The purpose of --token-file.
        certificate_use: The purpose of --tls-client-ca, for a message.
    """
    return setting(
        lambda values: _read_access(values, certificate_use),
        Argument("token-file", "LAKELOG_SERVER_TOKEN_FILE", token_file),
        Argument(
            "token-keys",
            "LAKELOG_SERVER_TOKEN_KEYS",
            "The public keys of the issuer of signed tokens: a JWKS or PEM file, or the https:// URL of a JWKS.",
        ),
        Argument("token-issuer", "LAKELOG_SERVER_TOKEN_ISSUER", "The issuer (iss) of signed tokens, exactly."),
        Argument("token-audience", "LAKELOG_SERVER_TOKEN_AUDIENCE", "The audience (aud) that signed tokens must have."),
        Argument(
            "token-name-claim",
            "LAKELOG_SERVER_TOKEN_NAME_CLAIM",
            "The claim of signed tokens with the caller's name, which owns what the caller opens; default sub.",
        ),
        Argument(
            "token-role-claim",
            "LAKELOG_SERVER_TOKEN_ROLE_CLAIM",
            "The claim of signed tokens with the caller's role; default: none, and only --token-file gives roles.",
        ),
        Argument(
            "token-keys-ca",
            "LAKELOG_SERVER_TOKEN_KEYS_CA",
            "Certificates that must have signed that of the URL of --token-keys, PEM; default: the system's.",
        ),
        Argument(
            "token-keys-token-file",
            "LAKELOG_SERVER_TOKEN_KEYS_TOKEN_FILE",
            "A file with a token to send to the URL of --token-keys.",
        ),
    )


def insecure_setting(allowed: str) -> Any:
    """Plaintext on loopback; `allowed` says what callers may then do without a token file."""
    what = (
        "For development: plaintext, on a loopback address only; without --token-file everyone on this machine may "
        f"{allowed}."
    )
    return switch("insecure-dev", what, "LAKELOG_INSECURE_DEV")


def _read_listen(values: Values, default_port: int) -> Target:
    text = values.text("listen") or f"127.0.0.1:{default_port}"
    free_port = text.endswith(":0")
    try:
        target = parse_target(text[:-1] + "1" if free_port else text)
    except InvalidArgument as error:
        raise refusal(f"--listen: {error.message}") from error
    if values.switch("insecure-dev") and not target.is_loopback:
        raise refusal(
            f"--insecure-dev listens on loopback only, not on {target.host}: use 127.0.0.1, or give --tls-cert and "
            "--tls-key instead."
        )
    return Target(target.host, 0) if free_port else target


def _read_tls(values: Values) -> ServerTls | None:
    certificate, key, client_ca = (values.text(name) for name in ("tls-cert", "tls-key", "tls-client-ca"))
    if values.switch("insecure-dev"):
        if certificate or key or client_ca:
            raise refusal("--insecure-dev and TLS files exclude each other: leave one of them out.")
        return None
    if not certificate or not key:
        raise refusal(
            "TLS is required: give --tls-cert and --tls-key, or --insecure-dev for plaintext on this machine only."
        )
    tls = ServerTls(Path(certificate), Path(key), None if client_ca is None else Path(client_ca))
    tls.load_credentials()
    return tls


def _read_access(values: Values, certificate_use: str) -> AccessSettings:
    path, client_ca = values.text("token-file"), values.text("tls-client-ca")
    signed = _read_signed(values)
    settings = AccessSettings(
        open=path is None and signed is None and values.switch("insecure-dev"),
        token_file=None if path is None else Path(path),
        takes_certificates=client_ca is not None,
        # Beside signed tokens a certificate has no role by itself: it may come from an authority of all services.
        any_certificate=path is None and signed is None and client_ca is not None,
        signed=signed,
    )
    if not settings.open and path is None and client_ca is None and signed is None:
        raise refusal(
            "No caller could be recognized: give --token-file or --token-keys, or --tls-client-ca for "
            f"{certificate_use}."
        )
    settings.load_token_file()
    return settings


def _read_signed(values: Values) -> SignedSettings | None:
    where = values.text("token-keys")
    given = {name: values.text(f"token-{name}") for name in _OF_SIGNED}
    if where is None:
        lonely = next((name for name, text in given.items() if text is not None), None)
        if lonely is not None:
            raise refusal(f"--token-{lonely} is for signed tokens, which need --token-keys: give it too.")
        return None
    for name in ("issuer", "audience"):
        if given[name] is None:
            raise refusal(
                f"--token-{name} is missing: with --token-keys, any token of any {name} would be taken. Give the "
                f"{name} of the tokens for this service."
            )
    rules = TokenRules(
        issuer=given["issuer"] or "",
        audience=given["audience"] or "",
        name_claim=given["name-claim"] or "sub",
        role_claim=given["role-claim"],
    )
    return SignedSettings(rules, _read_source(where, given["keys-ca"], given["keys-token-file"]))


_OF_SIGNED: Final = ("issuer", "audience", "name-claim", "role-claim", "keys-ca", "keys-token-file")


def _read_source(where: str, ca: str | None, token_file: str | None) -> KeySource:
    if "://" not in where:
        if ca is not None or token_file is not None:
            raise refusal("--token-keys-ca and --token-keys-token-file are for a URL of --token-keys, not for a file.")
        return KeySource(file=Path(where))
    try:
        parts = urlsplit(where)
        host, at = parts.hostname, parts.username is not None or parts.password is not None
    except ValueError:
        host, at = None, False
    if at:
        raise refusal(
            "The URL of --token-keys has a user or password: give a token by --token-keys-token-file instead."
        )
    if host is None or parts.scheme not in ("http", "https"):
        raise refusal(f"--token-keys={where:.200} is neither a file nor an https:// URL.")
    if parts.scheme == "http" and not Target(host, 0).is_loopback:
        raise refusal(
            f"--token-keys={where:.200} would be read without TLS, so that anyone on the way could forge tokens."
        )
    return KeySource(
        url=where, ca=None if ca is None else Path(ca), token_file=None if token_file is None else Path(token_file)
    )
