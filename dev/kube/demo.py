"""`./run demo --kube`: records go through a whole lakelog on a cluster, while parts of it are scaled and killed."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Callable
from typing import Final

from .lab import Cluster

_COMPONENT: Final = "app.kubernetes.io/component"
_WAIT_S: Final = 300.0
_ROUND: Final = 1000

_PRODUCE: Final = """
import json, sys
from confluent_kafka import Producer
first, count = map(int, sys.argv[1:])
producer = Producer({"bootstrap.servers": "kafka:9092"})
for key in range(first, first + count):
    row = {"id": key, "name": f"event {key}", "amount": key / 8}
    producer.produce("events", key=str(key), value=json.dumps(row))
if producer.flush(60):
    sys.exit("the broker did not take all records")
"""


def run_demo(cluster: Cluster, report: Callable[[str], None]) -> int:
    """Sends records through the example's pipeline in three rounds, and returns how many rows the table has then.

    Args:
        cluster: A cluster on which `k8s/overlays/local` is applied.
        report: Gets each step, in words.

    Raises:
        RuntimeError: The rows did not arrive in five minutes.
    """
    began_s = time.monotonic()
    cluster.kubectl("rollout", "status", "deployment/writer", "-n", "lakelog", "--timeout=300s", timeout_s=310)
    report(f"installed: all services run {time.monotonic() - began_s:.0f} s after they were asked for")
    _send_round(cluster, 0, report)
    report("two metastores from now on, and both are killed")
    cluster.kubectl("scale", "deployment/metastore", "-n", "lakelog", "--replicas=2")
    cluster.kubectl("rollout", "status", "deployment/metastore", "-n", "lakelog", "--timeout=120s")
    cluster.signal_pods(f"{_COMPONENT}=metastore", signal.SIGKILL)
    _send_round(cluster, 1, report)
    report("all services are restarted, one replica after the other")
    for service in ("metastore", "publisher", "compactor", "reader"):
        cluster.kubectl("rollout", "restart", f"deployment/{service}", "-n", "lakelog")
    rows = _send_round(cluster, 2, report)
    report(cluster.kubectl("get", "pods", "-n", "lakelog").rstrip())
    cluster.kubectl("scale", "deployment/metastore", "-n", "lakelog", "--replicas=1")
    return rows


def _send_round(cluster: Cluster, number: int, report: Callable[[str], None]) -> int:
    """Sends the records of a round and waits until the table has them."""
    began_s = time.monotonic()
    command = ["python", "-c", _PRODUCE, str(number * _ROUND), str(_ROUND)]
    cluster.execute(_find_pod(cluster, "writer"), "writer", command)
    wanted = (number + 1) * _ROUND
    found, problem = 0, ""
    while found < wanted:
        if time.monotonic() > began_s + _WAIT_S:
            raise RuntimeError(f"{found} of {wanted} rows are in demo.events after {_WAIT_S:g} s. {problem}")
        try:
            found = _count(cluster)
        except RuntimeError as error:
            # For instance while a metastore starts.
            problem = str(error)
        time.sleep(1)
    report(
        f"{_ROUND} records went from Kafka through the pipeline: demo.events has {found} rows, after "
        f"{time.monotonic() - began_s:.0f} s"
    )
    return found


def _count(cluster: Cluster) -> int:
    statement = "SELECT count(*) AS n FROM demo.events"
    command = ["lakelog", "sql", "--output", "json", "-e", statement]
    return int(json.loads(cluster.execute(_find_pod(cluster, "shell"), "shell", command))["n"])


def _find_pod(cluster: Cluster, component: str) -> str:
    pods = cluster.get("pods", "-n", "lakelog", "-l", f"{_COMPONENT}={component}")["items"]
    running = [
        pod for pod in pods if pod["status"].get("phase") == "Running" and "deletionTimestamp" not in pod["metadata"]
    ]
    if not running:
        raise RuntimeError(f"no pod of {component} runs")
    name: str = running[0]["metadata"]["name"]
    return name
