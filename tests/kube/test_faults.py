"""Real data runs through the cluster while its parts are killed, frozen, restarted, scaled and lost with their node."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from dev.kube.lab import Cluster
from tests.support.clusters import wait_until_ready

pytestmark = [pytest.mark.kube, pytest.mark.timeout(900)]

COMPONENT = "app.kubernetes.io/component"
SERVICES = ("metastore", "publisher", "compactor", "reader")


def run_load(cluster: Cluster, name: str, seconds: float, disturb: Callable[[], None]) -> dict[str, Any]:
    """Runs the load in the shell's pod, disturbs the cluster meanwhile, and returns the load's report."""
    (shell,) = cluster.get("pods", "-n", "lakelog", "-l", f"{COMPONENT}=shell")["items"]
    outcome: dict[str, Any] = {}

    def work() -> None:
        command = ["env", f"LOAD_NAME={name}", "python", "-m", "tests.kube.load", str(seconds)]
        try:
            outcome["report"] = json.loads(
                cluster.execute(shell["metadata"]["name"], "shell", command).splitlines()[-1]
            )
        except Exception as error:
            outcome["error"] = error

    load = threading.Thread(target=work)
    load.start()
    # The first commits are there before anything happens.
    time.sleep(8)
    disturb()
    load.join()
    if "error" in outcome:
        raise outcome["error"]
    report: dict[str, Any] = outcome["report"]
    return report


def test_killed_services_lose_nothing(cluster: Cluster) -> None:
    def disturb() -> None:
        for service in SERVICES:
            assert cluster.signal_pods(f"{COMPONENT}={service}", signal.SIGKILL) >= 1
            time.sleep(6)

    report = run_load(cluster, "killed", 45, disturb)
    assert not report["problems"], report
    assert report["commits"] >= 10
    pods = cluster.get("pods", "-n", "lakelog")["items"]
    restarted = {
        pod["metadata"]["labels"][COMPONENT]
        for pod in pods
        for status in pod["status"].get("containerStatuses", [])
        if status["restartCount"]
    }
    assert restarted >= set(SERVICES)


def test_frozen_services_lose_nothing(cluster: Cluster) -> None:
    def disturb() -> None:
        for service in ("publisher", "compactor", "metastore"):
            selector = f"{COMPONENT}={service}"
            assert cluster.signal_pods(selector, signal.SIGSTOP) >= 1
            time.sleep(4)
            cluster.signal_pods(selector, signal.SIGCONT)
            time.sleep(2)

    report = run_load(cluster, "frozen", 40, disturb)
    assert not report["problems"], report
    assert report["commits"] >= 10


def test_restarts_of_everything_lose_nothing(cluster: Cluster) -> None:
    def disturb() -> None:
        for service in ("reader", "metastore", "publisher", "compactor"):
            cluster.kubectl("rollout", "restart", f"deployment/{service}", "-n", "lakelog")
        wait_until_ready(cluster)

    report = run_load(cluster, "restarted", 60, disturb)
    assert not report["problems"], report
    assert report["commits"] >= 10


def test_scaling_up_and_down_loses_nothing(cluster: Cluster) -> None:
    def disturb() -> None:
        for replicas in (4, 1):
            for service in SERVICES:
                cluster.kubectl("scale", f"deployment/{service}", "-n", "lakelog", f"--replicas={replicas}")
            wait_until_ready(cluster)

    report = run_load(cluster, "scaled", 75, disturb)
    assert not report["problems"], report
    assert report["commits"] >= 10


def test_a_lost_node_loses_nothing(cluster: Cluster) -> None:
    """All that runs on the node dies with it, and is started elsewhere once the control plane has noticed."""
    stays = {"kafka-0", "postgres-0", "s3-0"}
    pods = cluster.get("pods", "-n", "lakelog")["items"]
    of_stores = {pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["name"] in stays}
    (shell,) = [pod for pod in pods if pod["metadata"]["labels"].get(COMPONENT) == "shell"]
    # A third node gets a replica of each service, and nothing that exists only once.
    cluster.start_node(3)
    for node in of_stores | {shell["spec"]["nodeName"]}:
        cluster.kubectl("cordon", node)
    try:
        for service in SERVICES:
            cluster.kubectl("scale", f"deployment/{service}", "-n", "lakelog", "--replicas=2")
        wait_until_ready(cluster)
        lost = {
            pod["metadata"]["labels"][COMPONENT]
            for pod in cluster.get("pods", "-n", "lakelog", "--field-selector", "spec.nodeName=node-3")["items"]
        }
        assert lost >= {"metastore", "publisher"}, lost

        def disturb() -> None:
            for node in of_stores | {shell["spec"]["nodeName"]}:
                cluster.kubectl("uncordon", node)
            cluster.kill_node(3)
            cluster.kubectl("wait", "--for=condition=Ready=unknown", "node/node-3", "--timeout=60s")
            # As an operator or a cloud's controller does with a node that is gone.
            cluster.kubectl("delete", "node", "node-3")
            wait_until_ready(cluster)

        report = run_load(cluster, "lost", 60, disturb)
    finally:
        for node in of_stores | {shell["spec"]["nodeName"]}:
            cluster.kubectl("uncordon", node)
        for service in SERVICES:
            cluster.kubectl("scale", f"deployment/{service}", "-n", "lakelog", "--replicas=1")
        wait_until_ready(cluster)
    assert not report["problems"], report
    assert report["commits"] >= 10
