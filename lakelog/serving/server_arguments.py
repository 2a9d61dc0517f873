"""Settings of a service that listens: the address, the TLS files, and the callers that it serves."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from lakelog.client.connection.target import Target, parse_target
from lakelog.errors import InvalidArgument
from lakelog.serving.access import Access, parse_token_file
from lakelog.serving.arguments import Argument, Values, refusal
from lakelog.serving.listening import ServerTls
from lakelog.serving.settings import setting, switch

METRICS_PORT_HELP: Final = (
    "Port of /metrics, /healthz and /livez over HTTP, on the host of --listen; default: none; 0: a free one."
)
HEALTH_PORT_HELP: Final = (
    "Port of gRPC health alone, in plaintext, for probes that know no TLS, as those of Kubernetes; on the host of "
    "--listen; default: none; 0: a free one."
)


def listen_setting(variable: str, default_port: int) -> Any:
    """Where the server listens; port 0 for a free one."""
    what = f"host:port of the gRPC server; default 127.0.0.1:{default_port}; port 0: a free one."
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
        lambda values: _read_access(values, certificate_use), Argument("token-file", "LAKELOG_TOKEN_FILE", token_file)
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


def _read_access(values: Values, certificate_use: str) -> Access:
    path, client_ca = values.text("token-file"), values.text("tls-client-ca")
    if path is None:
        if values.switch("insecure-dev"):
            return Access(open=True)
        if client_ca is not None:
            return Access(any_certificate=True)
        raise refusal(f"No caller could be recognized: give --token-file, or --tls-client-ca for {certificate_use}.")
    try:
        tokens, certificates = parse_token_file(Path(path).read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        # The user may have given the token itself; an absolute path is no token.
        shown = f"token file {path}" if path.startswith("/") else "token file"
        raise refusal(f"The {shown} cannot be read: {reason} (--token-file).") from None
    if certificates and client_ca is None:
        raise refusal(f"The token file {path} has entries for certificates, which need --tls-client-ca.")
    return Access(tokens=tokens, certificates=certificates)
