"""The volumes of a pod as folders of the node."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dev.kube.api import NOT_FOUND, Api, ApiException, Object

from .environment import field_of

_TOKEN_AUDIENCE_S: Final = 3607


class Volumes:
    """The folders of one pod's volumes.

    Args:
        api: The API server.
        pod: The pod.
        folder: Where the folders are made.
    """

    def __init__(self, api: Api, pod: Object, folder: Path) -> None:
        self._api = api
        self._pod = pod
        self._folder = folder
        self._namespace = pod["metadata"]["namespace"]
        self._projected: dict[str, Callable[[], dict[str, tuple[bytes, int]]]] = {}
        self._written: dict[str, dict[str, tuple[bytes, int]]] = {}
        self._generation = 0

    def prepare(self) -> None:
        """Makes all folders; raises ApiException or LookupError if a source is not there (yet)."""
        for volume in self._pod["spec"].get("volumes", []):
            self._prepare(volume)

    def path_of(self, name: str) -> Path:
        """The folder of a volume."""
        for volume in self._pod["spec"].get("volumes", []):
            if volume["name"] == name:
                if "persistentVolumeClaim" in volume:
                    return self._claimed(volume["persistentVolumeClaim"]["claimName"])
                if "hostPath" in volume:
                    return Path(volume["hostPath"]["path"])
        return self._folder / name

    def refresh(self) -> None:
        """Brings config maps, secrets and tokens up to date, each volume as a whole."""
        for name, read in self._projected.items():
            files = read()
            if files != self._written.get(name):
                self._write(self._folder / name, files)
                self._written[name] = files

    def remove(self) -> None:
        """Unmounts what is in memory."""
        for volume in self._pod["spec"].get("volumes", []):
            if volume.get("emptyDir", {}).get("medium") == "Memory":
                subprocess.run(["umount", str(self._folder / volume["name"])], check=False, capture_output=True)

    def _prepare(self, volume: Object) -> None:
        name, path = volume["name"], self._folder / volume["name"]
        if "emptyDir" in volume:
            path.mkdir(parents=True, exist_ok=True)
            if volume["emptyDir"].get("medium") == "Memory" and not os.path.ismount(path):
                size = volume["emptyDir"].get("sizeLimit", "64Mi").replace("i", "").lower()
                subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)
            path.chmod(0o777)
        elif "persistentVolumeClaim" in volume:
            self._own(self._claimed(volume["persistentVolumeClaim"]["claimName"]))
        elif "configMap" in volume or "secret" in volume:
            self._project(name, [{kind: volume[kind] for kind in ("configMap", "secret") if kind in volume}])
        elif "projected" in volume:
            self._project(name, volume["projected"]["sources"], volume["projected"].get("defaultMode"))
        elif "downwardAPI" in volume:
            self._project(name, [{"downwardAPI": volume["downwardAPI"]}])
        elif "hostPath" not in volume:
            raise LookupError(f"volume {name} is of a kind that this node does not have: {sorted(volume)}")

    def _own(self, path: Path) -> None:
        group = self._pod["spec"].get("securityContext", {}).get("fsGroup")
        if group is not None and os.geteuid() == 0 and path.stat().st_gid != group:
            os.chown(path, -1, group)
            path.chmod(0o2775)

    def _claimed(self, claim: str) -> Path:
        found = self._api.get(f"/api/v1/namespaces/{self._namespace}/persistentvolumeclaims/{claim}")
        if found.get("status", {}).get("phase") != "Bound":
            raise LookupError(f"persistentvolumeclaim {claim} is not bound")
        volume = self._api.get(f"/api/v1/persistentvolumes/{found['spec']['volumeName']}")
        return Path(volume["spec"]["hostPath"]["path"])

    def _project(self, name: str, sources: list[Object], mode: int | None = None) -> None:
        def read() -> dict[str, tuple[bytes, int]]:
            files: dict[str, tuple[bytes, int]] = {}
            for source in sources:
                ((kind, spec),) = source.items()
                files |= self._read(kind, spec, mode or spec.get("defaultMode") or 0o644)
            return files

        self._projected[name] = read
        (self._folder / name).mkdir(parents=True, exist_ok=True)
        self.refresh()

    def _read(self, kind: str, spec: Object, mode: int) -> dict[str, tuple[bytes, int]]:
        if kind == "serviceAccountToken":
            return {spec["path"]: (self._token(spec).encode(), mode)}
        if kind == "downwardAPI":
            return {
                item["path"]: (field_of(self._pod, item["fieldRef"]["fieldPath"]).encode(), mode)
                for item in spec["items"]
            }
        is_secret = kind == "secret"
        name = spec["secretName"] if "secretName" in spec else spec["name"]
        found = self._find(f"{kind.lower()}s", name, spec.get("optional", False))
        data = {key: base64.b64decode(text) if is_secret else text.encode() for key, text in found.items()}
        if "items" not in spec:
            return {key: (contents, mode) for key, contents in data.items()}
        missing = [item["key"] for item in spec["items"] if item["key"] not in data]
        if missing and not spec.get("optional", False):
            raise LookupError(f"{kind} {name} has no key {missing[0]}")
        return {
            item["path"]: (data[item["key"]], item.get("mode", mode)) for item in spec["items"] if item["key"] in data
        }

    def _find(self, kind: str, name: str, optional: bool) -> dict[str, Any]:
        try:
            data: dict[str, Any] = self._api.get(f"/api/v1/namespaces/{self._namespace}/{kind}/{name}").get("data", {})
            return data
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise
            if optional:
                return {}
            raise LookupError(f"{kind[:-1]} {name} not found") from None

    def _token(self, spec: Object) -> str:
        account = self._pod["spec"].get("serviceAccountName", "default")
        made = self._api.create(
            f"/api/v1/namespaces/{self._namespace}/serviceaccounts/{account}/token",
            {
                "apiVersion": "authentication.k8s.io/v1",
                "kind": "TokenRequest",
                "spec": {
                    "audiences": [spec["audience"]] if "audience" in spec else [],
                    "expirationSeconds": spec.get("expirationSeconds", _TOKEN_AUDIENCE_S),
                    "boundObjectRef": {
                        "apiVersion": "v1",
                        "kind": "Pod",
                        "name": self._pod["metadata"]["name"],
                        "uid": self._pod["metadata"]["uid"],
                    },
                },
            },
        )
        token: str = made["status"]["token"]
        return token

    def _write(self, path: Path, files: dict[str, tuple[bytes, int]]) -> None:
        """Writes all files of a volume at once: a new folder, to which the link `..data` then points."""
        self._generation += 1
        version = f"..{self._generation}"
        for name, (contents, mode) in files.items():
            target = path / version / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(contents)
            target.chmod(mode)
            self._own_file(target)
        (path / version).mkdir(exist_ok=True)
        link = path / "..new"
        link.symlink_to(version)
        link.replace(path / "..data")
        for name in files:
            first = Path(name).parts[0]
            if not (path / first).is_symlink():
                (path / first).symlink_to(f"..data/{first}")

    def _own_file(self, path: Path) -> None:
        group = self._pod["spec"].get("securityContext", {}).get("fsGroup")
        if group is not None and os.geteuid() == 0:
            os.chown(path, -1, group)
            path.chmod(path.stat().st_mode | 0o040)
