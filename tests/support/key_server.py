"""A real web server for the keys of an issuer, by HTTPS or HTTP, on this machine."""

from __future__ import annotations

import http.server
import ssl
import threading
import time
from typing import Any

from tests.support.certificates import Pair


class KeyServer:
    """Serves one document; tests set what and how.

    Args:
        pair: The certificate and its key; None: plain HTTP.
        document: What is served.
    """

    def __init__(self, pair: Pair | None, document: bytes) -> None:
        self.document = document
        self.status = 200
        self.location: str | None = None
        self.token: str | None = None
        """If given, callers must send it."""
        self.drip_s = 0.0
        """The pause after each byte."""
        self.requests = 0
        owner = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                owner._answer(self)

            def log_message(self, *_: Any) -> None:
                """Writes nothing."""

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if pair is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(pair.certificate, pair.key)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_address[1]
        self.url = f"{'http' if pair is None else 'https'}://127.0.0.1:{self.port}/openid/v1/jwks"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def _answer(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self.requests += 1
        status = self.status
        if self.token is not None and handler.headers.get("Authorization") != f"Bearer {self.token}":
            status = 401
        handler.send_response(status)
        if self.location is not None:
            handler.send_header("Location", self.location)
        handler.end_headers()
        try:
            if not self.drip_s:
                handler.wfile.write(self.document)
            for byte in self.document if self.drip_s else b"":
                handler.wfile.write(bytes([byte]))
                time.sleep(self.drip_s)
        except OSError:
            # The reader has left.
            return

    def close(self) -> None:
        """Ends it."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
