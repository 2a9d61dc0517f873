"""Probes: ask a container whether it has started, lives and is ready, at the periods and thresholds of its spec."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import threading
from collections.abc import Callable
from typing import Final

import grpc
from grpc_health.v1 import health_pb2

from dev.kube.api import Object

KINDS: Final = ("startupProbe", "livenessProbe", "readinessProbe")


class Probe(threading.Thread):
    """One probe of one run of a container.

    Args:
        spec: As the container declares it.
        address: The pod's address.
        ports: The container's ports by name.
        enter: Makes a command that runs in the container.
        report: Called with the verdict when a threshold is reached, and with what was seen last.
        may_ask: Whether to ask now; liveness and readiness wait for the startup probe.
    """

    def __init__(
        self,
        spec: Object,
        address: str,
        ports: dict[str, int],
        enter: Callable[[list[str]], list[str]],
        report: Callable[[bool, str], None],
        may_ask: Callable[[], bool],
    ) -> None:
        super().__init__(daemon=True)
        self._spec = spec
        self._address = address
        self._ports = ports
        self._enter = enter
        self._report = report
        self._may_ask = may_ask
        self._ended = threading.Event()

    def end(self) -> None:
        """Asks no more."""
        self._ended.set()

    def run(self) -> None:
        """Asks until the end; a thread calls it."""
        in_a_row, last = 0, None
        self._ended.wait(self._spec.get("initialDelaySeconds", 0))
        while not self._ended.is_set():
            if self._may_ask():
                problem = self._ask()
                good = not problem
                in_a_row = in_a_row + 1 if good == last else 1
                last = good
                threshold = self._spec.get("successThreshold" if good else "failureThreshold", 1 if good else 3)
                if not self._ended.is_set() and in_a_row >= threshold:
                    self._report(good, problem)
            self._ended.wait(self._spec.get("periodSeconds", 10))

    def _ask(self) -> str:
        """What is wrong; empty: nothing."""
        timeout = self._spec.get("timeoutSeconds", 1)
        try:
            if "exec" in self._spec:
                return self._run(self._spec["exec"]["command"], timeout)
            if "grpc" in self._spec:
                return self._check_health(self._spec["grpc"], timeout)
            if "httpGet" in self._spec:
                return self._get(self._spec["httpGet"], timeout)
            with socket.create_connection((self._address, self._port(self._spec["tcpSocket"])), timeout):
                return ""
        except (OSError, subprocess.TimeoutExpired, http.client.HTTPException) as error:
            return str(error) or type(error).__name__

    def _port(self, action: Object) -> int:
        port: int | str = action["port"]
        return self._ports[port] if isinstance(port, str) else port

    def _run(self, command: list[str], timeout: float) -> str:
        done = subprocess.run(self._enter(command), timeout=timeout, capture_output=True, text=True, check=False)
        return "" if done.returncode == 0 else (done.stdout + done.stderr).strip()[-500:] or f"status {done.returncode}"

    def _check_health(self, action: Object, timeout: float) -> str:
        # As the kubelet does: without TLS and without a token.
        with grpc.insecure_channel(f"{self._address}:{action['port']}") as channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            try:
                answer = check(health_pb2.HealthCheckRequest(service=action.get("service", "")), timeout=timeout)
            except grpc.RpcError as error:
                return str(error.details()) if isinstance(error, grpc.Call) else str(error)
        serving = health_pb2.HealthCheckResponse.SERVING
        return "" if answer.status == serving else f"service unhealthy (responded with {answer.status})"

    def _get(self, action: Object, timeout: float) -> str:
        connection: http.client.HTTPConnection
        if action.get("scheme") == "HTTPS":
            context = ssl._create_unverified_context()
            connection = http.client.HTTPSConnection(
                self._address, self._port(action), timeout=timeout, context=context
            )
        else:
            connection = http.client.HTTPConnection(self._address, self._port(action), timeout=timeout)
        headers = {header["name"]: header["value"] for header in action.get("httpHeaders", [])}
        try:
            connection.request("GET", action.get("path", "/"), headers=headers)
            answer = connection.getresponse()
            body = answer.read(500).decode(errors="replace").strip()
        finally:
            connection.close()
        return "" if 200 <= answer.status < 400 else f"HTTP probe failed with statuscode: {answer.status} {body}"
