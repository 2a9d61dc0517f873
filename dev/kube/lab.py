"""A cluster of one's own, for a test or an afternoon: started, entered and ended from outside of its namespaces."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from .binaries import missing_programs

_ROOT: Final = Path(__file__).resolve().parents[2]
_START_S: Final = 60.0


def why_not() -> str:
    """Why this machine cannot run a cluster; empty: it can."""
    missing = missing_programs()
    if missing:
        return (
            f"the control plane is not built ({', '.join(missing)}); `./run kube build` does that where go is present"
        )
    probe = ["ip", "link", "add", "kube0", "type", "bridge"]
    try:
        done = subprocess.run([*_separate(), *probe], capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        return f"{error.filename} is not installed (util-linux and iproute2 have what is needed)"
    return f"network namespaces cannot be made here: {done.stderr.strip()[:200]}" if done.returncode else ""


class Cluster:
    """A running cluster. A context manager; its end takes all of its processes.

    Args:
        folder: Where state and logs go.
        nodes: How many nodes.
    """

    def __init__(self, folder: Path, nodes: int = 2) -> None:
        self.folder: Final = folder
        folder.mkdir(parents=True, exist_ok=True)
        # Users in containers must get through to their volumes.
        folder.chmod(0o755)
        with (folder / "cluster.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*_separate(), sys.executable, "-m", "dev.kube.cluster", str(folder), str(nodes)],
                # The cluster ends when this end of the pipe is closed: also if this process is killed.
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=_ROOT,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
            )
        deadline = time.monotonic() + _START_S
        while not (folder / "ready").exists():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.close()
                raise RuntimeError(f"The cluster did not start: {(folder / 'cluster.log').read_text()[-2000:]}")
            time.sleep(0.05)
        process = self._process.pid
        self._pid = Path(f"/proc/{process}/task/{process}/children").read_text().split()[0]
        (folder / "pid").write_text(self._pid)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends the cluster."""
        self._process.kill()
        self._process.communicate()

    def wait(self) -> int:
        """Waits for the cluster's end, and returns its exit code."""
        return self._process.wait()

    def enter(self, command: Sequence[str]) -> list[str]:
        """A command that runs on the cluster's network, as the machine's own user."""
        user = [] if os.geteuid() == 0 else ["-U", "--preserve-credentials"]
        return ["nsenter", "-t", self._pid, *user, "-n", "--", *command]

    def kubectl(self, *arguments: str, stdin: str | None = None, timeout_s: float = 120) -> str:
        """Runs kubectl and returns its output; raises RuntimeError with its error."""
        kubectl = str(Path(sys.executable).parent / "kubectl")
        configuration = str(self.folder / "control-plane/kubeconfig")
        done = subprocess.run(
            self.enter([kubectl, f"--kubeconfig={configuration}", *arguments]),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
            cwd=_ROOT,
        )
        if done.returncode:
            raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
        return done.stdout

    def get(self, *arguments: str) -> Any:
        """An object or a list, as JSON."""
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def kill_node(self, number: int) -> None:
        """Loses a node at once, with all pods on it."""
        self._signal_node(number, signal.SIGKILL)

    def freeze_node(self, number: int, frozen: bool = True) -> None:
        """Stops the node's own process, or lets it go on; its pods run all the while."""
        self._signal_node(number, signal.SIGSTOP if frozen else signal.SIGCONT)

    def start_node(self, number: int) -> None:
        """Starts a node that was killed, or a new one."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number}\n".encode())
        self._process.stdin.flush()

    def signal_pods(self, selector: str, number: int, namespace: str = "lakelog") -> int:
        """Sends a signal to the first process of each container of the pods that match.

        Returns:
            How many processes got it.
        """
        found = [
            pid
            for pod in self.get("pods", "-n", namespace, "-l", selector)["items"]
            for pid, _ in _find_first_processes(self.folder, namespace, pod["metadata"]["name"], "[^/]+")
        ]
        for pid in found:
            os.kill(pid, number)
        return len(found)

    def execute(self, pod: str, container: str, command: Sequence[str], namespace: str = "lakelog") -> str:
        """Runs a command in a container, with its variables, and returns its output; raises RuntimeError."""
        ((pid, spec),) = _find_first_processes(self.folder, namespace, pod, re.escape(container))
        details = json.loads(Path(spec).read_text())
        user = ["-S", str(details["uid"]), "-G", str(details["gid"])] if details["switch_user"] else []
        variables = [f"{key}={value}" for key, value in details["env"].items()]
        inside = ["nsenter", "-t", str(pid), "-m", "-p", "-n", "-u", "-i", "-r", "-w", *user, "--"]
        done = subprocess.run(
            [*inside, "env", "-i", *variables, *command], capture_output=True, text=True, check=False, timeout=300
        )
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)} in {pod}: {done.stdout[-2000:]}{done.stderr.strip()[-2000:]}")
        return done.stdout

    def _signal_node(self, number: int, what: int) -> None:
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            own = str(self.folder / f"node-{number}").encode()
            if b"dev.kube.kubelet" in words and own in words and b"unshare" not in words[0]:
                os.kill(int(process.name), what)
                return
        raise LookupError(f"node {number} does not run")


def _find_first_processes(folder: Path, namespace: str, pod: str, container: str) -> list[tuple[int, str]]:
    """The first process of each container of a pod, as this machine counts them, and the file that describes it."""
    place = rf"/node-\d+/{namespace}_{re.escape(pod)}_\w+/containers/{container}/\d+\.json"
    own = re.compile(re.escape(str(folder)) + place)
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_text().split("\0")
            specs = [word for word in words if own.fullmatch(word)]
            if specs and "nsenter" not in words[0]:
                children = (process / f"task/{process.name}/children").read_text().split()
                found += [(int(each), specs[0]) for each in children]
        except OSError:
            # It has ended meanwhile.
            continue
    return found


def _separate() -> list[str]:
    """Begins a command in namespaces of its own."""
    user = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    return ["unshare", *user, "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
