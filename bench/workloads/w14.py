"""W14 of BENCH."""

from __future__ import annotations

from bench import recovery

TITLE = "from kill -9 of a service to the next success, against its start"
PARTS = {
    "metastore": recovery.measure_metastore,
    "publisher": recovery.measure_publisher,
    "compactor": recovery.measure_compactor,
    "reader": recovery.measure_reader,
    "writer": recovery.measure_pipeline,
}
