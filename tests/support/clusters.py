"""What tests on a cluster wait for."""

from __future__ import annotations

import time
from typing import Final

from dev.kube.lab import Cluster

INSTALL_S: Final = 240.0


def wait_until_ready(cluster: Cluster, seconds: float = INSTALL_S) -> None:
    """Waits until every workload has what its spec asks for."""
    deadline = time.monotonic() + seconds
    while True:
        waiting = [line for kind in ("deployments", "statefulsets") for line in _find_waiting(cluster, kind)]
        if not waiting:
            return
        if time.monotonic() > deadline:
            events = cluster.kubectl("get", "events", "-n", "lakelog", "--field-selector", "type=Warning")
            raise AssertionError(f"not ready after {seconds:g} s: {', '.join(waiting)}\n{events[-4000:]}")
        time.sleep(0.5)


def _find_waiting(cluster: Cluster, kind: str) -> list[str]:
    waiting = []
    for item in cluster.get(kind, "-n", "lakelog")["items"]:
        status, wanted = item.get("status", {}), item["spec"]["replicas"]
        ready, updated = status.get("readyReplicas", 0), status.get("updatedReplicas", 0)
        seen = status.get("observedGeneration") == item["metadata"]["generation"]
        if not seen or (ready, updated, status.get("replicas", 0)) != (wanted, wanted, wanted):
            waiting.append(f"{item['metadata']['name']} has {ready} of {wanted}")
    return waiting
