"""etcd, API server, controller manager and scheduler as processes of the cluster's network namespace."""

from __future__ import annotations

import json
import secrets
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

from .network import GATEWAY, SERVICE_RANGE

_ETCD: Final = "http://127.0.0.1:2379"
_ISSUER: Final = "https://kubernetes.default.svc.cluster.local"
_PORT: Final = 443

UNREACHABLE_S: Final = 10
"""How long a node may be silent before it counts as lost: the control plane's own value is 50 s."""


class ControlPlane:
    """A running control plane.

    Args:
        programs: The folder with the built programs.
        folder: Where state, logs and keys go.
    """

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.kubeconfig: Final = folder / "kubeconfig"

    def start(self) -> None:
        """Starts all and waits until the API server is ready; raises RuntimeError with the end of its log."""
        self._folder.mkdir(parents=True, exist_ok=True)
        token = secrets.token_hex(16)
        _write_private(self._folder / "tokens.csv", f"{token},admin,admin,system:masters\n")
        key = self._folder / "service-accounts.key"
        _run("openssl", "genrsa", "-out", str(key), "2048")
        certificates = self._folder / "certificates"
        _write_kubeconfig(self.kubeconfig, certificates / "apiserver.crt", token)
        peers = "http://127.0.0.1:2380"
        self._start(
            "etcd",
            *("--name", "only", "--data-dir", str(self._folder / "etcd"), "--unsafe-no-fsync", "--log-level", "error"),
            *("--listen-client-urls", _ETCD, "--advertise-client-urls", _ETCD),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"only={peers}"),
        )
        self._start(
            "kube-apiserver",
            f"--etcd-servers={_ETCD}",
            f"--bind-address={GATEWAY}",
            f"--advertise-address={GATEWAY}",
            f"--secure-port={_PORT}",
            f"--cert-dir={certificates}",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--service-account-issuer={_ISSUER}",
            "--authorization-mode=Node,RBAC",
            f"--token-auth-file={self._folder / 'tokens.csv'}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            "--kubelet-preferred-address-types=InternalIP",
            # Else a pod would stay on a lost node for five minutes.
            f"--default-not-ready-toleration-seconds={UNREACHABLE_S}",
            f"--default-unreachable-toleration-seconds={UNREACHABLE_S}",
            "--enable-aggregator-routing=true",
        )
        self._wait_until_ready(token)
        certificate = certificates / "apiserver.crt"
        self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.kubeconfig}",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={certificate}",
            "--use-service-account-credentials=true",
            "--secure-port=0",
            "--leader-elect=false",
            f"--node-monitor-grace-period={UNREACHABLE_S}s",
            "--node-monitor-period=1s",
            # Decisions of autoscalers in seconds instead of minutes, by the same rules.
            "--horizontal-pod-autoscaler-sync-period=2s",
            "--horizontal-pod-autoscaler-downscale-stabilization=10s",
        )
        self._start("kube-scheduler", f"--kubeconfig={self.kubeconfig}", "--secure-port=0", "--leader-elect=false")

    def failed(self) -> str | None:
        """The program that has ended by itself, with the end of its log; None: all run."""
        for name, process in self._running.items():
            if process.poll() is not None:
                return f"{name} ended with status {process.returncode}: {self._end_of_log(name)}"
        return None

    def stop(self) -> None:
        """Ends all, the API server before its database."""
        for process in reversed(self._running.values()):
            process.terminate()
        for process in reversed(self._running.values()):
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()

    def _start(self, name: str, *arguments: str) -> None:
        with (self._folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [str(self._programs / name), *arguments], stdout=log, stderr=subprocess.STDOUT, cwd=self._folder
            )

    def _wait_until_ready(self, token: str) -> None:
        request = urllib.request.Request(
            f"https://{GATEWAY}:{_PORT}/readyz", headers={"Authorization": f"Bearer {token}"}
        )
        # Only asks for readiness; all others check the certificate.
        context = ssl._create_unverified_context()
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            failed = self.failed()
            if failed is not None:
                raise RuntimeError(failed)
            try:
                with urllib.request.urlopen(request, timeout=2, context=context):
                    return
            except (OSError, urllib.error.URLError):
                time.sleep(0.1)
        raise RuntimeError(f"The API server is not ready after 120 s: {self._end_of_log('kube-apiserver')}")

    def _end_of_log(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text(errors="replace")[-2000:].strip()


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


def _write_private(path: Path, text: str) -> None:
    path.touch(0o600)
    path.write_text(text)


def _write_kubeconfig(path: Path, authority: Path, token: str) -> None:
    # JSON is YAML, so that every client reads it.
    cluster = {"server": f"https://{GATEWAY}:{_PORT}", "certificate-authority": str(authority)}
    contents = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "local", "cluster": cluster}],
        "users": [{"name": "admin", "user": {"token": token}}],
        "contexts": [{"name": "local", "context": {"cluster": "local", "user": "admin"}}],
        "current-context": "local",
    }
    _write_private(path, json.dumps(contents))
