"""KUBE of BENCH: W14 and W15 on a cluster."""

from __future__ import annotations

from bench.kube import recovery, together

TITLE = "W14 and W15 on a real Kubernetes control plane"
PARTS = {
    "recovery": recovery.measure_recovery,
    "writer": recovery.measure_pipeline,
    "together": together.measure_together,
}
