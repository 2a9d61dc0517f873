"""`python -m dev.kube.kubelet NUMBER FOLDER KUBECONFIG NAMES`: node NUMBER, until it is killed."""

from __future__ import annotations

import datetime
import json
import sys
import threading
import time
from pathlib import Path
from typing import Final

from dev.kube import network
from dev.kube.api import Api, ApiException, Object

from .log_endpoint import PORT, serve_logs
from .pod_run import PodRun
from .status import now

_BEAT_S: Final = 2.0
_HOSTS_S: Final = 0.1
_LEASES: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


class Node:
    """A node and its pods.

    Args:
        api: The API server.
        number: Counted from 1.
        folder: Where everything of its pods goes.
        names: The file with the addresses of services.
    """

    def __init__(self, api: Api, number: int, folder: Path, names: Path) -> None:
        self.name: Final = f"node-{number}"
        self.address: Final = network.node_address(number)
        self._api = api
        self._folder = folder
        self._names = names
        self._free = list(network.pod_addresses(number))
        self.pods: Final[dict[str, PodRun]] = {}

    def run(self) -> None:
        """Registers the node, then runs what is bound to it."""
        network.add_address(self.address)
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}
        labels["topology.kubernetes.io/zone"] = f"zone-{self.name}"
        self._api.ensure(
            "/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.name, "labels": labels}}
        )
        self._beat()
        serve_logs(self.address, self._folder, self.pods)
        for work in (self._beat_for_ever, self._write_hosts_for_ever):
            threading.Thread(target=work, daemon=True).start()
        while True:
            self._follow()

    def _follow(self) -> None:
        seen: set[str] | None = set()
        for event, pod in self._api.watch("/api/v1/pods", fieldSelector=f"spec.nodeName={self.name}"):
            if event == "SYNCED":
                for uid in set(self.pods) - (seen or set()):
                    self.pods[uid].delete(self.pods[uid].pod)
                seen = None
                continue
            uid = pod["metadata"]["uid"]
            if seen is not None:
                seen.add(uid)
            self._take(event, uid, pod)

    def _take(self, event: str, uid: str, pod: Object) -> None:
        known = self.pods.get(uid)
        if known is None:
            ended = pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
            if event != "DELETED" and not ended:
                self._start(uid, pod)
            known = self.pods.get(uid)
        if known is not None and (event == "DELETED" or "deletionTimestamp" in pod["metadata"]):
            known.delete(pod)

    def _start(self, uid: str, pod: Object) -> None:
        address = self._free.pop(0)

        def done() -> None:
            self.pods.pop(uid, None)
            self._free.append(address)

        name = f"{pod['metadata']['namespace']}_{pod['metadata']['name']}_{uid[:8]}"
        run = PodRun(self._api, pod, address, self.address, self._folder / name, self._write_hosts, done)
        self.pods[uid] = run
        run.start()

    def _write_hosts(self, pod: Object, address: str, folder: Path) -> None:
        """Writes names and addresses that a pod can look up: itself and all services."""
        known = json.loads(self._names.read_text()) if self._names.exists() else {}
        lines = ["127.0.0.1 localhost", f"{address} {pod['metadata']['name']}"]
        for namespace, services in known.items():
            for service, addresses in services.items():
                full = f"{service}.{namespace}.svc"
                names = f"{full}.cluster.local {full} {service}.{namespace}"
                if namespace == pod["metadata"]["namespace"]:
                    names += f" {service}"
                lines += [f"{each} {names}" for each in addresses]
        text = "\n".join(lines) + "\n"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / "hosts"
        if not path.exists() or path.read_text() != text:
            (folder / "new").write_text(text)
            (folder / "new").replace(path)

    def _write_hosts_for_ever(self) -> None:
        written = 0.0
        while True:
            changed = self._names.stat().st_mtime if self._names.exists() else 0.0
            if changed != written:
                for pod in list(self.pods.values()):
                    pod.write_hosts()
                written = changed
            time.sleep(_HOSTS_S)

    def _beat_for_ever(self) -> None:
        while True:
            try:
                self._beat()
            except (ApiException, OSError) as error:
                print(f"heartbeat: {error}", file=sys.stderr)
            time.sleep(_BEAT_S)

    def _beat(self) -> None:
        room = {"cpu": "16", "memory": "32Gi", "pods": "100", "ephemeral-storage": "100Gi"}
        ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "", "lastHeartbeatTime": now()}
        status = {
            "capacity": room,
            "allocatable": room,
            "addresses": [{"type": "InternalIP", "address": self.address}, {"type": "Hostname", "address": self.name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": PORT}},
            "nodeInfo": _node_info(),
        }
        node = self._api.get(f"/api/v1/nodes/{self.name}")
        before = {each["type"]: each for each in node.get("status", {}).get("conditions", [])}.get("Ready", {})
        ready["lastTransitionTime"] = before["lastTransitionTime"] if before.get("status") == "True" else now()
        self._api.patch(f"/api/v1/nodes/{self.name}/status", {"status": {**status, "conditions": [ready]}})
        instant = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        lease = {"holderIdentity": self.name, "leaseDurationSeconds": 10, "renewTime": instant}
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self.name, "namespace": "kube-node-lease"},
            "spec": lease,
        }
        self._api.ensure(
            "/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-node-lease"}}
        )
        self._api.ensure(_LEASES, body)
        self._api.patch(f"{_LEASES}/{self.name}", {"spec": lease})


def _node_info() -> Object:
    unknown = ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeletVersion", "kubeProxyVersion")
    return {
        **dict.fromkeys(unknown, "process"),
        "containerRuntimeVersion": "process://1",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


if __name__ == "__main__":
    _number, _folder, _kubeconfig, _names = sys.argv[1:]
    Node(Api(_kubeconfig), int(_number), Path(_folder), Path(_names)).run()
