"""One cluster for all tests of this folder, with the local overlay installed. `./run kube` runs them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dev.kube.lab import Cluster, why_not
from tests.support.clusters import wait_until_ready

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
