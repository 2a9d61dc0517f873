"""What a service that listens is told of it: where, with which TLS files, and who may call."""

from __future__ import annotations

from pathlib import Path

from lakelog.client.connection.target import Target, parse_target
from lakelog.errors import InvalidArgument
from lakelog.serving.access import Access, parse_token_file
from lakelog.serving.arguments import Values, refusal
from lakelog.serving.listening import ServerTls


def read_listen(values: Values, insecure: bool, default_port: int) -> Target:
    """Where the server listens, of `listen`; port 0 for a free one.

    Args:
        values: What was given.
        insecure: Plaintext, which is for loopback only.
        default_port: Of 127.0.0.1, where nothing is given.

    Raises:
        InvalidArgument: It is no address, or not one for plaintext.
    """
    text = values.text("listen") or f"127.0.0.1:{default_port}"
    free_port = text.endswith(":0")
    try:
        target = parse_target(text[:-1] + "1" if free_port else text)
    except InvalidArgument as error:
        raise refusal(f"--listen: {error.message}") from error
    if insecure and not target.is_loopback:
        raise refusal(
            f"--insecure-dev listens on loopback only, not on {target.host}: use 127.0.0.1, or give --tls-cert and "
            "--tls-key instead."
        )
    return Target(target.host, 0) if free_port else target


def read_tls(values: Values, insecure: bool) -> ServerTls | None:
    """The server's files, of `tls_cert`, `tls_key` and `tls_client_ca`; None only where it is insecure.

    Raises:
        InvalidArgument: They are missing, or cannot be used.
    """
    certificate, key, client_ca = (values.text(name) for name in ("tls_cert", "tls_key", "tls_client_ca"))
    if insecure:
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


def read_access(values: Values, insecure: bool, tls: ServerTls | None, *, certificate_use: str) -> Access:
    """How callers are recognized, of `token_file` and the files of TLS.

    Args:
        values: What was given.
        insecure: Everyone may call where there is no token file.
        tls: As `read_tls` returns it.
        certificate_use: What --tls-client-ca is for, as a message says it.

    Raises:
        InvalidArgument: Nobody could be recognized, or the token file cannot be used.
    """
    path = values.text("token_file")
    if path is None:
        if insecure:
            return Access(open=True)
        if tls is not None and tls.client_ca is not None:
            return Access(any_certificate=True)
        raise refusal(f"Nobody could be recognized: give --token-file, or --tls-client-ca for {certificate_use}.")
    try:
        tokens, certificates = parse_token_file(Path(path).read_text(encoding="utf-8"), path)
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise refusal(f"The token file {path} cannot be read: {reason} (--token-file).") from error
    if certificates and (tls is None or tls.client_ca is None):
        raise refusal(f"The token file {path} has entries for certificates, which need --tls-client-ca.")
    return Access(tokens=tokens, certificates=certificates)
