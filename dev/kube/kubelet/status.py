"""The status of a pod, from the states of its containers. Pure."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Final, Protocol

from dev.kube.api import Object


def now() -> str:
    """The time, as the API writes it."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class ContainerState(Protocol):
    """What a status shows of a container."""

    @property
    def name(self) -> str:
        """Its name in the pod."""

    @property
    def image(self) -> str:
        """As the spec names it."""

    state: Object
    last_state: Object
    restarts: int
    ready: bool
    started: bool
    container_id: str


_TERMINATED: Final = "terminated"


def find_phase(policy: str, inits: Sequence[ContainerState], containers: Sequence[ContainerState]) -> str:
    """`Pending`, `Running`, `Succeeded` or `Failed`, by the rules of the kubelet."""
    for init in inits:
        ended = init.state.get(_TERMINATED)
        if ended is None:
            return "Pending"
        if ended["exitCode"]:
            return "Failed" if policy == "Never" else "Pending"
    ends = [each.state.get(_TERMINATED) for each in containers]
    if all(
        end is None and "waiting" in each.state and not each.restarts
        for end, each in zip(ends, containers, strict=True)
    ):
        return "Pending"
    if policy == "Always" or not all(ends):
        return "Running"
    if any(end["exitCode"] for end in ends if end):
        return "Failed" if policy == "Never" else "Running"
    return "Succeeded"


def make_status(
    pod: Object, address: str, host: str, inits: Sequence[ContainerState], containers: Sequence[ContainerState]
) -> Object:
    """The status that the node reports; times of conditions that did not change are kept."""
    phase = find_phase(pod["spec"].get("restartPolicy", "Always"), inits, containers)
    initialized = all(each.state.get(_TERMINATED, {}).get("exitCode") == 0 for each in inits)
    waiting = [each.name for each in containers if not each.ready]
    ready = phase == "Running" and not waiting
    reason = {} if ready else {"reason": "ContainersNotReady", "message": f"containers with unready status: {waiting}"}
    before = {each["type"]: each for each in pod.get("status", {}).get("conditions", [])}
    conditions = []
    for kind, holds in (
        ("PodReadyToStartContainers", True),
        ("Initialized", initialized),
        ("ContainersReady", ready),
        ("Ready", ready),
    ):
        status = "True" if holds else "False"
        changed = before.get(kind, {}).get("status") != status
        since = now() if changed else before[kind]["lastTransitionTime"]
        why = reason if kind in ("ContainersReady", "Ready") else {}
        conditions.append({"type": kind, "status": status, "lastTransitionTime": since, **why})
    kept = [each for kind, each in before.items() if kind not in {condition["type"] for condition in conditions}]
    return {
        "phase": phase,
        "podIP": address,
        "podIPs": [{"ip": address}],
        "hostIP": host,
        "hostIPs": [{"ip": host}],
        "startTime": pod.get("status", {}).get("startTime") or now(),
        "conditions": kept + conditions,
        "initContainerStatuses": [_container_status(each) for each in inits],
        "containerStatuses": [_container_status(each) for each in containers],
    }


def _container_status(container: ContainerState) -> Object:
    return {
        "name": container.name,
        "image": container.image,
        "imageID": "process",
        "ready": container.ready,
        "started": container.started,
        "restartCount": container.restarts,
        "state": container.state,
        "lastState": container.last_state,
        "containerID": container.container_id,
    }
