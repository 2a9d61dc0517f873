"""Volumes: each claim of the class `standard` gets a folder, which pods of all nodes can use."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Final

from .api import Api, Object

_CLASS: Final = "standard"
_PROVISIONER: Final = "kube.lakelog/folders"


class Storage:
    """Makes volumes for claims.

    Args:
        api: The API server.
        folder: Where their folders are.
    """

    def __init__(self, api: Api, folder: Path) -> None:
        self._api = api
        self._folder = folder

    def start(self) -> None:
        """Makes the class, the default one, and begins to follow claims."""
        self._api.ensure(
            "/apis/storage.k8s.io/v1/storageclasses",
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {
                    "name": _CLASS,
                    "annotations": {"storageclass.kubernetes.io/is-default-class": "true"},
                },
                "provisioner": _PROVISIONER,
                "reclaimPolicy": "Delete",
            },
        )
        threading.Thread(target=self._follow, daemon=True).start()

    def _follow(self) -> None:
        while True:
            for event, claim in self._api.watch("/api/v1/persistentvolumeclaims"):
                is_open = event in ("ADDED", "MODIFIED") and "volumeName" not in claim["spec"]
                if is_open and claim["spec"].get("storageClassName") == _CLASS:
                    self._provision(claim)

    def _provision(self, claim: Object) -> None:
        meta = claim["metadata"]
        name = f"pvc-{meta['uid']}"
        path = self._folder / name
        path.mkdir(parents=True, exist_ok=True)
        path.chmod(0o777)
        self._api.ensure(
            "/api/v1/persistentvolumes",
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": _PROVISIONER}},
                "spec": {
                    "storageClassName": _CLASS,
                    "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                    "accessModes": claim["spec"]["accessModes"],
                    "persistentVolumeReclaimPolicy": "Retain",
                    "hostPath": {"path": str(path)},
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        **{key: meta[key] for key in ("name", "namespace", "uid")},
                    },
                },
            },
        )
