"""Autoscalers and evictions: what Kubernetes decides by itself, with the objects of k8s/."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml

from dev.kube.lab import Cluster
from tests.support.clusters import wait_until_ready

pytestmark = [pytest.mark.kube, pytest.mark.timeout(600)]

COMPONENT = "app.kubernetes.io/component"
AUTOSCALERS = Path("k8s/components/hpa/autoscalers.yaml")
WAIT_S = 90.0


@contextmanager
def scaled(cluster: Cluster, service: str, replicas: int) -> Iterator[None]:
    """A number of replicas, one again afterwards."""
    cluster.kubectl("scale", f"deployment/{service}", "-n", "lakelog", f"--replicas={replicas}")
    try:
        wait_until_ready(cluster)
        yield
    finally:
        cluster.kubectl("scale", f"deployment/{service}", "-n", "lakelog", "--replicas=1")
        wait_until_ready(cluster)


def test_the_autoscaler_follows_the_use_of_processors(cluster: Cluster) -> None:
    (autoscaler,) = [
        each for each in yaml.safe_load_all(AUTOSCALERS.read_text()) if each["metadata"]["name"] == "reader"
    ]
    name = ("horizontalpodautoscaler/reader", "-n", "lakelog")
    with scaled(cluster, "reader", 1):
        cluster.kubectl("apply", "-n", "lakelog", "-f", "-", stdin=json.dumps(autoscaler))
        try:
            wait_for_replicas(cluster, "reader", autoscaler["spec"]["minReplicas"])
            (first, *_) = cluster.get("pods", "-n", "lakelog", "-l", f"{COMPONENT}=reader")["items"]
            # Work of one processor for a while, in a container that asks for a tenth of one.
            burn = "import time; end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
            cluster.execute(first["metadata"]["name"], "reader", ["python", "-c", burn])
            wait_for_replicas(cluster, "reader", autoscaler["spec"]["minReplicas"] + 1)
            status = cluster.get(*name)["status"]
            assert {each["type"]: each["status"] for each in status["conditions"]}["ScalingActive"] == "True"
        finally:
            cluster.kubectl("delete", *name)


def wait_for_replicas(cluster: Cluster, service: str, least: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while (found := cluster.get(f"deployment/{service}", "-n", "lakelog")["spec"]["replicas"]) < least:
        described = cluster.kubectl("describe", "hpa", service, "-n", "lakelog")
        assert time.monotonic() < deadline, f"{service} has {found} replicas, not {least}\n{described}"
        time.sleep(0.5)


def test_a_drained_node_takes_one_replica_at_a_time(cluster: Cluster) -> None:
    with scaled(cluster, "metastore", 2):
        pods = cluster.get("pods", "-n", "lakelog", "-l", f"{COMPONENT}=metastore")["items"]
        budget = cluster.get("poddisruptionbudget/metastore", "-n", "lakelog")["status"]
        assert budget["disruptionsAllowed"] == 1
        evict(cluster, pods[0]["metadata"]["name"])
        with pytest.raises(RuntimeError, match="disruption budget"):
            evict(cluster, pods[1]["metadata"]["name"])
        wait_until_ready(cluster)
        evict(cluster, pods[1]["metadata"]["name"])


def evict(cluster: Cluster, pod: str) -> None:
    """As `kubectl drain` does it."""
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "lakelog"}}
    path = f"/api/v1/namespaces/lakelog/pods/{pod}/eviction"
    cluster.kubectl("create", "--raw", path, "-f", "-", stdin=json.dumps(eviction))
