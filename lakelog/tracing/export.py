"""Makes spans with OpenTelemetry, and sends them over OTLP. The only module that imports it."""

from __future__ import annotations

import atexit
import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from lakelog.errors import LakelogError
from lakelog.tracing.tracer import Attributes, Kind, PastSpan

_FORM: Final = re.compile(r"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
_FLUSH_S: Final = 2.0
"""How long a process waits at its end for a collector that does not answer."""

_REPORT_EVERY_S: Final = 600.0
"""How often a collector that does not answer is reported. Spans are sent every five seconds."""

_LOGGERS: Final = ("opentelemetry.exporter.otlp.proto.grpc.exporter", "opentelemetry.sdk._shared_internal")
"""They report spans that were not sent, and those that were dropped because too many waited."""

_KINDS: Final = {
    "internal": trace.SpanKind.INTERNAL,
    "client": trace.SpanKind.CLIENT,
    "server": trace.SpanKind.SERVER,
    "producer": trace.SpanKind.PRODUCER,
}


class OtlpTracer:
    """Implements `lakelog.tracing.tracer.Tracer`.

    In a program that has set up OpenTelemetry itself, its spans go where the program's own go.

    Args:
        service: The name of the service, if the environment names none.
        collector: The URL of the collector; empty: the variables of OpenTelemetry name it.
    """

    def __init__(self, service: str, collector: str) -> None:
        provider = trace.get_tracer_provider()
        if not isinstance(provider, TracerProvider):
            # Its own end would wait for a collector that is away as long as an export does.
            provider = TracerProvider(
                resource=Resource({"service.name": service}).merge(OTELResourceDetector().detect()),
                shutdown_on_exit=False,
            )
            exporter = OTLPSpanExporter(collector or None, insecure=collector.startswith("http://") or None)
            provider.add_span_processor(BatchSpanProcessor(exporter))
            atexit.register(self.flush)
            _report_failures_rarely()
        self._provider = provider
        self._tracer = provider.get_tracer("lakelog")
        self._is_ending: Final = threading.Event()
        self._sending: Final = threading.Thread(target=self._send_rest, name="rest of traces", daemon=True)
        self._sending.start()

    @contextmanager
    def span(self, name: str, kind: Kind, parent: str, attributes: Attributes, *, may_begin: bool) -> Iterator[None]:
        """See `Tracer`."""
        context = None
        if not trace.get_current_span().get_span_context().is_valid:
            context = to_context(parent)
            if context is None and not may_begin:
                yield
                return
        # Messages of errors may show values of rows, which are not for collectors.
        with self._tracer.start_as_current_span(
            name, context, _KINDS[kind], dict(attributes), record_exception=False, set_status_on_exception=False
        ) as made:
            try:
                yield
            except BaseException as error:
                reason = error.reason if isinstance(error, LakelogError) else type(error).__name__
                made.set_status(trace.StatusCode.ERROR, reason)
                raise

    def record(self, past: PastSpan) -> None:
        """See `Tracer`."""
        context = to_context(past.parent)
        if context is None:
            return
        made = self._tracer.start_span(
            past.name, context, _KINDS[past.kind], dict(past.attributes), start_time=round(past.began_ms * 1_000_000)
        )
        made.end(round(past.ended_ms * 1_000_000))

    def traceparent(self) -> str:
        """See `Tracer`."""
        found = trace.get_current_span().get_span_context()
        if not found.is_valid or not found.trace_flags.sampled:
            return ""
        return f"00-{trace.format_trace_id(found.trace_id)}-{trace.format_span_id(found.span_id)}-01"

    def flush(self) -> None:
        """See `Tracer`."""
        self._is_ending.set()
        self._sending.join(_FLUSH_S)

    def _send_rest(self) -> None:
        # SUBTLE: `force_flush` takes a time and does not keep it: it waits as long as its exports do. And while the
        # interpreter ends, no thread can be started: so this one waits for the end.
        self._is_ending.wait()
        self._provider.force_flush()


class _FailuresRarely(logging.Filter):
    """Lets one record pass, and the next one after a while."""

    def __init__(self) -> None:
        super().__init__()
        self._next_s = 0.0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is logged."""
        now_s = time.monotonic()
        if now_s < self._next_s:
            return False
        self._next_s = now_s + _REPORT_EVERY_S
        return True


def _report_failures_rarely() -> None:
    """A collector that is away is reported once, and again after ten minutes."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_FailuresRarely())


def to_context(parent: str) -> Context | None:
    """The context of a header `traceparent`; None: it names no span. Pure."""
    found = _FORM.fullmatch(parent)
    if found is None:
        return None
    trace_id, span_id, flags = (int(part, 16) for part in found.groups())
    remote = trace.SpanContext(trace_id, span_id, is_remote=True, trace_flags=trace.TraceFlags(flags))
    return trace.set_span_in_context(trace.NonRecordingSpan(remote), Context()) if remote.is_valid else None
