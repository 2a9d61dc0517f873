"""What pods use: the API `metrics.k8s.io`, by which autoscalers decide, measured on the processes of containers."""

from __future__ import annotations

import http.server
import json
import os
import re
import ssl
import threading
import time
import urllib.parse
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from .api import Api, ApiException, Object
from .certificates import make_certificate
from .kubelet.status import now
from .network import GATEWAY

_PORT: Final = 4443
_GROUP: Final = "/apis/metrics.k8s.io/v1beta1"
_SAMPLE_S: Final = 2.0
_TICKS: Final = os.sysconf("SC_CLK_TCK")
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass
class Usage:
    """What a container uses: processors, and bytes of memory."""

    cores: float = 0.0
    memory: int = 0


@dataclass(frozen=True)
class _Process:
    parent: int
    ticks: int
    pages: int


@dataclass
class Meter:
    """Measures all containers below a folder, in a thread of its own."""

    folder: Path
    used: dict[tuple[str, str, str], Usage] = field(default_factory=dict)
    _ticks: dict[int, int] = field(default_factory=dict)
    _sampled_s: float = 0.0

    def start(self) -> None:
        """Begins to measure."""
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            self.sample()
            time.sleep(_SAMPLE_S)

    def sample(self) -> None:
        """Measures once: `used` has what was used since the last time, by namespace, pod and container."""
        processes = _list_processes()
        owners = self._find_owners(processes)
        now_s = time.monotonic()
        passed_s = now_s - self._sampled_s
        used: dict[tuple[str, str, str], Usage] = defaultdict(Usage)
        for pid, owner in owners.items():
            spent = processes[pid].ticks - self._ticks.get(pid, processes[pid].ticks)
            used[owner].cores += spent / _TICKS / passed_s
            used[owner].memory += processes[pid].pages * _PAGE
        self._ticks = {pid: processes[pid].ticks for pid in owners}
        self._sampled_s = now_s
        self.used = dict(used)

    def _find_owners(self, processes: dict[int, _Process]) -> dict[int, tuple[str, str, str]]:
        place = re.compile(
            re.escape(str(self.folder)) + r"/node-\d+/([^_/]+)_([^_/]+)_\w+/containers/([^/]+)/\d+\.json"
        )
        of_namespace = {}
        for pid, process in processes.items():
            # The parent of a container's first process names its files, and is not in its namespace.
            found = place.search(_read(process.parent, "cmdline").replace("\0", " "))
            if found is not None:
                of_namespace[_namespace_of(pid)] = (found[1], found[2], found[3])
        spaces = {pid: _namespace_of(pid) for pid in processes}
        return {pid: of_namespace[space] for pid, space in spaces.items() if space and space in of_namespace}


def serve_usage(api: Api, folder: Path) -> None:
    """Serves the API in threads, and registers it."""
    meter = Meter(folder)
    meter.start()
    certificate, key = make_certificate(folder / "usage", GATEWAY)

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            url = urllib.parse.urlsplit(self.path)
            try:
                answer = _answer(api, meter, url.path, dict(urllib.parse.parse_qsl(url.query)))
            except (ApiException, LookupError):
                self.send_error(404)
                return
            body = json.dumps(answer).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer((GATEWAY, _PORT), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _register(api)


def _answer(api: Api, meter: Meter, path: str, query: dict[str, str]) -> Object:
    if path.rstrip("/") == _GROUP:
        pods = {"name": "pods", "singularName": "", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}
        return {
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": "metrics.k8s.io/v1beta1",
            "resources": [pods],
        }
    found = re.fullmatch(rf"{_GROUP}(/namespaces/[^/]+)?/pods(/[^/]+)?", path)
    if found is None:
        raise LookupError(path)
    path = f"/api/v1{found[1] or ''}/pods{found[2] or ''}"
    selected = {key: query[key] for key in ("labelSelector", "fieldSelector") if key in query}
    answer = api.get(path, **selected)
    if found[2]:
        return _metrics_of(answer, meter)
    running = [pod for pod in answer["items"] if pod["status"].get("phase") == "Running"]
    items = [_metrics_of(pod, meter) for pod in running]
    return {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}


def _metrics_of(pod: Object, meter: Meter) -> Object:
    meta = pod["metadata"]
    used = meter.used
    containers = []
    for container in pod["spec"]["containers"]:
        usage = used.get((meta["namespace"], meta["name"], container["name"]), Usage())
        amounts = {"cpu": f"{int(usage.cores * 1e9)}n", "memory": f"{usage.memory // 1024}Ki"}
        containers.append({"name": container["name"], "usage": amounts})
    return {
        "kind": "PodMetrics",
        "apiVersion": "metrics.k8s.io/v1beta1",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"], "labels": meta.get("labels", {})},
        "timestamp": now(),
        "window": f"{_SAMPLE_S:g}s",
        "containers": containers,
    }


def _register(api: Api) -> None:
    meta = {"name": "usage", "namespace": "kube-system"}
    port = {"name": "https", "port": 443, "targetPort": _PORT}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": {"ports": [port]}}
    api.ensure("/api/v1/namespaces/kube-system/services", service)
    slices = "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices"
    api.ensure(
        slices,
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {**meta, "labels": {"kubernetes.io/service-name": "usage"}},
            "addressType": "IPv4",
            "ports": [{"name": "https", "port": _PORT}],
            "endpoints": [{"addresses": [GATEWAY], "conditions": {"ready": True}}],
        },
    )
    spec = {
        "service": {"name": "usage", "namespace": "kube-system", "port": 443},
        "group": "metrics.k8s.io",
        "version": "v1beta1",
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 100,
        "versionPriority": 100,
    }
    api.ensure(
        "/apis/apiregistration.k8s.io/v1/apiservices",
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": "v1beta1.metrics.k8s.io"},
            "spec": spec,
        },
    )


def _list_processes() -> dict[int, _Process]:
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        words = _read(int(path.name), "stat").rpartition(")")[2].split()
        if words:
            found[int(path.name)] = _Process(int(words[1]), int(words[11]) + int(words[12]), int(words[21]))
    return found


def _namespace_of(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/pid")
    except OSError:
        return ""


def _read(pid: int, name: str) -> str:
    """A file of a process; empty: it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ""
