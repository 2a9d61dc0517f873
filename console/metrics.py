"""The console's metrics."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Gauge, Histogram


class Metrics:
    """What the console counts.

    Args:
        registry: Gets the metrics.
    """

    def __init__(self, registry: CollectorRegistry) -> None:
        self.pages = Histogram(
            "lakelog_console_page_seconds",
            "Time to make a page, by route.",
            ["route"],
            registry=registry,
            buckets=(0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5, 5, 10),
        )
        self.live_pages = Gauge("lakelog_console_live_pages", "Open pages that update themselves.", registry=registry)

    @contextmanager
    def timing(self, route: str) -> Iterator[None]:
        """Measures the block."""
        began_s = time.perf_counter()
        try:
            yield
        finally:
            self.pages.labels(route).observe(time.perf_counter() - began_s)
