"""One cluster for all tests of this folder, with the local overlay installed. `./run kube` runs them."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.kube.lab import Cluster, why_not

INSTALL_S = 240.0
OVERLAY = "k8s/overlays/local"


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    """A cluster of two nodes on which everything is ready."""
    if "LAKELOG_KUBE" not in os.environ:
        pytest.skip("a test on a real control plane: `./run kube` runs it")
    reason = why_not()
    if reason:
        pytest.skip(reason)
    with (
        tempfile.TemporaryDirectory(prefix="ll-kube-", ignore_cleanup_errors=True) as folder,
        Cluster(Path(folder)) as cluster,
    ):
        cluster.kubectl("apply", "-k", OVERLAY)
        wait_until_ready(cluster)
        yield cluster


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
