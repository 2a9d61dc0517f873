"""The component spark-executors on a real control plane: a pipeline's executors are pods that its own pod owns."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from dev.kube.lab import Cluster
from tests.support.clusters import wait_until_ready
from tests.support.repository import ROOT

pytestmark = [pytest.mark.kube, pytest.mark.timeout(900)]

EXECUTORS = "spark-role=executor"
WRITER = "app.kubernetes.io/component=writer"
WAIT_S = 240.0

PRODUCE = """
import json, sys
from confluent_kafka import Producer
producer = Producer({"bootstrap.servers": "kafka:9092"})
for number in range(int(sys.argv[1]), int(sys.argv[2])):
    producer.produce("events", json.dumps({"id": number, "name": "n", "amount": 1.0}))
assert producer.flush(60) == 0
"""

READ = """
import json, lakelog
with lakelog.connect() as catalog:
    print(json.dumps(catalog.table("demo.events").scan(["id"]).to_arrow()["id"].to_pylist()))
"""


@pytest.fixture
def with_executors(cluster: Cluster, tmp_path: Path) -> Iterator[Cluster]:
    """The local overlay with the component, as an operator adds it; without it again afterwards."""
    tree = tmp_path / "k8s"
    shutil.copytree(ROOT / "k8s", tree)
    file = tree / "overlays" / "local" / "kustomization.yaml"
    settings = yaml.safe_load(file.read_text())
    settings["components"].append("../../components/spark-executors")
    file.write_text(yaml.safe_dump(settings))
    cluster.kubectl("apply", "-k", str(file.parent))
    try:
        wait_until_ready(cluster)
        yield cluster
    finally:
        cluster.kubectl("apply", "-k", "k8s/overlays/local")
        wait_until_ready(cluster)


def run(cluster: Cluster, program: str, *arguments: object) -> str:
    """Runs a program in the shell's pod."""
    (shell,) = cluster.get("pods", "-n", "lakelog", "-l", "app.kubernetes.io/component=shell")["items"]
    return cluster.execute(shell["metadata"]["name"], "shell", ["python", "-c", program, *map(str, arguments)])


def pods(cluster: Cluster, selector: str) -> list[Any]:
    found: list[Any] = cluster.get("pods", "-n", "lakelog", "-l", selector)["items"]
    return found


def until(cluster: Cluster, what: Callable[[], bool]) -> None:
    give_up_s = time.monotonic() + WAIT_S
    while not what():
        if time.monotonic() > give_up_s:
            shown = cluster.kubectl("get", "pods", "-n", "lakelog", "-o", "wide")
            (writer,) = pods(cluster, WRITER)
            log = cluster.kubectl("logs", "-n", "lakelog", writer["metadata"]["name"], "--tail=40")
            raise AssertionError(f"{shown}\n{log}")
        time.sleep(0.5)


def test_executors_are_pods_that_end_with_their_driver(with_executors: Cluster) -> None:
    cluster = with_executors
    before = json.loads(run(cluster, READ))
    first = max(before, default=0) + 1

    def has(count: int) -> bool:
        return sorted(json.loads(run(cluster, READ))) == sorted([*before, *range(first, first + count)])

    run(cluster, PRODUCE, first, first + 500)
    until(cluster, lambda: has(500))
    (writer,) = pods(cluster, WRITER)
    found = pods(cluster, EXECUTORS)
    assert len(found) == 2
    for executor in found:
        (owner,) = executor["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Pod", writer["metadata"]["uid"])
        # Of the template.
        assert executor["metadata"]["labels"]["app.kubernetes.io/component"] == "executor"
        assert executor["spec"]["serviceAccountName"] == "executor"
        (container,) = executor["spec"]["containers"]
        given = {variable["name"] for variable in container["env"]}
        assert "LAKELOG_S3_ENDPOINT" in given
        assert not given & {"LAKELOG_TOKEN", "LAKELOG_TARGET"}
    # They die, others come, and each row is there once.
    run(cluster, PRODUCE, first + 500, first + 1000)
    assert cluster.signal_pods(EXECUTORS, signal.SIGKILL) >= 1
    until(cluster, lambda: has(1000))
    # The driver's pod goes, and its executors with it.
    old = {each["metadata"]["uid"] for each in pods(cluster, EXECUTORS)}
    cluster.kubectl("delete", "pod", "-n", "lakelog", writer["metadata"]["name"], "--wait=false")
    until(cluster, lambda: not old & {each["metadata"]["uid"] for each in pods(cluster, EXECUTORS)})
