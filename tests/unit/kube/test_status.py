"""The phase and the conditions of a pod, as the kubelet reports them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from dev.kube.kubelet.status import find_phase, make_status

WAITING = {"waiting": {"reason": "PodInitializing"}}
RUNNING = {"running": {"startedAt": "2026-01-01T00:00:00Z"}}


def ended(code: int) -> dict[str, Any]:
    return {"terminated": {"exitCode": code}}


@dataclass
class Container:
    state: dict[str, Any]
    ready: bool = False
    restarts: int = 0
    name: str = "one"
    image: str = "lakelog/cli:0.1.0"
    last_state: dict[str, Any] = field(default_factory=dict)
    started: bool = True
    container_id: str = "process://1"


@pytest.mark.parametrize(
    ("policy", "inits", "states", "phase"),
    [
        ("Always", [], [WAITING], "Pending"),
        ("Always", [], [RUNNING], "Running"),
        ("Always", [], [RUNNING, WAITING], "Running"),
        ("Always", [WAITING], [WAITING], "Pending"),
        ("Always", [ended(1)], [WAITING], "Pending"),
        ("Never", [ended(1)], [WAITING], "Failed"),
        ("Always", [ended(0)], [RUNNING], "Running"),
        ("Never", [], [ended(0)], "Succeeded"),
        ("Never", [], [ended(0), ended(2)], "Failed"),
        ("OnFailure", [], [ended(0), ended(0)], "Succeeded"),
        ("Never", [], [ended(0), RUNNING], "Running"),
    ],
)
def test_phase(policy: str, inits: list[Any], states: list[Any], phase: str) -> None:
    assert find_phase(policy, [Container(each) for each in inits], [Container(each) for each in states]) == phase


def test_a_container_that_restarts_keeps_its_pod_running() -> None:
    assert find_phase("Always", [], [Container(WAITING, restarts=1)]) == "Running"


def conditions_of(status: dict[str, Any]) -> dict[str, str]:
    return {each["type"]: each["status"] for each in status["conditions"]}


def test_a_pod_is_ready_when_all_its_containers_are() -> None:
    pod: dict[str, Any] = {"spec": {}, "status": {}}
    two = [Container(RUNNING, ready=True), Container(RUNNING, ready=False, name="two")]
    status = make_status(pod, "10.244.1.2", "10.244.0.11", [], two)
    assert conditions_of(status)["Ready"] == "False"
    assert "two" in status["conditions"][-1]["message"]
    two[1].ready = True
    assert conditions_of(make_status(pod, "10.244.1.2", "10.244.0.11", [], two))["Ready"] == "True"


def test_conditions_that_stay_keep_their_time() -> None:
    scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    before = [scheduled, {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T00:00:00Z"}]
    pod: dict[str, Any] = {"spec": {}, "status": {"conditions": before}}
    status = make_status(pod, "10.244.1.2", "10.244.0.11", [], [Container(RUNNING, ready=True)])
    times = {each["type"]: each["lastTransitionTime"] for each in status["conditions"]}
    assert times["PodScheduled"] == "2026-01-01T00:00:00Z"
    assert times["Ready"] == "2026-01-02T00:00:00Z"
