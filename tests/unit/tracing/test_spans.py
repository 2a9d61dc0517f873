from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from lakelog.format.commit.request import Change, CommitRequest
from lakelog.format.tables.snapshot import SnapshotKind
from lakelog.tracing import spans
from lakelog.tracing.export import to_context
from lakelog.tracing.tracer import Attributes, Kind, PastSpan
from lakelog.writes.attempt import _in_trace

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class FakeTracer:
    """Remembers the names of spans; each has the same id."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.depth = 0

    @contextlib.contextmanager
    def span(self, name: str, kind: Kind, parent: str, attributes: Attributes, *, may_begin: bool) -> Iterator[None]:
        if self.depth or parent or may_begin:
            self.names.append(name)
        self.depth += 1
        yield
        self.depth -= 1

    def record(self, past: PastSpan) -> None:
        self.names.append(past.name)

    def traceparent(self) -> str:
        return PARENT if self.depth else ""

    def flush(self) -> None:
        pass


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> FakeTracer:
    tracer = FakeTracer()
    monkeypatch.setattr(spans, "_tracer", tracer)
    return tracer


@pytest.mark.parametrize(
    ("environment", "collector"),
    [
        ({}, None),
        ({"OTEL_SERVICE_NAME": "x"}, None),
        ({"LAKELOG_TRACES": ""}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4317"}, ""),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://a:4317"}, ""),
        ({"LAKELOG_TRACES": "http://b:4317", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4317"}, "http://b:4317"),
        ({"LAKELOG_TRACES": "off", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4317"}, None),
    ],
)
def test_variables_say_whether_and_where_traces_go(environment: dict[str, str], collector: str | None) -> None:
    assert spans.find_collector(environment) == collector


def test_while_traces_are_off_nothing_is_imported_and_no_call_does_anything() -> None:
    program = (
        "import sys, lakelog; from lakelog.tracing import spans; catalog = lakelog.connect('localhost:1')\n"
        "with spans.root_span('a', table='t') as nothing, spans.span('b'): assert not spans.traceparent()\n"
        "assert nothing is None and not spans.is_on(); spans.flush()\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "LAKELOG_"))}
    subprocess.run([sys.executable, "-c", program], env=environment, check=True, timeout=60)


def test_a_missing_package_is_a_warning_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delitem(sys.modules, "lakelog.tracing.export", raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    assert not spans.start("lakelog", {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://a:4317"})
    assert 'pip install "lakelog[tracing]"' in caplog.text


def test_only_operations_begin_traces(tracer: FakeTracer) -> None:
    with spans.span("a heartbeat"):
        pass
    assert tracer.names == []
    with spans.root_span("append"), spans.span("Commit", kind="client"):
        pass
    with spans.span("Commit", kind="server", parent=PARENT):
        pass
    assert tracer.names == ["append", "Commit", "Commit"]


def test_a_forked_child_traces_nothing(tracer: FakeTracer) -> None:
    child = os.fork()
    if child == 0:
        os._exit(1 if spans.is_on() else 0)
    assert os.waitpid(child, 0)[1] == 0
    assert spans.is_on()


@pytest.mark.parametrize(
    "parent",
    [
        "",
        "nonsense",
        PARENT.upper(),
        PARENT + "0",
        PARENT.replace("00-", "ff-", 1),
        "00-" + "0" * 32 + "-b7ad6b7169203331-01",
        "00-0af7651916cd43dd8448eb211c80319c-" + "0" * 16 + "-01",
    ],
)
def test_a_header_that_names_no_span_has_no_context(parent: str) -> None:
    assert to_context(PARENT) is not None
    assert to_context(parent) is None


def make_request(**properties: str) -> CommitRequest:
    return CommitRequest("w", 1, (Change("a" * 32, SnapshotKind.APPEND, 0, -1, properties=properties),))


def test_snapshots_of_a_trace_name_it(tracer: FakeTracer) -> None:
    assert _in_trace(make_request(job="x")).changes[0].properties == {"job": "x"}
    with spans.root_span("append"):
        assert _in_trace(make_request(job="x")).changes[0].properties == {"job": "x", "lakelog.traceparent": PARENT}


@pytest.mark.parametrize("properties", [{f"p{n}": "" for n in range(128)}, {"p": "x" * (64 * 1024 - 1)}])
def test_a_commit_with_as_many_properties_as_it_may_have_is_not_refused(
    tracer: FakeTracer, properties: dict[str, str]
) -> None:
    with spans.root_span("append"):
        assert _in_trace(make_request(**properties)).changes[0].properties == properties
