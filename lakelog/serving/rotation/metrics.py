"""What a server measures about its files and keys: every metric name once, with a sentence."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge


class RotationMetrics:
    """Measurements under `lakelog_server_*`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._registry = registry
        self.rotations: Final = Counter(
            "lakelog_server_rotations",
            "New contents of files and keys by setting and outcome: used or refused.",
            ["setting", "outcome"],
            registry=registry,
        )
        self.refused: Final = Gauge(
            "lakelog_server_rotation_refused",
            "1 while the newest content of a setting cannot be used, and an older one is in use.",
            ["setting"],
            registry=registry,
        )

        self.empty: Final = Gauge(
            "lakelog_server_rotation_empty",
            "1 while the content in use lets no one in: an issuer's list of keys is empty.",
            ["setting"],
            registry=registry,
        )

    def show_certificate(self, remaining_s: Callable[[], float]) -> None:
        """Measures the rest of the life of the server's certificate whenever metrics are read."""
        Gauge(
            "lakelog_server_certificate_remaining_seconds",
            "Seconds until the server's certificate expires; negative after that.",
            registry=self._registry,
        ).set_function(remaining_s)
