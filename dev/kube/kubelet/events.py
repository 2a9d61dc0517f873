"""Events of pods, as `kubectl describe` and `kubectl get events` show them."""

from __future__ import annotations

import uuid

from dev.kube.api import Api, ApiException, Object

from .status import now


def post_event(api: Api, pod: Object, kind: str, reason: str, message: str) -> None:
    """Posts an event; an event that is lost is no error."""
    meta = pod["metadata"]
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{meta['name'][:200]}.{uuid.uuid4().hex[:16]}", "namespace": meta["namespace"]},
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            **{key: meta[key] for key in ("name", "namespace", "uid")},
        },
        "type": kind,
        "reason": reason,
        "message": message[:1000],
        "count": 1,
        "firstTimestamp": now(),
        "lastTimestamp": now(),
        "source": {"component": "kubelet", "host": pod["spec"]["nodeName"]},
    }
    try:
        api.create(f"/api/v1/namespaces/{meta['namespace']}/events", event)
    except ApiException:
        # For instance because the namespace is going.
        return
