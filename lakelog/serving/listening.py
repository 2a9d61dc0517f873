"""Where a service listens: its address and its TLS files."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

import grpc

from lakelog.errors import InvalidArgument


@dataclass(frozen=True)
class ServerTls:
    """PEM files of the server.

    Args:
        certificate: The server's certificate with its chain.
        key: Its private key.
        client_ca: Clients must show a certificate signed by one of these; None: they need none.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None

    def load_credentials(self) -> grpc.ServerCredentials:
        """Reads the files.

        Raises:
            InvalidArgument: A file cannot be read or is not PEM.
        """
        pair = (_read_pem(self.key, "tls-key"), _read_pem(self.certificate, "tls-cert"))
        if self.client_ca is None:
            return grpc.ssl_server_credentials([pair])
        client_ca = _read_pem(self.client_ca, "tls-client-ca")
        return grpc.ssl_server_credentials([pair], root_certificates=client_ca, require_client_auth=True)


def check_free(host: str, port: int) -> None:
    """Checks that an address can be listened on.

    Raises:
        InvalidArgument: It is taken, or is not this machine's.
    """
    # gRPC says neither why an address cannot be used nor that quietly; the socket tells.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        # Not strerror, to which create_server adds the address once more.
        raise cannot_listen(host, port, os.strerror(error.errno) if error.errno else str(error)) from error


def cannot_listen(host: str, port: int, reason: str) -> InvalidArgument:
    """What is said of an address that cannot be used."""
    return InvalidArgument(
        f"Cannot listen on {host}:{port}: {reason}. Stop what listens there, or choose another address with --listen.",
        metadata={"field": "listen"},
    )


def _read_pem(path: Path, field_name: str) -> bytes:
    try:
        pem = path.read_bytes()
    except OSError as error:
        raise InvalidArgument(
            f"The file --{field_name} {path} cannot be read: {error.strerror}.", metadata={"field": field_name}
        ) from error
    if b"-----BEGIN " not in pem:
        raise InvalidArgument(
            f"The file --{field_name} {path} is not in PEM format (no line begins with -----BEGIN).",
            metadata={"field": field_name},
        )
    return pem
