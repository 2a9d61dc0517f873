"""The fields of custom resources that the manifests use. Their schemas belong to operators and are in no wheel.

A type is `str`, `int`, `bool`, a dict of fields, a list with one type, `{"*": type}` for any name, or `anything`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

anything: Final = object()
"""Fields that the operator passes on as they are."""

_RESOURCES: Final = {"requests": {"*": str}, "limits": {"*": str}}
_SECURITY_CONTEXT: Final = {
    "runAsNonRoot": bool,
    "allowPrivilegeEscalation": bool,
    "capabilities": {"drop": [str]},
    "seccompProfile": {"type": str},
}
_BEHAVIOR: Final = {
    "scaleDown": {
        "stabilizationWindowSeconds": int,
        "policies": [{"type": str, "value": int, "periodSeconds": int}],
    }
}

SPECS: Final[dict[tuple[str, str], Any]] = {
    ("keda.sh/v1alpha1", "ScaledObject"): {
        "scaleTargetRef": {"name": str},
        "pollingInterval": int,
        "minReplicaCount": int,
        "maxReplicaCount": int,
        "fallback": {"failureThreshold": int, "replicas": int},
        "advanced": {"horizontalPodAutoscalerConfig": {"behavior": _BEHAVIOR}},
        # All values of a trigger's metadata are texts.
        "triggers": [{"type": str, "metricType": str, "metadata": {"*": str}}],
    },
    ("kafka.strimzi.io/v1", "Kafka"): {
        "kafka": {
            "listeners": [{"name": str, "port": int, "type": str, "tls": bool, "authentication": {"type": str}}],
            "authorization": {"type": str},
            "config": {"*": anything},
        },
        "entityOperator": {
            "userOperator": {},
            "template": {"userOperatorContainer": {"securityContext": _SECURITY_CONTEXT}},
        },
    },
    ("kafka.strimzi.io/v1", "KafkaNodePool"): {
        "replicas": int,
        "roles": [str],
        "storage": {"type": str, "volumes": [{"id": int, "type": str, "size": str, "kraftMetadata": str}]},
        "resources": _RESOURCES,
        "template": {
            "pod": {
                "topologySpreadConstraints": [
                    {
                        "maxSkew": int,
                        "topologyKey": str,
                        "whenUnsatisfiable": str,
                        "labelSelector": {"matchLabels": {"*": str}},
                    }
                ]
            },
            "kafkaContainer": {"securityContext": _SECURITY_CONTEXT},
        },
    },
    ("kafka.strimzi.io/v1", "KafkaUser"): {
        "authentication": {"type": str},
        "authorization": {
            "type": str,
            "acls": [{"resource": {"type": str, "name": str, "patternType": str}, "operations": [str]}],
        },
    },
    ("postgresql.cnpg.io/v1", "Cluster"): {
        "instances": int,
        "imageName": str,
        "bootstrap": {"initdb": {"database": str, "owner": str}},
        "postgresql": {"parameters": {"*": str}, "synchronous": {"method": str, "number": int}},
        "storage": {"size": str},
        "resources": _RESOURCES,
        "monitoring": {"enablePodMonitor": bool},
    },
    ("monitoring.coreos.com/v1", "PodMonitor"): {
        "selector": {"matchLabels": {"*": str}},
        "podMetricsEndpoints": [{"port": str, "path": str, "interval": str}],
    },
    ("monitoring.coreos.com/v1", "PrometheusRule"): {
        "groups": [
            {
                "name": str,
                "rules": [
                    {"alert": str, "expr": str, "for": str, "labels": {"*": str}, "annotations": {"*": str}},
                ],
            }
        ]
    },
    ("cert-manager.io/v1", "Certificate"): {
        "secretName": str,
        "issuerRef": {"group": str, "kind": str, "name": str},
        "duration": str,
        "renewBefore": str,
        "privateKey": {"algorithm": str, "size": int, "rotationPolicy": str},
        "usages": [str],
        "dnsNames": [str],
    },
}


def find_problems(thing: dict[str, Any]) -> list[str]:
    """What of a custom resource is not as it is known here."""
    spec = SPECS.get((thing["apiVersion"], thing["kind"]))
    if spec is None:
        return [f"{thing['apiVersion']} {thing['kind']} is not known"]
    return list(_compare(thing["spec"], spec, "spec"))


def _compare(value: Any, wanted: Any, where: str) -> Iterator[str]:
    if wanted is anything:
        return
    if isinstance(wanted, dict):
        if not isinstance(value, dict):
            yield f"{where} is no object"
            return
        for key, inner in value.items():
            known = wanted.get(key, wanted.get("*"))
            if known is None:
                yield f"{where}.{key} is not known"
            else:
                yield from _compare(inner, known, f"{where}.{key}")
    elif isinstance(wanted, list):
        if not isinstance(value, list):
            yield f"{where} is no list"
            return
        for number, inner in enumerate(value):
            yield from _compare(inner, wanted[0], f"{where}[{number}]")
    elif type(value) is not wanted:
        yield f"{where} is {value!r}, not of the type {wanted.__name__}"
