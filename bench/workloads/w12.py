"""W12: what a log costs those who write, and how fast it is published."""

from __future__ import annotations

from bench import log_publishing

TITLE = "A log in Kafka: upserts with and without it, records published a second"
PARTS = {"ingest": log_publishing.measure_ingest, "publish": log_publishing.measure_publishing}
