"""A pod on its way: volumes, init containers one after the other, containers, their end."""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dev.kube import network
from dev.kube.api import NOT_FOUND, Api, ApiException, Object

from .container_run import ContainerRun
from .events import post_event
from .status import make_status
from .volumes import Volumes

_STEP_S: Final = 0.05
_REFRESH_S: Final = 2.0
_RETRY_S: Final = 0.5


class PodRun(threading.Thread):
    """Runs one pod in a thread of its own, until it has ended or is deleted.

    Args:
        api: The API server.
        pod: The pod.
        address: Its address.
        host: The node's address.
        folder: Where everything of it goes.
        write_hosts: Writes the pod's `hosts` into a folder.
        done: Called when nothing of it is left.
    """

    def __init__(
        self,
        api: Api,
        pod: Object,
        address: str,
        host: str,
        folder: Path,
        write_hosts: Callable[[Object, str, Path], None],
        done: Callable[[], None],
    ) -> None:
        super().__init__(daemon=True, name=pod["metadata"]["name"])
        self._api = api
        self.pod = pod
        self.pod.setdefault("status", {}).update(podIP=address, hostIP=host)
        self.address: Final = address
        self._host = host
        self._folder = folder
        self._netns = f"pod-{pod['metadata']['uid']}"
        self._write_hosts = write_hosts
        self._done = done
        self._volumes = Volumes(api, pod, folder / "volumes")
        self._reported: Object | None = None
        self._deleted = threading.Event()
        self._inits = [self._make(spec) for spec in pod["spec"].get("initContainers", [])]
        self._containers = [self._make(spec) for spec in pod["spec"]["containers"]]

    def delete(self, pod: Object) -> None:
        """Begins the end: the pod's deletion was asked for."""
        self.pod["metadata"] = pod["metadata"]
        self._deleted.set()

    def find_container(self, name: str) -> ContainerRun | None:
        """A container of this name, init containers included."""
        return next((each for each in self._inits + self._containers if each.name == name), None)

    def write_hosts(self) -> None:
        """Brings the pod's `hosts` up to date."""
        self._write_hosts(self.pod, self.address, self._folder / "hosts")

    def run(self) -> None:
        """Runs the pod; a thread calls it."""
        try:
            if self._prepare() and self._initialize():
                self._run_containers()
            self._end()
        except Exception as error:
            # A defect of the node; the pod's events have to show it, as nothing else will.
            traceback.print_exc()
            self._post("Warning", "FailedCreatePodSandBox", f"{type(error).__name__}: {error}")
        finally:
            self._clean_up()
            self._done()

    def _make(self, spec: Object) -> ContainerRun:
        folder, hosts = self._folder / "containers", self._folder / "hosts"
        return ContainerRun(
            self._api, self.pod, spec, self._netns, self.address, self._volumes, folder, hosts, self._post
        )

    def _prepare(self) -> bool:
        """Network and volumes; tries again until they are there, or the pod is deleted."""
        network.add_pod(self._netns, self.address)
        self.write_hosts()
        said = ""
        while not self._deleted.is_set():
            self._report()
            try:
                self._volumes.prepare()
                return True
            except (LookupError, ApiException) as error:
                problem = str(error)[:300]
                if problem != said:
                    self._post("Warning", "FailedMount", f"MountVolume.SetUp failed: {problem}")
                    said = problem
                self._deleted.wait(_RETRY_S)
        return False

    def _initialize(self) -> bool:
        policy = "Never" if self._policy == "Never" else "OnFailure"
        for container in self._inits:
            while not self._deleted.is_set():
                container.step(policy)
                self._report()
                ended = container.state.get("terminated")
                if ended is not None:
                    if ended["exitCode"]:
                        return False
                    break
                self._deleted.wait(_STEP_S)
        return not self._deleted.is_set()

    def _run_containers(self) -> None:
        refresh_s = time.monotonic() + _REFRESH_S
        while not self._deleted.is_set():
            for container in self._containers:
                container.step(self._policy)
            self._report()
            if all("terminated" in container.state for container in self._containers):
                return
            if time.monotonic() > refresh_s:
                refresh_s = time.monotonic() + _REFRESH_S
                try:
                    self._volumes.refresh()
                except (LookupError, ApiException) as error:
                    self._post("Warning", "FailedMount", str(error)[:300])
            self._deleted.wait(_STEP_S)

    @property
    def _policy(self) -> str:
        policy: str = self.pod["spec"].get("restartPolicy", "Always")
        return policy

    def _end(self) -> None:
        # A pod that has ended by itself stays until somebody deletes it.
        self._deleted.wait()
        meta = self.pod["metadata"]
        grace = meta.get("deletionGracePeriodSeconds", self.pod["spec"].get("terminationGracePeriodSeconds", 30))
        deadline_s = time.monotonic() + grace
        ends = [
            threading.Thread(target=each.end, args=(deadline_s,))
            for each in self._inits + self._containers
            if each.is_running
        ]
        for end in ends:
            end.start()
        for end in ends:
            end.join()
        self._report()
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        self._api.delete(path, {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}})

    def _clean_up(self) -> None:
        for container in self._inits + self._containers:
            container.kill()
        self._volumes.remove()
        network.remove_pod(self._netns)

    def _report(self) -> None:
        status = make_status(self.pod, self.address, self._host, self._inits, self._containers)
        if status == self._reported:
            return
        meta = self.pod["metadata"]
        try:
            changed = self._api.patch(
                f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status",
                {"metadata": {"uid": meta["uid"]}, "status": status},
            )
        except ApiException as error:
            if error.status != NOT_FOUND:
                raise
            # Deleted by force: nothing to wait for.
            self._deleted.set()
        else:
            self.pod["status"] = changed["status"]
        self._reported = status

    def _post(self, kind: str, reason: str, message: str) -> None:
        post_event(self._api, self.pod, kind, reason, message)
