"""Deployments that cannot work: their pods say why, in one line that `kubectl describe` shows."""

from __future__ import annotations

import base64
import copy
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from dev.kube.lab import Cluster
from tests.support.certificates import TestAuthority

pytestmark = [pytest.mark.kube, pytest.mark.timeout(300)]

COMPONENT = "app.kubernetes.io/component"
WAIT_S = 90.0


@contextmanager
def broken_metastore(
    cluster: Cluster, change: Callable[[dict[str, Any]], None], *, of: str = "metastore"
) -> Iterator[None]:
    """A further metastore, or another service, with a change to its pods, under another name."""
    found = cluster.get(f"deployment/{of}", "-n", "lakelog")
    labels = {"app": "broken"}
    template = copy.deepcopy(found["spec"]["template"])
    template["metadata"]["labels"] = labels
    change(template["spec"])
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "broken", "namespace": "lakelog"},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": template},
    }
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(deployment))
    try:
        yield
    finally:
        cluster.kubectl("delete", "deployment/broken", "-n", "lakelog")


def set_variable(spec: dict[str, Any], name: str, value: str) -> None:
    for container in spec["initContainers"] + spec["containers"]:
        others = [each for each in container.get("env", []) if each["name"] != name]
        container["env"] = [*others, {"name": name, "value": value}]


def wait_for_reason(cluster: Cluster, words: str) -> str:
    """The one line that says why the pod is not ready: of a container that ended, or of an event."""
    deadline = time.monotonic() + WAIT_S
    said: list[str] = []
    while time.monotonic() < deadline:
        pods = cluster.get("pods", "-n", "lakelog", "-l", "app=broken")["items"]
        statuses = [
            each
            for pod in pods
            for kind in ("initContainerStatuses", "containerStatuses")
            for each in pod["status"].get(kind, [])
        ]
        said = [
            each[state].get("terminated", {}).get("message", "")
            for each in statuses
            for state in ("state", "lastState")
        ]
        events = cluster.get("events", "-n", "lakelog", "--field-selector", "type=Warning")["items"]
        names = {pod["metadata"]["name"] for pod in pods}
        said += [each["message"] for each in events if each["involvedObject"]["name"] in names]
        for line in said:
            if words in line:
                return line
        time.sleep(0.5)
    raise AssertionError(f"no line with {words!r}: {said}")


def test_a_wrong_password(cluster: Cluster) -> None:
    def change(spec: dict[str, Any]) -> None:
        set_variable(spec, "LAKELOG_DATABASE_URL", "postgresql://lakelog:wr0ng-s3cret@postgres:5432/lakelog")

    with broken_metastore(cluster, change):
        line = wait_for_reason(cluster, "password authentication failed")
    assert "\n" not in line
    assert "wr0ng-s3cret" not in line


def test_a_database_that_a_newer_version_has_migrated(cluster: Cluster) -> None:
    def run_sql(database: str, sql: str) -> None:
        command = ["sh", "-c", f'"$POSTGRES_PROGRAMS/psql" -v ON_ERROR_STOP=1 -U lakelog -d {database} -c "$0"', sql]
        cluster.execute("postgres-0", "postgres", command)

    run_sql("lakelog", "CREATE DATABASE newer")
    run_sql("newer", "CREATE TABLE lakelog_schema_version (version_num varchar(32) PRIMARY KEY)")
    run_sql("newer", "INSERT INTO lakelog_schema_version VALUES ('9999_of_another_time')")
    (secret,) = [
        each
        for each in cluster.get("secrets", "-n", "lakelog")["items"]
        if each["metadata"]["name"] == "postgres-password"
    ]

    def change(spec: dict[str, Any]) -> None:
        set_variable(spec, "LAKELOG_DATABASE_URL", "postgresql://lakelog:$(PASSWORD)@postgres:5432/newer")
        for container in spec["initContainers"] + spec["containers"]:
            reference = {"name": secret["metadata"]["name"], "key": "password"}
            container["env"].insert(0, {"name": "PASSWORD", "valueFrom": {"secretKeyRef": reference}})

    with broken_metastore(cluster, change):
        line = wait_for_reason(cluster, "9999_of_another_time")
    assert "\n" not in line


def test_a_warehouse_that_does_not_answer(cluster: Cluster) -> None:
    with broken_metastore(cluster, lambda spec: set_variable(spec, "LAKELOG_S3_ENDPOINT", "http://s3:9")):
        line = wait_for_reason(cluster, "warehouse")
    assert "\n" not in line


def test_a_setting_that_is_not_possible(cluster: Cluster) -> None:
    with broken_metastore(cluster, lambda spec: set_variable(spec, "LAKELOG_CALLER_SHARE", "2")):
        line = wait_for_reason(cluster, "caller-share")
    assert "\n" not in line


def test_a_secret_that_is_missing(cluster: Cluster) -> None:
    def change(spec: dict[str, Any]) -> None:
        for volume in spec["volumes"]:
            if volume["name"] == "tls":
                volume["secret"]["secretName"] = "no-such-secret"

    with broken_metastore(cluster, change):
        assert wait_for_reason(cluster, "no-such-secret")


def test_an_image_without_a_version_is_refused_by_the_node(cluster: Cluster) -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["initContainers"][0]["image"] = "lakelog/metastore:latest"

    with broken_metastore(cluster, change):
        assert wait_for_reason(cluster, "names no version")


@contextmanager
def secret(cluster: Cluster, name: str, **contents: bytes) -> Iterator[None]:
    """A Secret of the namespace; in names of entries `__` stands for a dot."""
    data = {key.replace("__", "."): base64.b64encode(value).decode() for key, value in contents.items()}
    made = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name, "namespace": "lakelog"}, "data": data}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(made))
    try:
        yield
    finally:
        cluster.kubectl("delete", f"secret/{name}", "-n", "lakelog")


def mount(spec: dict[str, Any], volume: str, name: str) -> None:
    (found,) = [each for each in spec["volumes"] if each["name"] == volume]
    found["secret"] = {"secretName": name, "defaultMode": 0o440}


def test_a_certificate_that_has_expired(cluster: Cluster, tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    old = authority.issue("metastore", days=-1)
    files = {"tls__crt": old.certificate, "tls__key": old.key, "ca__crt": authority.ca.certificate}
    with (
        secret(cluster, "expired-tls", **{name: path.read_bytes() for name, path in files.items()}),
        broken_metastore(cluster, lambda spec: mount(spec, "tls", "expired-tls")),
    ):
        line = wait_for_reason(cluster, "has expired")
    assert "\n" not in line
    assert "--tls-cert" in line


def test_a_token_that_no_one_knows(cluster: Cluster) -> None:
    with (
        secret(cluster, "foreign-token", token=b"canary-0123456789abcdef0123456789abcdef"),
        broken_metastore(cluster, lambda spec: mount(spec, "token", "foreign-token"), of="compactor"),
    ):
        # Its log; the last line says why it ended.
        line = wait_for_reason(cluster, "not known").strip().splitlines()[-1]
    assert "token" in line
    assert "not known" in line
    assert "canary" not in line
