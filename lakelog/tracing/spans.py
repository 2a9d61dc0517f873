"""Spans of traces. While traces are off, each function here looks at one variable, and nothing else is imported.

A trace begins with an operation of the SDK, a job or a batch (`root_span`). All other spans belong to a trace that is
there already (`span`): so a metastore traces the calls of clients that trace, and no heartbeats.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Final

from lakelog.extras import explain_missing
from lakelog.tracing.tracer import Kind, PastSpan, Tracer

TRACEPARENT: Final = "traceparent"
"""The header of calls that names their trace and span, as W3C's Trace Context has it."""

TRACE_PROPERTY: Final = "lakelog.traceparent"
"""The property of snapshots that were committed in a trace: so a publisher, which sees only them, goes on with it."""

TRACES_VARIABLE: Final = "LAKELOG_TRACES"
"""The URL of a collector for OTLP over gRPC; `off`: no traces, whatever other variables say."""

_OTEL_VARIABLES: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")

_log = logging.getLogger(__name__)
_NOTHING: Final = nullcontext()

_tracer: Tracer | None = None


def start(service: str, environment: Mapping[str, str]) -> bool:
    """Switches traces on for this process, where the environment says so; idempotent.

    Args:
        service: The name of the service in traces, if the environment names none.
        environment: LAKELOG_TRACES, and the variables of OpenTelemetry.

    Returns:
        Whether they are on.
    """
    global _tracer
    if _tracer is None and (collector := find_collector(environment)) is not None:
        try:
            from lakelog.tracing.export import OtlpTracer
        except ModuleNotFoundError as error:
            # The variables of OpenTelemetry may be meant for others in this process.
            _log.warning("No traces are sent. %s", explain_missing(error, "Tracing", "tracing"))
            return False
        _tracer = OtlpTracer(service, collector)
    return _tracer is not None


def find_collector(environment: Mapping[str, str]) -> str | None:
    """Where traces go: a URL; empty: where the variables of OpenTelemetry say; None: nowhere. Pure."""
    named = environment.get(TRACES_VARIABLE, "")
    if named:
        return None if named == "off" else named
    return "" if any(environment.get(variable) for variable in _OTEL_VARIABLES) else None


def is_on() -> bool:
    """Whether traces are on."""
    return _tracer is not None


def root_span(name: str, **attributes: str | int) -> AbstractContextManager[None]:
    """A span that belongs to the present one or, if there is none, begins a trace."""
    if _tracer is None:
        return _NOTHING
    return _tracer.span(name, "internal", "", attributes, may_begin=True)


def span(name: str, *, kind: Kind = "internal", parent: str = "") -> AbstractContextManager[None]:
    """A span that belongs to the present one, or to a parent; does nothing if there is neither."""
    if _tracer is None:
        return _NOTHING
    return _tracer.span(name, kind, parent, {}, may_begin=False)


def record(past: PastSpan) -> None:
    """Sends a span that is over."""
    if _tracer is not None:
        _tracer.record(past)


def traceparent() -> str:
    """The present span for `TRACEPARENT` and `TRACE_PROPERTY`; empty: there is none."""
    return "" if _tracer is None else _tracer.traceparent()


def flush() -> None:
    """Sends what waits, before the process ends without its usual end."""
    if _tracer is not None:
        _tracer.flush()


def _forget() -> None:
    # The threads and the channel that send spans do not exist in a forked child.
    global _tracer
    _tracer = None


os.register_at_fork(after_in_child=_forget)
