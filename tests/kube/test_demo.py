"""Records from Kafka through the pipeline in the writer's pod, while metastores are scaled, killed and restarted."""

from __future__ import annotations

import pytest

from dev.kube.demo import run_demo
from dev.kube.lab import Cluster
from tests.support.clusters import wait_until_ready

pytestmark = [pytest.mark.kube, pytest.mark.timeout(900)]


def test_records_reach_the_table(cluster: Cluster) -> None:
    said: list[str] = []
    assert run_demo(cluster, said.append) == 3000, said
    wait_until_ready(cluster)
