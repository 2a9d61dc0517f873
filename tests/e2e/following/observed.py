"""Running services, and what they report."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.embedded.stack import EmbeddedStack
from lakelog.sdk.catalog import Catalog
from tests.e2e.following.collector import Collector


@dataclass(frozen=True)
class Observed:
    """All services that need no Spark.

    Args:
        stack: The services.
        catalog: Of a client that traces nothing.
        collector: Gets the spans.
        environment: For programs that trace.
    """

    stack: EmbeddedStack
    catalog: Catalog
    collector: Collector
    environment: dict[str, str]
