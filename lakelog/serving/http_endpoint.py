"""`/metrics` for Prometheus and `/healthz` for probes that speak no gRPC, on a thread of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

_TIMEOUT_S = 10.0


class HttpEndpoint:
    """An HTTP server with two pages.

    Args:
        host: Where to listen.
        port: 0 for a free one.
        registry: What `/metrics` shows.
        is_serving: What `/healthz` answers: 200 or 503.

    Raises:
        OSError: The port is taken.
    """

    def __init__(self, host: str, port: int, registry: CollectorRegistry, is_serving: Callable[[], bool]) -> None:
        class Handler(BaseHTTPRequestHandler):
            timeout = _TIMEOUT_S  # Of one connection, so that idle ones do not pile up.
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
                else:
                    self._answer(404, b"Here are /metrics and /healthz.\n", "text/plain")

            def _answer(self, status: int, body: bytes, content_type: str) -> None:
                self.send_response(status)
                self.send_header("Content-Type", content_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: object) -> None:
                """Probes come every second; they are no news."""

        ThreadingHTTPServer.allow_reuse_address = True
        self._server = ThreadingHTTPServer((host, port), Handler)
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="http endpoint", daemon=True)

    def start(self) -> None:
        """Begins to answer."""
        self._thread.start()

    def stop(self) -> None:
        """Ends; idempotent."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()
