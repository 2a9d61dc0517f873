"""A metastore with TLS and tokens, and a console in front of it, each a process of its own; and a caller's requests."""

from __future__ import annotations

import http.client
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import urlencode

import psutil

from bench.measure import WrongAnswerError
from bench.pages.data import GRANTED, warehouse_of
from dev.kube.certificates import make_certificate
from lakelog.embedded.ports import free_port
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.embedded.processes import ManagedProcess
from lakelog.embedded.services import is_listening, service_command

ROLES: Final = {"root": "admin", "viewer": "reader", GRANTED: "user", "console": "writer"}
_HOST: Final = "127.0.0.1"
_PLAIN: Final = ("--insecure-dev", "--actions")


@dataclass(frozen=True)
class Served:
    """A metastore that runs.

    Args:
        folder: Of its data.
        target: Its address.
        certificate: What its clients trust.
        metastore: Its process.
        postgres: That of its database.
    """

    folder: Path
    target: str
    certificate: Path
    metastore: psutil.Process
    postgres: psutil.Process


def token_of(name: str) -> str:
    return f"{name}-token-0123456789"


@contextmanager
def serving(folder: Path) -> Iterator[Served]:
    """A metastore for the data in a folder, without a compactor: so its jobs stay."""
    certificate, key = make_certificate(folder / "tls", _HOST)
    tokens = folder / "tokens"
    tokens.write_text("".join(f"{name} {role} {token_of(name)}\n" for name, role in ROLES.items()))
    target = f"{_HOST}:{free_port()}"
    arguments = ["serve", "--warehouse", warehouse_of(folder), "--listen", target, "--token-file", str(tokens)]
    with EmbeddedPostgres(folder / "postgres") as postgres:
        metastore = ManagedProcess(
            "metastore",
            service_command("metastore", [*arguments, "--tls-cert", str(certificate), "--tls-key", str(key)]),
            log=folder / "metastore.log",
            is_ready=lambda: is_listening(target),
            environment={**os.environ, "LAKELOG_DATABASE_URL": postgres.database_url},
        )
        metastore.start()
        try:
            lock = next((folder / "postgres").rglob("postmaster.pid"))
            server = psutil.Process(int(lock.read_text(encoding="utf-8").split()[0]))
            yield Served(folder, target, certificate, psutil.Process(metastore.pid), server)
        finally:
            metastore.stop()


@dataclass(frozen=True)
class Console:
    """A console that runs."""

    port: int
    process: psutil.Process


@contextmanager
def running_console(served: Served, module: str = "console") -> Iterator[Console]:
    """A console that offers actions to those who may do them."""
    port = free_port()
    address = f"{_HOST}:{port}"
    process = ManagedProcess(
        "console",
        [sys.executable, "-m", module, "serve", "--target", served.target, "--listen", address, *_PLAIN],
        log=served.folder / "console.log",
        is_ready=lambda: is_listening(address),
        environment={**os.environ, "LAKELOG_TLS_CA": str(served.certificate), "LAKELOG_TOKEN": token_of("console")},
    )
    process.start()
    try:
        yield Console(port, psutil.Process(process.pid))
    finally:
        process.stop()


class Browser:
    """A caller that has signed in, over one connection, as a browser has it."""

    def __init__(self, console: Console, name: str) -> None:
        self._connection = http.client.HTTPConnection(_HOST, console.port, timeout=60)
        self._headers = {"Host": f"{_HOST}:{console.port}", "Accept-Encoding": "gzip"}
        form = {"Content-Type": "application/x-www-form-urlencoded", "Origin": f"http://{_HOST}:{console.port}"}
        self._connection.request("POST", "/sign-in", urlencode({"token": token_of(name)}), {**self._headers, **form})
        response = self._connection.getresponse()
        response.read()
        cookie = (response.getheader("Set-Cookie") or "").partition(";")[0]
        if response.status != 303 or not cookie:
            raise WrongAnswerError(f"{name} could not sign in: {response.status}")
        self._headers["Cookie"] = cookie

    def get(self, address: str) -> bytes:
        """A page, as it is sent."""
        self._connection.request("GET", address, headers=self._headers)
        response = self._connection.getresponse()
        body = response.read()
        if response.status != 200:
            raise WrongAnswerError(f"{address} answered {response.status}")
        return body

    def open(self, address: str) -> http.client.HTTPResponse:
        """The stream of an open page; nothing else can be requested then."""
        self._connection.request("GET", f"/live?{urlencode({'page': address})}", headers=self._headers)
        return self._connection.getresponse()

    def close(self) -> None:
        """Closes the window; what reads a stream then sees its end."""
        if self._connection.sock is not None:
            self._connection.sock.shutdown(socket.SHUT_RDWR)
