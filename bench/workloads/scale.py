"""SCALE of BENCH."""

from __future__ import annotations

from bench.scaling import costs, replicas

TITLE = "1, 2 and 4 replicas of each service, and what a table, a commit and a file cost"
PARTS = {
    "metastore": replicas.measure_metastore,
    "publisher": replicas.measure_publisher,
    "compactor": replicas.measure_compactor,
    "reader": replicas.measure_reader,
    "writer": replicas.measure_writer,
    "costs": costs.measure_costs,
}
