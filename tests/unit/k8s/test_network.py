"""Who reaches whom under the network policies: each service what it needs, and nothing else."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from tests.unit.k8s.manifests import Object, build, labels, of_kind, selects, templates

SERVICES = ("writer", "publisher", "compactor", "reader", "reader-streams", "console")


def pod(component: str) -> Mapping[str, str]:
    return {"app.kubernetes.io/component": component, "app.kubernetes.io/part-of": "lakelog"}


def may_enter(objects: Sequence[Object], component: str, port: int, source: Mapping[str, str], namespace: str) -> bool:
    """Whether a pod lets another one in.

    Args:
        objects: The manifests.
        component: The pod that is to be reached.
        port: Its port.
        source: The labels of the other pod.
        namespace: The label of its namespace, `key=value`; empty: it is the same namespace.
    """
    target = next(
        labels(each) for _, each in templates(objects) if labels(each)["app.kubernetes.io/component"] == component
    )
    names = {
        each["containerPort"]: each["name"]
        for _, template in templates(objects)
        if labels(template)["app.kubernetes.io/component"] == component
        for container in template["spec"]["containers"]
        for each in container.get("ports", ())
    }
    chosen = [
        each["spec"] for each in of_kind(objects, "NetworkPolicy") if selects(each["spec"]["podSelector"], target)
    ]
    chosen = [each for each in chosen if "Ingress" in each["policyTypes"]]
    if not chosen:
        return True
    return any(
        any(_is_from(peer, source, namespace) for peer in rule["from"])
        and any(each["port"] in (port, names.get(port)) for each in rule["ports"])
        for each in chosen
        for rule in each.get("ingress", ())
    )


def _is_from(peer: Any, source: Mapping[str, str], namespace: str) -> bool:
    if "namespaceSelector" in peer:
        key, _, value = namespace.partition("=")
        return selects(peer["namespaceSelector"], {key: value})
    return not namespace and selects(peer["podSelector"], source)


def reachable(objects: Sequence[Object], component: str, port: int) -> set[str]:
    """Which pods of lakelog, and which namespaces, reach a port."""
    others = ("metastore", *SERVICES, "shell", "executor", "log")
    found = {name for name in others if may_enter(objects, component, port, pod(name), "")}
    outside = ("lakelog.io/client=true", "lakelog.io/monitoring=true", "kubernetes.io/metadata.name=other")
    return found | {name for name in outside if may_enter(objects, component, port, {}, name)}


@pytest.mark.parametrize(
    ("component", "port", "wanted"),
    [
        ("metastore", 7450, {*SERVICES, "shell", "lakelog.io/client=true"}),
        ("metastore", 9090, {"lakelog.io/monitoring=true"}),
        ("metastore", 7451, set()),
        ("reader", 7460, {"shell", "lakelog.io/client=true"}),
        ("console", 7480, {"shell", "lakelog.io/client=true"}),
        ("console", 9090, {"lakelog.io/monitoring=true"}),
        ("writer", 9090, {"lakelog.io/monitoring=true"}),
        ("database", 5432, {"metastore"}),
        (
            "log",
            9092,
            # Batches are read on executors.
            {*SERVICES, "metastore", "executor", "shell", "lakelog.io/client=true"} - {"compactor"},
        ),
        ("log", 9093, set()),
        ("warehouse", 8333, {"metastore", *SERVICES, "shell", "executor", "lakelog.io/client=true"}),
        ("warehouse", 9333, set()),
    ],
)
def test_each_port_is_reached_by_those_that_need_it(component: str, port: int, wanted: set[str]) -> None:
    assert reachable(build("local"), component, port) == wanted


def test_control_without_the_rule_that_refuses_all_everything_is_open() -> None:
    objects = [each for each in build("local") if each["metadata"]["name"] not in ("deny-all", "database")]
    assert "kubernetes.io/metadata.name=other" in reachable(objects, "database", 5432)


def test_control_without_its_own_rule_a_port_is_closed_to_all() -> None:
    objects = [
        each for each in build("local") if each["metadata"]["name"] != "database" or each["kind"] != "NetworkPolicy"
    ]
    assert reachable(objects, "database", 5432) == set()


def test_all_pods_are_under_the_rule_that_refuses_all() -> None:
    for variant in ("local", "production"):
        objects = copy.deepcopy(build(variant))
        (deny,) = [each for each in of_kind(objects, "NetworkPolicy") if each["metadata"]["name"] == "deny-all"]
        assert deny["spec"]["policyTypes"] == ["Ingress", "Egress"]
        for owner, template in templates(objects):
            assert selects(deny["spec"]["podSelector"], labels(template)), owner["metadata"]["name"]


def test_only_jobs_that_need_it_reach_the_api() -> None:
    local = [each for each in of_kind(build("local"), "NetworkPolicy") if "api" in each["metadata"]["name"]]
    assert [each["spec"]["podSelector"]["matchExpressions"][0]["values"] for each in local] == [["credentials"]]


CNPG_POD = {"app.kubernetes.io/name": "postgresql", "app.kubernetes.io/component": "database", "cnpg.io/cluster": "x"}
"""Some labels that the operator of Postgres gives to its own pods."""


def policies_of(objects: Sequence[Object], found: Mapping[str, str]) -> list[str]:
    """The names of the policies that select a pod, or let it in."""
    return [
        each["metadata"]["name"]
        for each in of_kind(objects, "NetworkPolicy")
        for selector in (each["spec"]["podSelector"], *_peers(each))
        if selects(selector, found)
    ]


def _peers(policy: Object) -> list[Object]:
    rules = policy["spec"].get("ingress", ())
    return [peer["podSelector"] for rule in rules for peer in rule["from"] if "podSelector" in peer]


def test_pods_of_operators_are_under_no_rule_of_lakelog() -> None:
    objects = copy.deepcopy(build("production+cloudnativepg"))
    assert policies_of(objects, CNPG_POD) == []
    (cluster,) = of_kind(objects, "Cluster")
    assert "app.kubernetes.io/part-of" not in labels(cluster), "the operator may hand it on to its pods"
    # Control: with the component alone, the policy for the local overlay's Postgres selects them.
    (database,) = [each for each in of_kind(objects, "NetworkPolicy") if each["metadata"]["name"] == "database"]
    del database["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/part-of"]
    assert policies_of(objects, CNPG_POD) == ["database"]


def test_the_api_is_reached_where_its_own_port_is_another_one() -> None:
    policies = of_kind(build("local+spark-executors"), "NetworkPolicy")
    found = {each["metadata"]["name"]: each["spec"] for each in policies if each["metadata"]["name"].endswith("to-api")}
    ports = {name: [port["port"] for port in spec["egress"][0]["ports"]] for name, spec in found.items()}
    known = [443, 6443, 8443, 16443]
    assert ports == {"to-api": known, "spark-to-api": known}
