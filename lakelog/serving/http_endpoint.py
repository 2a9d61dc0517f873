"""`/metrics` for Prometheus, `/healthz` and `/livez` for probes without gRPC, on their own thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry, disable_created_metrics
from prometheus_client.exposition import choose_encoder

from lakelog.errors import InvalidArgument
from lakelog.serving.arguments import refusal

_TIMEOUT_S = 10.0


class HttpEndpoint:
    """An HTTP server with three pages.

    `/livez` answers 200 as long as the process can answer at all, so that a metastore or broker that is away restarts
    nothing. `/healthz` says whether the service can work now.

    Args:
        host: The address to listen on.
        port: The port; 0 for a free one.
        registry: The metrics that `/metrics` shows.
        is_serving: Decides the answer of `/healthz`: 200 or 503.

    Raises:
        OSError: The port is taken.
    """

    def __init__(self, host: str, port: int, registry: CollectorRegistry, is_serving: Callable[[], bool]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT_S  # For one connection, so that idle ones do not pile up.
            server_version = "lakelog"
            sys_version = ""

            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                if path == "/metrics":
                    encoder, content_type = choose_encoder(self.headers.get("Accept", ""))
                    self._answer(200, encoder(registry), content_type)
                elif path == "/healthz":
                    serving = is_serving()
                    self._answer(200 if serving else 503, b"SERVING\n" if serving else b"NOT_SERVING\n", "text/plain")
                elif path == "/livez":
                    self._answer(200, b"ALIVE\n", "text/plain")
                else:
                    self._answer(404, b"Here are /metrics, /healthz and /livez.\n", "text/plain")

            def _answer(self, status: int, body: bytes, content_type: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                """Logs nothing: probes come every second."""

        # The library would show a further series for each counter and histogram: the time at which it was made.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._is_stopping = False
        self._thread = threading.Thread(target=self._serve, name="http endpoint", daemon=True)

    def start(self) -> None:
        """Starts to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Stops; idempotent."""
        if self._thread.is_alive():
            self._is_stopping = True
            with contextlib.suppress(OSError):
                # Wakes the thread: a socket that listens no more counts as readable.
                self._server.socket.shutdown(socket.SHUT_RDWR)
            self._thread.join()
        self._server.server_close()

    def _serve(self) -> None:
        # `serve_forever` would wake up twice a second to look whether it is to end.
        while not self._is_stopping:
            self._server.handle_request()


def open_beside(
    host: str, port: int | None, registry: CollectorRegistry, is_serving: Callable[[], bool]
) -> HttpEndpoint | None:
    """The pages of a server that also listens elsewhere, on its host; not yet started. None if no port is given.

    Raises:
        InvalidArgument: The port is taken.
    """
    if port is None:
        return None
    try:
        return HttpEndpoint(host, port, registry, is_serving)
    except OSError as error:
        raise refusal(
            f"Cannot listen on {host}:{port} for metrics: {error.strerror}. Stop what listens there, or choose another "
            "with --metrics-port."
        ) from error


def serve_pages(host: str, port: int, registry: CollectorRegistry, is_serving: Callable[[], bool]) -> int:
    """Serves the pages of a service without another server, until the process ends; returns the port.

    Raises:
        InvalidArgument: The port is taken.
    """
    try:
        endpoint = HttpEndpoint(host, port, registry, is_serving)
    except OSError as error:
        raise _cannot_serve(host, port, error) from error
    endpoint.start()
    return endpoint.port


def _cannot_serve(host: str, port: int, error: OSError) -> InvalidArgument:
    return refusal(
        f"Metrics cannot be served at {host}:{port}: {error.strerror or error}. Choose another --metrics-port or "
        "--metrics-host; 0 is a free port."
    )
