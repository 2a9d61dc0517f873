"""The local overlay on a real control plane: installed with one command, and what admission refuses."""

from __future__ import annotations

import json

import pytest

from dev.kube.lab import Cluster

pytestmark = [pytest.mark.kube, pytest.mark.timeout(600)]


def test_one_command_installs_all_services(cluster: Cluster) -> None:
    (shell,) = cluster.get("pods", "-n", "lakelog", "-l", "app.kubernetes.io/component=shell")["items"]
    output = cluster.execute(shell["metadata"]["name"], "shell", ["lakelog", "status", "--output", "json"])
    services = {each["kind"] for each in json.loads(output)["services"]}
    # The reader's token allows reading alone, so it does not report its presence.
    assert services >= {"metastore", "compactor", "publisher"}


def test_it_can_be_applied_twice(cluster: Cluster) -> None:
    before = cluster.get("deployments", "-n", "lakelog")["items"]
    cluster.kubectl("apply", "-k", "k8s/overlays/local")
    after = cluster.get("deployments", "-n", "lakelog")["items"]
    assert [each["metadata"]["generation"] for each in after] == [each["metadata"]["generation"] for each in before]


def test_the_api_refuses_an_unknown_field(cluster: Cluster) -> None:
    manifest = cluster.kubectl("kustomize", "k8s/overlays/local")
    apply = ["apply", "--server-side", "--force-conflicts", "--dry-run=server", "--validate=strict", "-f", "-"]
    cluster.kubectl(*apply, stdin=manifest)
    misspelt = manifest.replace("terminationGracePeriodSeconds", "terminationGracePeriodSecond")
    with pytest.raises(RuntimeError, match="terminationGracePeriodSecond"):
        cluster.kubectl(*apply, stdin=misspelt)


def test_admission_refuses_what_restricted_pods_must_not_have(cluster: Cluster) -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "intruder", "namespace": "lakelog"},
        "spec": {"containers": [{"name": "root", "image": "lakelog/cli:0.1.0", "command": ["id"]}]},
    }
    with pytest.raises(RuntimeError, match="violates PodSecurity"):
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(pod))
