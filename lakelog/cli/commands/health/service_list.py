"""The running services, as `lakelog status` shows them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from lakelog.cli.output.printer import Column
from lakelog.cli.output.text import format_age, format_time, plural
from lakelog.format.jobs.presence import Liveness, Service

_STATE_STYLES: Final = {"running": "green", "starting": "yellow", "draining": "yellow", "silent": "red", "gone": "dim"}

COLUMNS: Final = (
    Column("kind", "SERVICE"),
    Column("shown_state", "STATE", style=lambda state: _STATE_STYLES.get(state.partition(" ")[0], "")),
    Column("work", "WORKS AT", lambda work: ", ".join(work), may_cut=True),
    Column("host", "HOST", may_cut=True),
    Column("pid", "PID", right=True),
    Column("uptime_ms", "STARTED", lambda uptime: f"{format_age(uptime)} ago"),
    Column("version", "VERSION"),
    Column("metrics", "METRICS"),
)


def describe_service(service: Service, now_ms: int) -> dict[str, Any]:
    """A service's record.

    Args:
        service: The service.
        now_ms: The present time, in milliseconds since the epoch, for its age.

    Returns:
        `liveness` is `present`, `silent` or `gone`; `state` is its last report; `silent_ms` is the time since then.
    """
    return {
        "kind": service.kind,
        "liveness": service.liveness.value,
        "state": service.state.value,
        "work": list(service.work),
        "host": service.host,
        "pid": service.pid,
        "version": service.version,
        "metrics": service.metrics or None,
        "started_at": format_time(service.started_at_ms),
        "uptime_ms": max(now_ms - service.started_at_ms, 0),
        "silent_ms": service.silent_ms,
        "instance_id": service.instance_id,
    }


def to_rows(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The records as rows of a table for people; those that need attention come first."""
    order = {Liveness.SILENT.value: 0, Liveness.GONE.value: 1, Liveness.PRESENT.value: 2}
    rows = [{**record, "shown_state": _show_state(record)} for record in records]
    return sorted(rows, key=lambda row: order[row["liveness"]])


def sum_up_services(records: Sequence[dict[str, Any]]) -> str:
    """`1 compactor, 2 writers; 1 silent, 1 gone`: the present ones by kind, then the others."""
    by_liveness = Counter(record["liveness"] for record in records)
    kinds = Counter(record["kind"] for record in records if record["liveness"] == Liveness.PRESENT.value)
    present = ", ".join(plural(count, kind) for kind, count in sorted(kinds.items())) or "none"
    missing = [
        f"{by_liveness[liveness.value]} {liveness.value}"
        for liveness in (Liveness.SILENT, Liveness.GONE)
        if by_liveness[liveness.value]
    ]
    return f"{present}; {', '.join(missing)}" if missing else present


def _show_state(record: dict[str, Any]) -> str:
    """`running`, `silent for 12 s`, `gone for 3 min 5 s`."""
    if record["liveness"] == Liveness.PRESENT.value:
        return str(record["state"])
    return f"{record['liveness']} for {format_age(record['silent_ms'])}"
