"""W3 of BENCH, through the SDK and through Spark."""

from __future__ import annotations

from bench import deletion_vectors, sdk
from bench.spark import scan

TITLE = "Merge on read: 4 M Q1 rows + k x 400 k"
PARTS = {
    "sdk": sdk.measure_scan,
    "spark": scan.measure_scan,
    "committed": scan.measure_committed,
    "format": scan.measure_format,
    "marked": deletion_vectors.measure_deletion_vectors,
    "marked-spark": scan.measure_deletion_vectors,
}
