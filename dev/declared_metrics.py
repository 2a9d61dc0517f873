"""Every metric of the services, as their own registries declare it: for its page, and for tests of dashboards."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry

from compactor.metrics import Metrics as CompactorMetrics
from console.metrics import Metrics as ConsoleMetrics
from lakelog.serving.rotation.metrics import RotationMetrics
from lakelog.serving.telemetry.process_metrics import add_process_metrics
from metastore.metrics import PrometheusMetrics
from metastore.postgres.connection.connections import ConnectionPool
from metastore.postgres.metrics import PoolMetrics
from metastore.server.rpc_metrics import RpcMetrics
from reader.streams.metrics import StreamMetrics
from reader.subscriptions.metrics import SubscriptionMetrics
from writer.metrics import Metrics as WriterMetrics
from writer.publishing.metrics import PublisherMetrics

PREFIX: Final = "lakelog_"

UNITS: Final = (
    "seconds",
    "bytes",
    "rows",
    "files",
    "snapshots",
    "records",
    "commits",
    "batches",
    "jobs",
    "transactions",
)
"""The last words of names that are units; names of other things that are counted end with those things."""

_WITHOUT_UNIT: Final[Mapping[str, str]] = {
    "amplification": "ratio",
    "batch_id": "id",
    "snapshot_id": "id",
    "published_snapshot": "id",
    "timestamp_seconds": "seconds since 1970",
}
"""The units of names with these ends."""


@dataclass(frozen=True)
class DeclaredMetric:
    """A metric.

    Args:
        name: As Prometheus has it, without the endings of a histogram's samples.
        kind: `counter`, `gauge` or `histogram`.
        labels: The names of its labels.
        sentence: What it says.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    sentence: str

    @property
    def unit(self) -> str:
        """What its values count."""
        if self.sentence.startswith("1 "):
            return "0 or 1"
        found = next((unit for end, unit in _WITHOUT_UNIT.items() if self.name.endswith(end)), "")
        return found or self.name.removesuffix("_total").rpartition("_")[2]

    @property
    def samples(self) -> tuple[str, ...]:
        """The names of its samples."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{end}" for end in ("bucket", "count", "sum"))
        return (self.name,)


def declare() -> dict[str, list[DeclaredMetric]]:
    """The metrics of each service, by its command."""
    metastore, reader, console = CollectorRegistry(), CollectorRegistry(), CollectorRegistry()
    PrometheusMetrics(metastore)
    RpcMetrics(metastore)
    PoolMetrics(metastore, ConnectionPool("", 1, "on"))
    SubscriptionMetrics(reader)
    ConsoleMetrics(console)
    for server in (metastore, reader):
        RotationMetrics(server).show_certificate(lambda: 0.0)
    # A pipeline reads files or records; the second also has the lag of each partition.
    pipelines = [WriterMetrics("p", unit).registry for unit in ("files", "records")]
    registries = {
        "metastore serve": [metastore],
        "writer run": pipelines,
        "writer publish": [PublisherMetrics().registry],
        "compactor run": [CompactorMetrics().registry],
        "reader serve": [reader],
        "reader run": [StreamMetrics().registry],
        "console serve": [console],
    }
    for command, (first, *_) in registries.items():
        add_process_metrics(first, command.partition(" ")[0])
    return {command: _unite(some) for command, some in registries.items()}


def samples() -> dict[str, frozenset[str]]:
    """Every sample that a service shows, with its labels, without those that the server adds."""
    return {name: frozenset(metric.labels) for some in declare().values() for metric in some for name in metric.samples}


def _unite(registries: list[CollectorRegistry]) -> list[DeclaredMetric]:
    found = {metric.name: metric for each in registries for metric in _list_declared(each)}
    return sorted(found.values(), key=lambda metric: metric.name)


def _list_declared(registry: CollectorRegistry) -> Iterator[DeclaredMetric]:
    for collector in registry._collector_to_names:
        # No public way leads to the labels of a metric that nothing was measured of yet.
        declared: Any = collector
        if hasattr(declared, "_labelnames"):
            yield _to_declared(declared._name, declared._type, declared._labelnames, declared._documentation)
            continue
        for family in declared.describe() if hasattr(declared, "describe") else declared.collect():
            labels = getattr(family, "_labelnames", ())
            if re.match(PREFIX, family.name):
                yield _to_declared(family.name, family.type, labels, family.documentation)


def _to_declared(name: str, kind: str, labels: tuple[str, ...], sentence: str) -> DeclaredMetric:
    return DeclaredMetric(f"{name}_total" if kind == "counter" else name, kind, tuple(labels), sentence)
