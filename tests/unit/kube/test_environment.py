"""Variables of containers: from values, config maps, secrets and fields of the pod."""

from __future__ import annotations

import base64
from typing import Any, cast

import pytest
from kubernetes.client.exceptions import ApiException

from dev.kube.api import Api
from dev.kube.kubelet.environment import expand, field_of, make_environment

POD: dict[str, Any] = {
    "metadata": {"name": "web-1", "namespace": "shop", "uid": "u", "labels": {"app": "web"}},
    "spec": {"nodeName": "node-1", "serviceAccountName": "web"},
    "status": {"podIP": "10.244.1.2", "hostIP": "10.244.0.11"},
}


class KnownObjects:
    """Answers with objects that are there."""

    def __init__(self, **objects: dict[str, Any]) -> None:
        self._objects = objects

    def get(self, path: str) -> dict[str, Any]:
        kind, name = path.split("/")[-2:]
        if f"{kind}_{name}" not in self._objects:
            raise ApiException(status=404)
        return {"data": self._objects[f"{kind}_{name}"]}


def make(container: dict[str, Any], **objects: dict[str, Any]) -> dict[str, str]:
    return make_environment(cast(Api, KnownObjects(**objects)), POD, container)


def test_references_to_variables() -> None:
    assert expand("$(HOST):7450 $$(HOST) $(UNKNOWN)", {"HOST": "a"}) == "a:7450 $(HOST) $(UNKNOWN)"


def test_later_variables_name_earlier_ones() -> None:
    fields = {"valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    made = make({"env": [{"name": "IP", **fields}, {"name": "AT", "value": "$(IP):1"}]})
    assert made["AT"] == "10.244.1.2:1"


def test_config_maps_and_secrets() -> None:
    secret = {"token": base64.b64encode(b"abc").decode()}
    container = {
        "envFrom": [
            {"prefix": "X_", "configMapRef": {"name": "settings"}},
            {"secretRef": {"name": "no", "optional": True}},
        ],
        "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "token"}}}],
    }
    made = make(container, configmaps_settings={"A": "1"}, secrets_tokens=secret)
    assert made["X_A"] == "1"
    assert made["TOKEN"] == "abc"


@pytest.mark.parametrize(
    ("origin", "message"),
    [
        ({"secretKeyRef": {"name": "tokens", "key": "other"}}, "couldn't find key other in secret tokens"),
        ({"secretKeyRef": {"name": "gone", "key": "token"}}, 'secret "gone" not found'),
        ({"fieldRef": {"fieldPath": "status.nothing"}}, "no field status.nothing"),
    ],
)
def test_a_source_that_is_missing(origin: dict[str, Any], message: str) -> None:
    with pytest.raises(LookupError, match=message):
        make({"env": [{"name": "TOKEN", "valueFrom": origin}]}, secrets_tokens={})


def test_labels_are_fields() -> None:
    assert field_of(POD, "metadata.labels['app']") == "web"
