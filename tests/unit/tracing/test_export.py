"""Spans as OpenTelemetry's own SDK ends them."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Iterator

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lakelog.errors import InvalidArgument
from lakelog.tracing import export
from lakelog.tracing.export import OtlpTracer
from lakelog.tracing.tracer import PastSpan

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
UNSAMPLED = PARENT[:-1] + "0"


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    """The spans of a program that has set up OpenTelemetry itself."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


@pytest.fixture
def tracer(sent: InMemorySpanExporter) -> OtlpTracer:
    return OtlpTracer("lakelog", "")


def open_span(tracer: OtlpTracer, name: str, parent: str = "", *, may_begin: bool = False, error: str = "") -> str:
    with tracer.span(name, "client", parent, {"table": "shop.orders"}, may_begin=may_begin):
        if error:
            raise InvalidArgument(error, reason="BAD_ROW")
        return tracer.traceparent()


def test_spans_go_where_those_of_the_program_go(tracer: OtlpTracer, sent: InMemorySpanExporter) -> None:
    with tracer.span("append", "internal", "", {}, may_begin=True):
        inner = open_span(tracer, "Commit")
    commit, append = sent.get_finished_spans()
    assert [commit.name, append.name] == ["Commit", "append"]
    assert commit.parent == append.context
    assert append.parent is None
    assert inner == f"00-{commit.context.trace_id:032x}-{commit.context.span_id:016x}-01"


def test_without_a_parent_only_operations_leave_spans(tracer: OtlpTracer, sent: InMemorySpanExporter) -> None:
    assert open_span(tracer, "a heartbeat") == ""
    assert open_span(tracer, "Commit", "no parent at all") == ""
    assert open_span(tracer, "Commit", UNSAMPLED) == "", "the process that began the trace does not record it"
    assert sent.get_finished_spans() == ()
    assert open_span(tracer, "Commit", PARENT).startswith(PARENT[:36])
    assert [to_parent(each) for each in sent.get_finished_spans()] == [PARENT]


def test_a_failure_has_its_reason_and_not_its_message(tracer: OtlpTracer, sent: InMemorySpanExporter) -> None:
    with pytest.raises(InvalidArgument):
        open_span(tracer, "append", may_begin=True, error="The row {'iban': 'DE02'} does not fit.")
    (failed,) = sent.get_finished_spans()
    assert (failed.status.status_code, failed.status.description) == (trace.StatusCode.ERROR, "BAD_ROW")
    assert "DE02" not in failed.to_json()


def test_a_span_that_is_over_keeps_its_times(tracer: OtlpTracer, sent: InMemorySpanExporter) -> None:
    tracer.record(PastSpan("publish", PARENT, 1000.5, 1002.0, "producer", {"snapshot": 7}))
    tracer.record(PastSpan("publish", "no parent at all", 1000.5, 1002.0))
    (span,) = sent.get_finished_spans()
    assert (span.start_time, span.end_time) == (1_000_500_000, 1_002_000_000)
    assert (to_parent(span), span.attributes) == (PARENT, {"snapshot": 7})


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[OtlpTracer, list[Callable[[], None]]]]:
    """A tracer of a program without OpenTelemetry, and what will be called at the end of the program."""
    at_end: list[Callable[[], None]] = []
    monkeypatch.setattr(atexit, "register", at_end.append)
    yield OtlpTracer("lakelog", "http://127.0.0.1:1"), at_end
    for name in export._LOGGERS:
        logger = logging.getLogger(name)
        for each in [each for each in logger.filters if isinstance(each, export._FailuresRarely)]:
            logger.removeFilter(each)


def test_a_program_does_not_wait_for_a_collector_that_is_away(
    own: tuple[OtlpTracer, list[Callable[[], None]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    tracer, at_end = own
    began, answered = threading.Event(), threading.Event()

    def send() -> None:
        began.set()
        answered.wait(60)

    monkeypatch.setattr(tracer._provider, "force_flush", send)
    monkeypatch.setattr(export, "_FLUSH_S", 0.1)
    assert at_end == [tracer.flush], "the end of OpenTelemetry's own provider waits for half a minute"
    tracer.flush()
    assert began.wait(10)
    assert not answered.is_set()
    answered.set()


def test_what_waits_is_sent_at_the_end(tracer: OtlpTracer, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    monkeypatch.setattr(tracer._provider, "force_flush", lambda: calls.append("sent"))
    tracer.flush()
    assert calls == ["sent"]


def test_a_collector_that_is_away_is_reported_once(
    own: tuple[OtlpTracer, list[Callable[[], None]]], caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter").error("Failed to export traces to a:1")
    assert [record.message for record in caplog.records] == ["Failed to export traces to a:1"]


def to_parent(span: ReadableSpan) -> str:
    assert span.parent is not None
    return f"00-{span.parent.trace_id:032x}-{span.parent.span_id:016x}-01"
