"""A real Apache Kafka in a folder: one broker that is its own controller (KRaft), on loopback ports.

Objectives, in the order of their weight:
1. Acknowledged records survive any end of the process: the broker's own recovery ensures that.
2. The folder is never blocked for ever: if the parent is killed, the kernel kills the broker, too. A lock of the living
   parent (`flock`) keeps a second broker out.
3. It starts in seconds and is small: each of the broker's own topics, which it reads at its start, has one partition,
   and a laptop does not notice the heap.
"""

from __future__ import annotations

import base64
import fcntl
import os
import shutil
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from lakelog.embedded.folder_server import FolderServer
from lakelog.embedded.java import java_home
from lakelog.embedded.kafka.jars import find_kafka_jars
from lakelog.embedded.kafka.protocol import find_cluster, forget_broker
from lakelog.embedded.ports import free_ports
from lakelog.embedded.processes import ManagedProcess
from lakelog.errors import InternalError

_HOST: Final = "127.0.0.1"
_HEAP: Final = "-Xmx384m"
_OPTIONS_VARIABLE: Final = "KAFKA_OPTS"
"""More options of Java, as Kafka's own scripts have them."""
_FORMATTED_WITHIN_S: Final = 60.0
_FORGOTTEN_WITHIN_S: Final = 1.0
_ORPHAN_ENDS_WITHIN_S: Final = 20.0
_BROKER_ID: Final = 1
_SESSION_S: Final = 9.0
"""How long the controller counts a silent broker as alive: Kafka's own default. A shorter time would sometimes remove a
broker that only waits for a processor."""


class EmbeddedKafka(FolderServer):
    """One broker with its data, settings and log in a folder.

    Args:
        folder: The folder for all its files; made if it is missing. At most one broker at a time runs in it.
        port: The port for clients; None: the one of the last broker in this folder, else a free one. It stays the same
                for the life of this object.
        log: The file for its log; None: a file in the folder.
        environment: The variables that lead to Java and the jars, and `KAFKA_OPTS` with options of Java; None: ours.
        ready_within_s: The limit for a start, recovery included.
    """

    name = "kafka"

    def __init__(
        self,
        folder: Path,
        port: int | None = None,
        *,
        log: Path | None = None,
        environment: Mapping[str, str] | None = None,
        ready_within_s: float = 120.0,
    ) -> None:
        super().__init__(folder, log, ready_within_s)
        self._environment = dict(os.environ if environment is None else environment)
        free = free_ports(2)
        self.port = port or self._last_port() or free[0]
        # No one needs to know it: the broker finds its controller by its settings.
        self._controller_port = free[1]
        # Set while the controller still has to forget a crashed broker: the last time, on the monotonic clock, at which
        # the controller was known to be inactive; None: there is none to forget.
        self._inactive_at_s: float | None = None

    @property
    def bootstrap_servers(self) -> str:
        """The address for clients, as their `bootstrap.servers`; the same after restarts."""
        return f"{_HOST}:{self.port}"

    def start(self) -> None:
        """Starts the broker and blocks until it answers, 2 to 4 s; does nothing if it runs.

        The first start in a folder makes the data; the first one on a machine downloads Kafka's jars.

        Raises:
            AlreadyExists: A living process uses the folder.
            Unavailable: The broker ended or was not ready in time, and the message has the last lines of its log; or
                the jars could not be downloaded.
            NotFound: There is no Java.
            DataCorrupted: A jar is not the expected one.
        """
        if self.is_running:
            return
        jars = find_kafka_jars(self._environment)
        java = java_home(self._environment) / "bin" / "java"
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._acquire_lock()
        try:
            self._await_orphan()
            self._make_data(java, jars)
            settings = self._write_settings("broker.properties", self._data)
            self._process = self._java_process(
                "Kafka", java, jars, ["kafka.Kafka", str(settings)], ready_within_s=self._ready_within_s
            )
            if self._has_crashed():
                self._inactive_at_s = time.monotonic()
            self._process.start()
        except BaseException:
            self._release_lock()
            raise

    def stop(self) -> None:
        """Stops the broker in order and blocks until it is gone; idempotent."""
        if self._process is not None:
            self._process.stop()
        self._release_lock()

    def kill(self) -> None:
        """Kills the broker by SIGKILL, as a crash would, and blocks until it is gone."""
        if self._process is not None:
            self._process.kill()

    def pause(self) -> None:
        """Freezes the broker by SIGSTOP: connections stay open, but nothing answers."""
        if self._process is not None:
            self._process.pause()

    def resume(self) -> None:
        """Lets a paused broker go on."""
        if self._process is not None:
            self._process.resume()

    def _last_port(self) -> int | None:
        try:
            return int((self.folder / "port").read_text())
        except (OSError, ValueError):
            return None

    def _await_orphan(self) -> None:
        """Waits for the end of a broker whose parent was killed: the kernel kills it too, but a moment later."""
        lock = self._data / ".lock"
        deadline_s = time.monotonic() + _ORPHAN_ENDS_WITHIN_S
        while lock.exists():
            with lock.open("r+") as opened:
                try:
                    # The broker's own lock on its data.
                    fcntl.lockf(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError:
                    pass
                else:
                    return
            if time.monotonic() > deadline_s:
                raise InternalError(
                    f"Another Kafka broker works on {self._data}, although no process holds {self.folder}: find and "
                    "end that process.",
                    reason="KAFKA_STUCK",
                )
            time.sleep(0.02)

    def _make_data(self, java: Path, jars: Sequence[Path]) -> None:
        if self._data.exists():
            return
        # Made under another name, then renamed: an interrupted start leaves nothing that looks like data.
        unfinished = self.folder / "data.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        settings = self._write_settings("format.properties", unfinished)
        # A first letter `-` would look like an option; the rest is as in Kafka's own form of a UUID.
        cluster = "L" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]
        tool = ["kafka.tools.StorageTool", "format", "--cluster-id", cluster, "--config", str(settings)]
        # It ends before Java's second compiler would have helped.
        formatting = self._java_process("Kafka's storage tool", java, jars, ["-XX:TieredStopAtLevel=1", *tool])
        formatting.start()
        try:
            code = formatting.wait(_FORMATTED_WITHIN_S)
        finally:
            formatting.stop()
        if code != 0:
            raise formatting.failure(f"ended with exit code {code}: it could not make the data in {self.folder}")
        unfinished.rename(self._data)

    def _write_settings(self, name: str, data: Path) -> Path:
        """Writes the settings of a broker whose data is in a folder; returns the file."""
        file = self.folder / name
        file.write_text("".join(f"{key}={_escape(value)}\n" for key, value in self._settings(data).items()))
        (self.folder / "port").write_text(f"{self.port}\n")
        return file

    def _settings(self, data: Path) -> dict[str, str]:
        """The settings of a single broker."""
        return {
            "process.roles": "broker,controller",
            "node.id": str(_BROKER_ID),
            # Named here and not in the data: after the next start it may have another port.
            "controller.quorum.voters": f"{_BROKER_ID}@{_HOST}:{self._controller_port}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{_HOST}:{self.port},CONTROLLER://{_HOST}:{self._controller_port}",
            "advertised.listeners": f"PLAINTEXT://{_HOST}:{self.port}",
            "log.dirs": str(data),
            "auto.create.topics.enable": "false",
            "default.replication.factor": "1",
            "min.insync.replicas": "1",
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.num.partitions": "1",
            "transaction.state.log.min.isr": "1",
            "share.coordinator.state.topic.replication.factor": "1",
            "share.coordinator.state.topic.num.partitions": "1",
            "share.coordinator.state.topic.min.isr": "1",
            "broker.session.timeout.ms": str(int(_SESSION_S * 1000)),
            # No other member joins a group in its first seconds.
            "group.initial.rebalance.delay.ms": "0",
            # The files of a deleted topic leave the disk soon.
            "log.segment.delete.delay.ms": "1000",
        }

    def _java_process(
        self, name: str, java: Path, jars: Sequence[Path], words: Sequence[str], *, ready_within_s: float | None = None
    ) -> ManagedProcess:
        log_settings = {
            "defaultLogLevel": "warn",
            "showDateTime": "true",
            "dateTimeFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSXXX",
        }
        command = [str(java), _HEAP, "-XX:+UseSerialGC", "-XX:+ExitOnOutOfMemoryError"]
        command += self._environment.get(_OPTIONS_VARIABLE, "").split()
        command += [f"-Dorg.slf4j.simpleLogger.{key}={value}" for key, value in log_settings.items()]
        return ManagedProcess(
            name,
            [*command, *words],
            log=self.log,
            is_ready=None if ready_within_s is None else self._is_ready,
            ready_within_s=ready_within_s or 0.0,
            # Not an argument, so that lists of processes stay readable.
            environment={**self._environment, "CLASSPATH": os.pathsep.join(map(str, jars))},
            working_directory=self.folder,
        )

    def _is_ready(self) -> bool:
        self._forget_crashed()
        # By its cluster id: if the port is taken, another broker may answer.
        return find_cluster(_HOST, self.port) == self._cluster_id()

    def _has_crashed(self) -> bool:
        """Whether the last broker here ended without the file that marks an orderly end."""
        is_used = (self._data / "__cluster_metadata-0").exists()
        return is_used and not (self._data / ".kafka_cleanshutdown").exists()

    def _forget_crashed(self) -> None:
        """Makes the active controller forget the crashed broker, before it admits the new one.

        Otherwise the new one has to wait until the session of the old one is over, for 12 s. And sometimes it is then
        admitted while partitions lose their leader for an instant. Kafka 4.3.1 takes a partition without a leader for a
        deleted one and omits the end of its transaction (`TransactionMarkerChannelManager`). Readers of committed
        records then wait for ever.
        """
        began_s = time.monotonic()
        # An active controller gives the old session its whole length; later it may know the new broker by this number.
        if self._inactive_at_s is None or began_s > self._inactive_at_s + _SESSION_S - 2 * _FORGOTTEN_WITHIN_S:
            return
        answer = forget_broker(_HOST, self._controller_port, _BROKER_ID, timeout_s=_FORGOTTEN_WITHIN_S)
        if answer is not None:
            self._inactive_at_s = None if answer else began_s

    def _cluster_id(self) -> str:
        """The id that the storage tool wrote down."""
        lines = (self._data / "meta.properties").read_text().splitlines()
        return next(line.partition("=")[2].strip() for line in lines if line.startswith("cluster.id="))


def _escape(value: str) -> str:
    """A value in the form of a Java properties file. Pure."""
    return value.replace("\\", "\\\\")
