"""Where a service listens: its address, its TLS files, and the line that announces it."""

from __future__ import annotations

import os
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc

from lakelog.client.connection.target import Target
from lakelog.errors import InvalidArgument
from lakelog.serving.http_endpoint import HttpEndpoint


class TlsCredentials(Protocol):
    """The TLS of a server."""

    def load_credentials(self) -> grpc.ServerCredentials:
        """What gRPC needs to accept connections.

        Raises:
            InvalidArgument: A file cannot be used.
        """
        ...


@dataclass(frozen=True)
class ServerTls:
    """PEM files of the server.

    Args:
        certificate: The server's certificate with its chain.
        key: Its private key.
        client_ca: Client certificates must be signed by one of these; None: clients need no certificate.
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


def listen(
    server: grpc.aio.Server, host: str, port: int, tls: TlsCredentials | None, argument: str = "--listen"
) -> int:
    """Binds a server to its port; it serves once it is started. Returns the port.

    Args:
        server: A server that is not started yet.
        host: An address of this machine.
        port: The port; 0 for a free one.
        tls: Its TLS; None for plaintext.
        argument: Names the address, for a message.

    Raises:
        InvalidArgument: The port is taken or the address is not this machine's, or a TLS file cannot be used.
    """
    _check_free(host, port, argument)
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        if tls is None:
            return int(server.add_insecure_port(address))
        return int(server.add_secure_port(address, tls.load_credentials()))
    except RuntimeError as error:
        raise _cannot_listen(host, port, "gRPC cannot use it", argument) from error


def say_ready(
    service: str, address: Target, tls: TlsCredentials | None, http: HttpEndpoint | None, but: str = ""
) -> None:
    """Writes a line to the standard output; the program that started the service waits for it.

    Args:
        service: Its name.
        address: Where it listens, with the actual port.
        tls: The TLS files, as in `listen`.
        http: The service's HTTP pages; None: it has none.
        but: What still keeps it from being useful; empty: nothing.
    """
    metrics = "" if http is None else f", metrics on http://{address.host}:{http.port}/metrics"
    security = "plaintext, development only" if tls is None else "TLS"
    lack = f"; {but}" if but else ""
    sys.stdout.write(f"{service} ready on {address} ({security}{lack}){metrics}\n")
    sys.stdout.flush()


def _check_free(host: str, port: int, argument: str) -> None:
    # gRPC does not say why it cannot use an address, and prints to standard error; a plain socket gives the reason.
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        # Not error.strerror: create_server appends the address to it once more.
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise _cannot_listen(host, port, reason, argument) from error


def _cannot_listen(host: str, port: int, reason: str, argument: str) -> InvalidArgument:
    return InvalidArgument(
        f"Cannot listen on {host}:{port}: {reason}. Stop what listens there, or choose another address with "
        f"{argument}.",
        metadata={"field": argument.removeprefix("--")},
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
