"""A container of a pod: starts it, restarts it, probes it, ends it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from dev.kube.api import Api, ApiException, Object
from dev.kube.images import find_image

from .environment import expand, make_environment
from .probes import KINDS, Probe
from .status import now
from .volumes import Volumes

_SHIM: Final = Path(__file__).resolve().parents[1] / "container.py"

FIRST_BACK_OFF_S: Final = 1.0
"""The wait before the first restart; it doubles up to `MOST_BACK_OFF_S`. The kubelet's own are 10 and 300 s."""
MOST_BACK_OFF_S: Final = 10.0
_HEALTHY_S: Final = 60.0
"""A container that ran so long begins again with the first wait."""


class ContainerRun:
    """A container and its restarts.

    Args:
        api: The API server.
        pod: The pod.
        spec: The container's part of the pod's spec.
        netns: The pod's network namespace.
        address: The pod's address.
        volumes: The pod's volumes.
        folder: Where its root, logs and specs go.
        hosts: The folder with the pod's `hosts`.
        post: Posts an event: type, reason, message.
    """

    def __init__(
        self,
        api: Api,
        pod: Object,
        spec: Object,
        netns: str,
        address: str,
        volumes: Volumes,
        folder: Path,
        hosts: Path,
        post: Callable[[str, str, str], None],
    ) -> None:
        self.name: Final[str] = spec["name"]
        self.image: Final[str] = spec["image"]
        self.state: Object = {"waiting": {"reason": "PodInitializing"}}
        self.last_state: Object = {}
        self.restarts = 0
        self.ready = False
        self.started = False
        self.container_id = ""
        self._api = api
        self._pod = pod
        self._spec = spec
        self._netns = netns
        self._address = address
        self._volumes = volumes
        self._folder = folder / self.name
        self._hosts = hosts
        self._post = post
        self._process: subprocess.Popen[bytes] | None = None
        self._probes: list[Probe] = []
        self._began_s = 0.0
        self._back_off_s = FIRST_BACK_OFF_S
        self._start_after_s = 0.0
        self._runs = 0
        self._startup_passed = False
        self._killed_by_probe = False
        self._folder.mkdir(parents=True, exist_ok=True)

    @property
    def is_running(self) -> bool:
        """Whether its process is there."""
        return self._process is not None

    def step(self, policy: str) -> None:
        """Starts it if it is due, and notes its end."""
        if self._process is not None:
            if self._process.poll() is not None:
                self._note_end(policy)
        elif "terminated" not in self.state and time.monotonic() >= self._start_after_s:
            self._start()

    def signal(self, number: int) -> None:
        """Sends a signal to its first process."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)

    def kill(self) -> None:
        """Kills all of its processes."""
        for probe in self._probes:
            probe.end()
        if self._process is not None and self._process.poll() is None:
            # The first process dies with its parent, and all others of the namespace with it.
            self._process.kill()

    def end(self, deadline_s: float) -> None:
        """Ends it as the kubelet does: its hook, SIGTERM, SIGKILL when the grace is over."""
        for probe in self._probes:
            probe.end()
        if self._process is None:
            return
        self._post("Normal", "Killing", f"Stopping container {self.name}")
        self._run_hook(deadline_s)
        self.signal(find_image(self.image).stop_signal)
        try:
            self._process.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        self._note_end("Never")

    def enter(self, command: list[str]) -> list[str]:
        """A command that runs in the container, as its user."""
        pid = (self._spec_file.parent / f"{self._spec_file.name}.pid").read_text()
        user = self._user()
        ids = [] if user is None else ["-S", str(user[0]), "-G", str(user[1])]
        environment = [f"{key}={value}" for key, value in self._variables.items()]
        target = ["-t", pid, "-m", "-p", "-n", "-u", "-i", "-r", "-w"]
        return ["nsenter", *target, *ids, "--", "env", "-i", *environment, *command]

    def log_file(self, previous: bool = False) -> Path:
        """The file with its output; the run before, if asked."""
        return self._folder / f"{self._runs - 1 if previous else self._runs}.log"

    @property
    def _spec_file(self) -> Path:
        return self._folder / f"{self._runs}.json"

    def _start(self) -> None:
        try:
            spec = self._make_spec()
        except (LookupError, ApiException) as error:
            text = str(error.reason) if isinstance(error, ApiException) else str(error.args[0])
            self._wait("CreateContainerConfigError", text, FIRST_BACK_OFF_S)
            return
        self._runs += 1
        self._spec_file.write_text(json.dumps(spec))
        # The standard library alone, so that the start of a container costs no imports.
        command = ["nsenter", f"--net=/run/netns/{self._netns}", "--", sys.executable, "-I", "-S", str(_SHIM)]
        with self.log_file().open("wb") as log:
            self._process = subprocess.Popen(
                [*command, str(self._spec_file)], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        self._began_s = time.monotonic()
        self.container_id = f"process://{self._process.pid}"
        self.state = {"running": {"startedAt": now()}}
        self._killed_by_probe = False
        self._post("Normal", "Started", f"Started container {self.name}")
        probes = {kind: self._spec[kind] for kind in KINDS if kind in self._spec}
        self._startup_passed = "startupProbe" not in probes
        self.started = self._startup_passed
        self.ready = self._startup_passed and "readinessProbe" not in probes
        ports = {port["name"]: port["containerPort"] for port in self._spec.get("ports", []) if "name" in port}
        self._probes = [
            Probe(probe, self._address, ports, self.enter, self._reporter(kind), self._gate(kind))
            for kind, probe in probes.items()
        ]
        for each in self._probes:
            each.start()

    def _gate(self, kind: str) -> Callable[[], bool]:
        # A startup probe ends when it has passed; the others begin then.
        return lambda: self._startup_passed != (kind == "startupProbe")

    def _reporter(self, kind: str) -> Callable[[bool, str], None]:
        run = self._runs

        def report(good: bool, problem: str) -> None:
            if run != self._runs:
                return
            if kind == "readinessProbe":
                self.ready = good and self.is_running
            elif good and kind == "startupProbe":
                self._startup_passed = self.started = True
                self.ready = "readinessProbe" not in self._spec
            if not good:
                self._post("Warning", "Unhealthy", f"{kind[:-5].capitalize()} probe failed: {problem}")
                if kind != "readinessProbe" and not self._killed_by_probe:
                    self._killed_by_probe = True
                    self._post("Normal", "Killing", f"Container {self.name} failed {kind}, will be restarted")
                    self._end_soon()

        return report

    def _end_soon(self) -> None:
        process = self._process
        if process is None:
            return
        self.signal(find_image(self.image).stop_signal)
        try:
            process.wait(self._pod["spec"].get("terminationGracePeriodSeconds", 30))
        except subprocess.TimeoutExpired:
            process.kill()

    def _note_end(self, policy: str) -> None:
        assert self._process is not None
        code = self._process.wait()
        code = code if code >= 0 else 128 - code
        self._process, self.ready, self.started = None, False, False
        for probe in self._probes:
            probe.end()
        ended: Object = {"exitCode": code, "reason": "Completed" if code == 0 else "Error", "finishedAt": now()}
        ended |= {"startedAt": self.state.get("running", {}).get("startedAt", now())}
        ended |= {"containerID": self.container_id, "message": self._last_words() if code else ""}
        if policy == "Never" or (policy == "OnFailure" and code == 0):
            self.state = {"terminated": ended}
            return
        self.last_state = {"terminated": ended}
        self.restarts += 1
        if time.monotonic() - self._began_s > _HEALTHY_S:
            self._back_off_s = FIRST_BACK_OFF_S
        self._post("Warning", "BackOff", f"Back-off restarting failed container {self.name}: {self._last_words()}")
        self._wait("CrashLoopBackOff", f"back-off {self._back_off_s:g}s restarting failed container", self._back_off_s)
        self._back_off_s = min(2 * self._back_off_s, MOST_BACK_OFF_S)

    def _last_words(self) -> str:
        """The last line of its output: what `terminationMessagePolicy: FallbackToLogsOnError` shows."""
        lines = self.log_file().read_bytes()[-2000:].decode(errors="replace").strip().splitlines()
        return lines[-1][:500] if lines else ""

    def _wait(self, reason: str, message: str, seconds: float) -> None:
        if self.state.get("waiting", {}).get("message") != message:
            self._post("Warning", "Failed", f"Error: {message}") if "Error" in reason else None
        self.state = {"waiting": {"reason": reason, "message": message}}
        self._start_after_s = time.monotonic() + seconds

    def _run_hook(self, deadline_s: float) -> None:
        hook = self._spec.get("lifecycle", {}).get("preStop", {})
        left = max(0.1, deadline_s - time.monotonic())
        if "sleep" in hook:
            time.sleep(min(left, hook["sleep"]["seconds"]))
        elif "exec" in hook:
            subprocess.run(self.enter(hook["exec"]["command"]), timeout=left, check=False, capture_output=True)

    def _user(self) -> tuple[int, int] | None:
        """User and group; None: those of this process, where user namespaces have one only."""
        if not _may_switch_user():
            return None
        context = self._context()
        uid = context.get("runAsUser", find_image(self.image).uid)
        return uid, context.get("runAsGroup", uid)

    def _context(self) -> dict[str, Any]:
        return {**self._pod["spec"].get("securityContext", {}), **self._spec.get("securityContext", {})}

    def _make_spec(self) -> Object:
        image, context = find_image(self.image), self._context()
        command = self._spec.get("command", list(image.entry_point))
        if not command:
            raise LookupError(f"container {self.name} names no command, and neither does its image on this node")
        self._variables = {"PATH": image.path, "HOME": "/", **image.environment}
        self._variables |= make_environment(self._api, self._pod, self._spec)
        argv = [expand(each, self._variables) for each in command + self._spec.get("args", [])]
        mounts = []
        for mount in sorted(self._spec.get("volumeMounts", []), key=lambda each: str(each["mountPath"])):
            source = self._volumes.path_of(mount["name"]) / mount.get("subPath", "")
            if "subPath" in mount:
                source.exists() or source.mkdir(parents=True)
            mounts.append((str(source), mount["mountPath"].rstrip("/"), mount.get("readOnly", False)))
        user = self._user()
        uid, gid = user or (os.getuid(), os.getgid())
        if context.get("runAsNonRoot") and user is not None and uid == 0:
            raise LookupError("container has runAsNonRoot and image will run as root")
        group = self._pod["spec"].get("securityContext", {}).get("fsGroup")
        root = self._folder / "root"
        root.mkdir(exist_ok=True)
        return {
            "root": str(root),
            "binds": [(source, target, True) for source, target in image.binds]
            + [(str(self._hosts), "/run/hosts", True)]
            + mounts,
            "links": image.links | {"/etc/hosts": "/run/hosts/hosts"},
            "files": {
                "/etc/passwd": f"root:x:0:0::/:/bin/sh\nlakelog:x:{uid}:{gid}::/:/bin/sh\n",
                "/etc/group": f"root:x:0:\nlakelog:x:{gid}:\n",
                "/etc/hostname": self._pod["metadata"]["name"] + "\n",
            },
            "argv": argv,
            "env": self._variables,
            "cwd": self._spec.get("workingDir", "/"),
            "uid": uid,
            "gid": gid,
            "groups": [gid] if group is None else sorted({gid, group}),
            "switch_user": user is not None,
            "read_only": context.get("readOnlyRootFilesystem", False),
            "no_new_privileges": not context.get("allowPrivilegeEscalation", True),
            "drop_all": "ALL" in context.get("capabilities", {}).get("drop", []),
            "hostname": (self._pod["spec"].get("hostname") or self._pod["metadata"]["name"])[:63],
        }


def _may_switch_user() -> bool:
    """Whether more than one user is known in this user namespace."""
    ranges = Path("/proc/self/uid_map").read_text().split()
    return int(ranges[2]) > 1
