"""A proxy before an S3 server that does wrong what `faults.py` names, and counts what it did."""

from __future__ import annotations

import contextlib
import http.client
import random
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Final, Self
from urllib.parse import urlsplit

from tests.support.s3.faults import Cut, Fault, Lost, Overtaken, Refused, Rule, Silent, Slow

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)
_NOT_PASSED_ON: Final = frozenset({"connection", "expect", "keep-alive", "transfer-encoding"})
_PIECES_PER_S: Final = 10
_LONGEST_HOLD_S: Final = 10.0


@dataclass(frozen=True)
class Request:
    """A request that the proxy saw.

    Args:
        method: The HTTP method.
        target: Path and query.
        fault: What happened to it.
    """

    method: str
    target: str
    fault: Fault | None


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class S3Proxy:
    """Passes requests on to an S3 server, except those that rules strike. Any thread may change the rules.

    Args:
        endpoint: The server's URL.
        seed: Decides which requests are struck by rules with a `share`.
    """

    def __init__(self, endpoint: str, seed: int = 0) -> None:
        self._server = urlsplit(endpoint).netloc
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._rules: list[Rule] = []
        self._seen: Counter[int] = Counter()
        self._struck: Counter[int] = Counter()
        self._healed = threading.Event()
        self._answered = threading.Condition(self._lock)
        self._answers = 0
        self._late: list[threading.Thread] = []
        self.requests: Final[list[Request]] = []
        self.effects: Final[Counter[type[Fault]]] = Counter()
        """How often each kind of fault took effect."""
        handler = type("Handler", (_Handler,), {"proxy": self})
        self._listener = _Listener(("127.0.0.1", 0), handler)
        self.endpoint: Final = f"http://127.0.0.1:{self._listener.server_port}"
        threading.Thread(target=self._listener.serve_forever, args=(0.05,), name="s3-proxy", daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.heal()
        self._listener.shutdown()
        self._listener.server_close()

    def strike(self, *rules: Rule) -> None:
        """Adds rules; of several that strike a request, the first one does."""
        with self._lock:
            self._healed.clear()
            self._rules += rules

    def heal(self) -> None:
        """Ends all rules, and lets requests that are late arrive. Connections without an answer are reset."""
        with self._lock:
            self._rules.clear()
            self._seen.clear()
            self._struck.clear()
            late, self._late = self._late, []
        self._healed.set()
        for each in late:
            each.join()

    def count(self, method: str, target: str = "") -> int:
        """How many requests of a method were seen whose target has this in it."""
        with self._lock:
            return sum(each.method == method and target in each.target for each in self.requests)

    def choose(self, method: str, target: str) -> Fault | None:
        """Records a request, and returns what shall happen to it."""
        with self._lock:
            fault = next(self._strikes(method, target), None)
            self.requests.append(Request(method, target, fault))
            return fault

    def _strikes(self, method: str, target: str) -> Iterator[Fault]:
        for number, rule in enumerate(self._rules):
            if not rule.matches(method, target):
                continue
            self._seen[number] += 1
            if self._seen[number] < rule.first or self._struck[number] == rule.times:
                continue
            if rule.share == 1.0 or self._random.random() < rule.share:
                self._struck[number] += 1
                yield rule.fault

    def record(self, fault: Fault) -> None:
        """Counts a fault that took effect."""
        with self._lock:
            self.effects[type(fault)] += 1

    def pass_on(self, method: str, target: str, headers: list[tuple[str, str]], body: bytes) -> _Answer:
        """Lets the server answer."""
        connection = http.client.HTTPConnection(self._server, timeout=60)
        try:
            connection.putrequest(method, target, skip_host=True, skip_accept_encoding=True)
            for name, value in headers:
                connection.putheader(name, value)
            connection.endheaders(body or None)
            answer = connection.getresponse()
            return _Answer(answer.status, answer.getheaders(), answer.read())
        finally:
            connection.close()

    def pass_on_late(
        self, after_s: float, method: str, target: str, headers: list[tuple[str, str]], body: bytes
    ) -> None:
        """Lets the server answer later, to no one; at once when the proxy heals."""

        def work() -> None:
            self._healed.wait(after_s)
            with contextlib.suppress(OSError):
                self.pass_on(method, target, headers, body)

        thread = threading.Thread(target=work, daemon=True)
        with self._lock:
            self._late.append(thread)
        thread.start()

    def wait_for_others(self, requests: int) -> bool:
        """Waits until others have been answered; returns whether they have."""
        with self._answered:
            goal = self._answers + requests
            return self._answered.wait_for(lambda: self._answers >= goal, _LONGEST_HOLD_S)

    def note_answer(self) -> None:
        """Counts an answer."""
        with self._answered:
            self._answers += 1
            self._answered.notify_all()

    def wait_until_healed(self, timeout_s: float | None = None) -> bool:
        """Blocks until `heal`; returns whether it was called in time."""
        return self._healed.wait(timeout_s)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, request: object, client_address: object) -> None:
        """Says nothing of connections that broke, as they do here."""


class _Handler(BaseHTTPRequestHandler):
    proxy: S3Proxy
    protocol_version = "HTTP/1.1"
    wbufsize = 1 << 16
    disable_nagle_algorithm = True

    def handle_one_request(self) -> None:
        """Answers one request of a connection."""
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline:
            self.close_connection = True
        elif self.parse_request():
            self._answer(self._read_body())

    def handle_expect_100(self) -> bool:
        """Lets the client send its body."""
        super().handle_expect_100()
        self.wfile.flush()
        return True

    def log_message(self, *_: object) -> None:
        """Says nothing."""

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts: list[bytes] = []
        while size := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return b"".join(parts)

    def _answer(self, body: bytes) -> None:
        headers = [(name, value) for name, value in self.headers.items() if name.lower() not in _NOT_PASSED_ON]
        if "Transfer-Encoding" in self.headers:
            headers.append(("Content-Length", str(len(body))))
        request = (self.command, self.path, headers, body)
        fault = self.proxy.choose(self.command, self.path)
        match fault:
            case Refused(is_done=False):
                self.proxy.record(fault)
                self._send(_to_error(fault))
                return
            case Lost(is_done=False):
                if fault.late_s is not None:
                    self.proxy.pass_on_late(fault.late_s, *request)
                self.proxy.record(fault)
                self._reset()
                return
            case Silent():
                self.proxy.record(fault)
                self.proxy.wait_until_healed()
                self._reset()
                return
        answer = self.proxy.pass_on(self.command, self.path, headers, body)
        if fault is None or answer.status >= 300:
            self._send(answer)
        else:
            self._spoil(answer, fault)

    def _spoil(self, answer: _Answer, fault: Fault) -> None:
        """Answers wrongly what the server did."""
        match fault:
            case Cut(after, is_admitted):
                if len(answer.body) <= after:
                    self._send(answer)
                    return
                self.proxy.record(fault)
                if is_admitted:
                    self._send(_Answer(answer.status, answer.headers, answer.body[:after]))
                else:
                    self._start(answer, len(answer.body))
                    self.wfile.write(answer.body[:after])
                    self._reset()
                return
            case Slow(seconds, bytes_per_s):
                self.proxy.record(fault)
                self.proxy.wait_until_healed(seconds)
                if bytes_per_s is not None:
                    self._trickle(answer, bytes_per_s)
                    return
            case Overtaken(requests):
                if self.proxy.wait_for_others(requests):
                    self.proxy.record(fault)
            case Refused():
                self.proxy.record(fault)
                answer = _to_error(fault)
            case Lost():
                self.proxy.record(fault)
                self._reset()
                return
        self._send(answer)

    def _start(self, answer: _Answer, length: int) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() not in (_NOT_PASSED_ON if self.command == "HEAD" else _NOT_PASSED_ON | {"content-length"}):
                self.send_header(name, value)
        if self.command != "HEAD":
            self.send_header("Content-Length", str(length))
        self.end_headers()

    def _send(self, answer: _Answer) -> None:
        self._start(answer, len(answer.body))
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()
        self.proxy.note_answer()

    def _trickle(self, answer: _Answer, bytes_per_s: int) -> None:
        self._start(answer, len(answer.body))
        step = max(1, bytes_per_s // _PIECES_PER_S)
        for start in range(0, len(answer.body), step):
            self.wfile.write(answer.body[start : start + step])
            self.wfile.flush()
            if not self.proxy.wait_until_healed(0):
                time.sleep(step / bytes_per_s)
        self.proxy.note_answer()

    def _reset(self) -> None:
        self.close_connection = True
        self.wfile.flush()
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
        self.connection.close()


def _to_error(fault: Refused) -> _Answer:
    text = f"<?xml version='1.0' encoding='UTF-8'?><Error><Code>{fault.code}</Code><Message>A fault.</Message></Error>"
    return _Answer(fault.status, [("Content-Type", "application/xml")], text.encode())
