"""What a publisher shows of tables that come and go."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from lakelog.log.records import NOTHING_PUBLISHED
from writer.publishing import metrics as publisher_metrics
from writer.publishing.metrics import PublisherMetrics
from writer.publishing.publisher import Published

SENT: Any = SimpleNamespace(position=NOTHING_PUBLISHED, waiting_count=0, published=Published(records=3))


def tables_of(metrics: PublisherMetrics, name: str) -> set[str]:
    return {
        sample.labels["table"]
        for family in metrics.registry.collect()
        for sample in family.samples
        if sample.name == f"lakelog_publisher_{name}"
    }


def test_tables_that_have_gone_do_not_pile_up(monkeypatch: Any) -> None:
    monkeypatch.setattr(publisher_metrics, "_MAX_GONE", 2)
    metrics = PublisherMetrics()
    for table in ("a", "b", "c"):
        metrics.show(table, SENT)
        metrics.failed(table, "UNAVAILABLE")
    metrics.forget("a")
    assert tables_of(metrics, "published_snapshot") == {"b", "c"}
    assert tables_of(metrics, "records_total") == {"a", "b", "c"}, "Prometheus has not seen its last count yet"
    metrics.show("a", SENT)
    for table in ("b", "a", "c"):
        metrics.forget(table)
    assert tables_of(metrics, "records_total") == tables_of(metrics, "failures_total") == {"a", "c"}
