"""What the API server asks a node for: the output of containers, for `kubectl logs`."""

from __future__ import annotations

import http.server
import ssl
import threading
import time
import urllib.parse
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from dev.kube.certificates import make_certificate

from .pod_run import PodRun

PORT: Final = 10250
_POLL_S: Final = 0.2


def serve_logs(address: str, folder: Path, pods: Mapping[str, PodRun]) -> None:
    """Serves `/containerLogs/NAMESPACE/POD/CONTAINER` over HTTPS, in threads."""
    certificate, key = make_certificate(folder, address)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            query = dict(urllib.parse.parse_qsl(url.query))
            parts = url.path.strip("/").split("/")
            run = None
            if len(parts) == 4 and parts[0] == "containerLogs":
                run = next((each for each in list(pods.values()) if _names(each) == parts[1:3]), None)
            container = run and run.find_container(parts[3])
            path = container and container.log_file(query.get("previous") == "true")
            if not path or not path.exists():
                self.send_error(404)
                return
            self.send_response(200)
            self.end_headers()
            lines = path.read_bytes().splitlines(keepends=True)
            self.wfile.write(b"".join(lines[-int(query["tailLines"]) :] if "tailLines" in query else lines))
            if query.get("follow") == "true":
                self._follow(path)

        def _follow(self, path: Path) -> None:
            with path.open("rb") as file:
                file.seek(0, 2)
                while True:
                    self.wfile.write(file.read())
                    self.wfile.flush()
                    time.sleep(_POLL_S)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer((address, PORT), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()


def _names(run: PodRun) -> list[str]:
    return [run.pod["metadata"]["namespace"], run.pod["metadata"]["name"]]
