"""W14 on a cluster: from kill -9 of all pods of a service to the next unit of work that it does.

The probe's units run all the while in another pod, so each kill says what it costs those that are served. The kubelet
starts the containers again, after the pause that Kubernetes makes between restarts; with two replicas, one is killed.
"""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from bench.context import Bench
from bench.measure import Figure, WrongAnswerError, absolute
from dev.kube.lab import Cluster, why_not

OVERLAY: Final = "k8s/overlays/local"
SERVICES: Final = ("metastore", "publisher", "compactor", "reader")
READY_S: Final = 240.0
_QUIET_S: Final = 6.0
"""After a kill, until the next one at the earliest; and before the first."""
_BEGUN_S: Final = 6.0
"""The probe needs so long to make its tables."""
_EACH_S: Final = 11.0
_LONGEST_S: Final = 60.0
"""The lease of a job that a compactor leaves ends within it."""
_SPARK_S: Final = 130.0
"""A Spark starts within it, also on a busy machine, and takes what waits in its topic."""
_COMPONENT: Final = "app.kubernetes.io/component"

Done = Mapping[str, Sequence[tuple[float, float]]]


def measure_recovery(bench: Bench) -> Iterator[Figure]:
    """A kill of the only pod of each service that needs no Spark, then of one of two."""
    with open_cluster(bench) as cluster:
        yield from measure_on(cluster)


def measure_on(cluster: Cluster) -> Iterator[Figure]:
    """The same on a cluster that is there."""
    yield from _kill_each(cluster, SERVICES, "the only pod")
    for service in SERVICES:
        cluster.kubectl("scale", f"deployment/{service}", "-n", "lakelog", "--replicas=2")
    wait_until_ready(cluster)
    yield from _kill_each(cluster, SERVICES, "one of two")


def measure_pipeline(bench: Bench) -> Iterator[Figure]:
    """A kill of the only pod of a pipeline, which starts a Spark again."""
    with open_cluster(bench) as cluster:
        yield from _kill_each(cluster, ["writer"], "the only pod")


@contextmanager
def open_cluster(bench: Bench) -> Iterator[Cluster]:
    """A cluster on which everything is installed and ready.

    Raises:
        WrongAnswerError: This machine cannot run one; says why.
    """
    reason = why_not()
    if reason:
        raise WrongAnswerError(reason)
    # Users in containers must get through to their volumes.
    bench.folder.chmod(0o711)
    with Cluster(bench.folder / "cluster") as cluster:
        cluster.kubectl("apply", "-k", OVERLAY)
        wait_until_ready(cluster)
        yield cluster


def wait_until_ready(cluster: Cluster) -> None:
    """Waits until each deployment has its replicas."""
    give_up_s = time.monotonic() + READY_S
    while True:
        deployments = cluster.get("deployments", "-n", "lakelog")["items"]
        waiting = [
            each["metadata"]["name"]
            for each in deployments
            if each["status"].get("readyReplicas", 0) != each["spec"]["replicas"]
        ]
        if not waiting:
            return
        if time.monotonic() > give_up_s:
            raise WrongAnswerError(f"not ready after {READY_S:g} s: {', '.join(waiting)}")
        time.sleep(0.5)


def run_in_shell(cluster: Cluster, command: Sequence[str]) -> str:
    """The last line of a command's output in the pod of administrators."""
    (shell,) = cluster.get("pods", "-n", "lakelog", "-l", f"{_COMPONENT}=shell")["items"]
    return cluster.execute(shell["metadata"]["name"], "shell", command).splitlines()[-1]


def find_next(done: Sequence[tuple[float, float]], killed_s: float) -> float:
    """Seconds from a kill to the end of the first unit that began after it. Pure.

    Raises:
        WrongAnswerError: There is none.
    """
    ends = [end_s for began_s, end_s in done if began_s >= killed_s]
    if not ends:
        raise WrongAnswerError(f"no unit was done after the kill; {len(done)} were before it")
    return min(ends) - killed_s


def _kill_each(cluster: Cluster, services: Sequence[str], which: str) -> Iterator[Figure]:
    killed_s: dict[str, float] = {}
    outcome: list[Done] = []
    seconds = len(services) * _EACH_S + (_SPARK_S if "writer" in services else _LONGEST_S)
    command = ["python", "-m", "bench.kube.probe", str(seconds)]
    probe = threading.Thread(target=lambda: outcome.append(json.loads(run_in_shell(cluster, command))))
    probe.start()
    time.sleep(_QUIET_S + _BEGUN_S)
    for service in services:
        pod = _label_pod(cluster, service, which)
        cluster.signal_pods(pod, signal.SIGKILL)
        # Finding the processes takes longer than a unit.
        killed_s[service] = time.time()
        time.sleep(_QUIET_S)
        wait_until_ready(cluster)
    probe.join()
    if not outcome:
        raise WrongAnswerError("the probe failed")
    first_s = min(killed_s.values())
    for service in services:
        done = outcome[0][service]
        usual = [1000 * (end_s - began_s) for began_s, end_s in done if end_s < first_s]
        yield absolute(f"{service}, {which}: the next unit", "s", [find_next(done, killed_s[service])])
        if usual:
            yield absolute(f"{service}, {which}: a unit before", "ms", usual)


def _label_pod(cluster: Cluster, service: str, which: str) -> str:
    """Gives one pod of a service a label of its own, and returns the selector."""
    pods = cluster.get("pods", "-n", "lakelog", "-l", f"{_COMPONENT}={service}")["items"]
    running = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
    label = f"lakelog.io/killed={service}-{which.replace(' ', '-')}"
    cluster.kubectl("label", "pod", running[0]["metadata"]["name"], "-n", "lakelog", "--overwrite", label)
    return label
