"""A collector of OpenTelemetry in the test's own process: keeps the spans that services send."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2, trace_service_pb2_grpc


@dataclass(frozen=True)
class SeenSpan:
    """A span as it arrived; ids in hexadecimal digits, times in nanoseconds."""

    service: str
    name: str
    trace: str
    span: str
    parent: str
    began_ns: int
    ended_ns: int
    attributes: dict[str, Any]


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    """Keeps all spans."""

    def __init__(self) -> None:
        self._spans: list[SeenSpan] = []
        self._lock = threading.Lock()

    @property
    def spans(self) -> list[SeenSpan]:
        """Those that have arrived."""
        with self._lock:
            return list(self._spans)

    def Export(self, request: Any, context: grpc.ServicerContext) -> Any:  # noqa: N802
        """The call of exporters."""
        with self._lock:
            for sent in request.resource_spans:
                service = _to_dict(sent.resource.attributes)["service.name"]
                for scope in sent.scope_spans:
                    self._spans += [_to_seen(service, span) for span in scope.spans]
        return trace_service_pb2.ExportTraceServiceResponse()


def _to_seen(service: str, span: Any) -> SeenSpan:
    return SeenSpan(
        service,
        span.name,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _to_dict(span.attributes),
    )


def _to_dict(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def running_collector() -> Iterator[tuple[Collector, str]]:
    """A collector and its URL."""
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(4))
    trace_service_pb2_grpc.add_TraceServiceServicer_to_server(collector, server)  # type: ignore[no-untyped-call]
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield collector, f"http://127.0.0.1:{port}"
    finally:
        server.stop(None)
