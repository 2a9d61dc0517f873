"""What the metastore measures about its connections to Postgres, whenever metrics are read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from .connection.connections import ConnectionPool

_PREFIX: Final = "lakelog_metastore_database_"


class PoolMetrics(Collector):
    """Measurements of a pool under `lakelog_metastore_database_*`.

    Args:
        registry: The registry that the metastore shows.
        pool: The pool.
    """

    def __init__(self, registry: CollectorRegistry, pool: ConnectionPool) -> None:
        self._pool = pool
        registry.register(self)

    def collect(self) -> Iterator[GaugeMetricFamily | CounterMetricFamily]:
        """The present figures; called on the thread of the HTTP endpoint."""
        connections = GaugeMetricFamily(
            f"{_PREFIX}connections", "Connections to Postgres by state: used or idle.", labels=["state"]
        )
        connections.add_metric(["used"], self._pool.used_count)
        connections.add_metric(["idle"], self._pool.idle_count)
        yield connections
        yield GaugeMetricFamily(
            f"{_PREFIX}waiting_transactions",
            "Transactions that wait for a free connection.",
            value=self._pool.waiting_count,
        )
        yield CounterMetricFamily(
            f"{_PREFIX}lost_connections",
            "Connections that Postgres has ended, or that went silent.",
            value=self._pool.lost_count,
        )
