"""All of lakelog on this machine: Postgres, the metastore, and on request Kafka and services, in one folder."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Protocol, Self

from lakelog.embedded.kafka.broker import EmbeddedKafka
from lakelog.embedded.log_rotation import rotate_logs
from lakelog.embedded.ports import free_ports
from lakelog.embedded.postgres import EmbeddedPostgres
from lakelog.embedded.processes import ManagedProcess
from lakelog.embedded.services import is_listening, is_serving, service_command, service_environment
from lakelog.embedded.supervisor import Component, Supervisor
from lakelog.errors import InternalError, InvalidArgument, NotFound

_MIGRATION_WITHIN_S = 120.0
"""The start of a metastore may bring the tables of a large database up to date."""

_BY_NAME = ("metastore", "compactor", "reader", "publisher", "console")

_BROKERS_VARIABLE = "LAKELOG_KAFKA_BROKERS"
"""The clusters that tables may use, separated by semicolons; commas separate the brokers of one. The metastore reads
it."""


class EmbeddedStack:
    """Real processes on loopback ports, for `lakelog up`, the demo and tests.

    `start` (or `with`) starts all in order; `run` restarts what dies, until it is stopped. Without `run`, a dead
    component stays dead, so that a test decides when it comes back.

    Args:
        folder: The folder for data, warehouse and logs; made if it is missing. The same folder has the same data again.
        services: What runs besides Postgres: `metastore`, and with it `compactor`, `reader`, which reads for
            subscriptions, `publisher`, which sends changes to logs, and `console`, which shows pages. These need no
            arguments of their own (for others: `add_service`).
        host: The loopback address at which the metastore listens.
        port: The metastore's port there; None: a free one.
        metrics_port: The port of the metastore's metrics; None: a free one.
        reader_port: The port of the reader service, if there is one; None: a free one.
        console_port: The port of the console, if there is one; None: a free one.
        database_url: Another Postgres, in SQLAlchemy's form; None: one of our own in the folder.
        kafka: Whether a Kafka broker runs as well.
        kafka_port: Its port; None: a free one, the same for each use of this folder.
        kafka_bootstrap_servers: Another Kafka, as `host:port` with commas between; then none of our own runs.
        environment: The services' environment variables; None: ours.
        warehouse: The URI of the place for new tables' files; None: a folder inside `folder`.
    """

    _process_type: ClassVar[type[ManagedProcess]] = ManagedProcess
    """How a service is started: lakelog's own tests start some in another way."""

    def __init__(
        self,
        folder: Path,
        *,
        services: Sequence[str] = ("metastore",),
        host: str = "127.0.0.1",
        port: int | None = None,
        metrics_port: int | None = None,
        reader_port: int | None = None,
        console_port: int | None = None,
        database_url: str | None = None,
        kafka: bool = False,
        kafka_port: int | None = None,
        kafka_bootstrap_servers: str | None = None,
        environment: Mapping[str, str] | None = None,
        warehouse: str | None = None,
    ) -> None:
        unknown = [service for service in services if service not in _BY_NAME]
        if unknown:
            raise InvalidArgument(
                f"services: {unknown[0]!r} cannot be started by its name alone; possible are 'metastore', "
                "'compactor', 'reader', 'publisher' and 'console'. Others need arguments: start the stack without them "
                "and use add_service.",
                metadata={"field": "services", "value": unknown[0]},
            )
        needy = [service for service in services if service != "metastore"]
        if needy and "metastore" not in services:
            raise InvalidArgument(
                f"services: {needy[0]!r} needs the metastore beside it. Give ['metastore', {needy[0]!r}].",
                metadata={"field": "services", "value": needy[0]},
            )
        self.folder = folder.absolute()
        self.postgres = (
            None
            if database_url
            else EmbeddedPostgres(self.folder / "postgres", log=self.folder / "logs" / "postgres.log")
        )
        self._foreign_database_url = database_url
        self._warehouse = warehouse
        self._environment = dict(os.environ if environment is None else environment)
        self._kafka = self._make_kafka(kafka_port) if kafka and not kafka_bootstrap_servers else None
        self._kafka_servers = kafka_bootstrap_servers or (self._kafka.bootstrap_servers if self._kafka else "")
        if self._kafka_servers:
            allowed = [*self._environment.get(_BROKERS_VARIABLE, "").split(";"), self._kafka_servers]
            self._environment[_BROKERS_VARIABLE] = ";".join(filter(None, (cluster.strip() for cluster in allowed)))
        self._with_metastore = "metastore" in services
        self._with_compactor = "compactor" in services
        self._with_reader = "reader" in services
        self._with_publisher = "publisher" in services
        self._with_console = "console" in services
        free = free_ports(4)
        self.host = host
        self.port = port or free[0]
        self.metrics_port = metrics_port or free[1]
        self._reader_port = reader_port or free[2]
        self._console_port = console_port or free[3]
        self._components: dict[str, _Part] = {}
        self._supervisor = Supervisor([])

    def __repr__(self) -> str:
        parts = ", ".join(self._components) or "nothing"
        return f"<lakelog stack at {self.target} in {self.folder}: {parts} started>"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def target(self) -> str:
        """The metastore's address, for `lakelog.connect`; the same after restarts."""
        return self._loopback(self.port)

    @property
    def reader_target(self) -> str:
        """The reader service's address, for `lakelog.connect(reader=...)`; empty: there is none."""
        if not self._with_reader:
            return ""
        return self._loopback(self._reader_port)

    @property
    def console_url(self) -> str:
        """The address of the console's first page; empty: there is none."""
        return f"http://{self._loopback(self._console_port)}/" if self._with_console else ""

    @property
    def database_url(self) -> str:
        """The database's address in SQLAlchemy's form; our own Postgres has one from its start on."""
        if self.postgres is not None:
            return self.postgres.database_url
        return self._foreign_database_url or ""

    @property
    def kafka(self) -> str:
        """Kafka's bootstrap servers, the same after restarts; empty: there is none."""
        return self._kafka_servers

    @property
    def warehouse(self) -> str:
        """The place of new tables' files."""
        return self._warehouse or (self.folder / "warehouse").as_uri()

    @property
    def logs(self) -> dict[str, Path]:
        """Each component's log file by its name."""
        return {name: part.log for name, part in self._components.items()}

    @property
    def is_running(self) -> bool:
        """Whether every component runs."""
        return bool(self._components) and all(part.is_running for part in self._components.values())

    def start(self) -> None:
        """Starts everything in order and blocks until it serves.

        Raises:
            Unavailable: A component did not start, and the message has the last lines of its log; started ones are
                stopped again. Or Kafka's jars could not be downloaded.
            DataCorrupted: A jar of Kafka is not the expected one.
            AlreadyExists: Another living process uses the folder.
        """
        # Only the owner may read tables, logs and passwords, with any umask of the caller.
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self._warehouse is None:
            (self.folder / "warehouse").mkdir(exist_ok=True)
        try:
            if self.postgres is not None:
                self._add("postgres", self.postgres)
            if self._kafka is not None:
                self._add("kafka", self._kafka)
            if self._with_metastore:
                self.add_service(
                    "metastore",
                    self._metastore_arguments(),
                    environment=self._database_environment,
                    is_ready=lambda: is_serving(self.target),
                    ready_within_s=_MIGRATION_WITHIN_S,
                )
            if self._with_compactor:
                self.add_compactor()
            if self._with_publisher:
                self.add_publisher()
            if self._with_reader:
                self.add_service(
                    "reader",
                    ["serve", "--listen", self.reader_target, "--insecure-dev"],
                    environment={"LAKELOG_TARGET": self.target},
                    is_ready=lambda: is_serving(self.reader_target),
                )
            if self._with_console:
                listen = self._loopback(self._console_port)
                self.add_service(
                    "console",
                    ["serve", "--listen", listen, "--insecure-dev"],
                    environment={"LAKELOG_TARGET": self.target},
                    is_ready=lambda: is_listening(listen),
                )
        except BaseException:
            self.stop()
            raise

    def add_service(
        self,
        service: str,
        arguments: Sequence[str],
        *,
        name: str = "",
        environment: Mapping[str, str] | None = None,
        is_ready: Callable[[], bool] | None = None,
        ready_within_s: float = 60.0,
        final_codes: Mapping[int, str] | None = None,
        waiting_codes: Mapping[int, str] | None = None,
    ) -> None:
        """Starts one more of our services as the last component; raises as `start`, without stopping the others.

        Args:
            service: The service's folder, for instance `writer`.
            arguments: The arguments after `python -m <service>`.
            name: The unique name of the component and its log; by default the service.
            environment: Further variables.
            is_ready: See `ManagedProcess`.
            ready_within_s: See `ManagedProcess`.
            final_codes: See `ManagedProcess`.
            waiting_codes: See `ManagedProcess`.
        """
        process = self._service_process(
            service,
            arguments,
            log_name=name,
            environment=environment,
            is_ready=is_ready,
            ready_within_s=ready_within_s,
            final_codes=final_codes,
            waiting_codes=waiting_codes,
        )
        self._add(name or service, process)

    def add_compactor(self, name: str = "compactor", arguments: Sequence[str] = ()) -> None:
        """Starts a compactor, or one more under its own name; raises as `add_service`."""
        self.add_service("compactor", ["run", *arguments], name=name, environment={"LAKELOG_TARGET": self.target})

    def add_publisher(self, name: str = "publisher", arguments: Sequence[str] = ()) -> None:
        """Starts a publisher of logs, or one more under its own name; raises as `add_service`."""
        self.add_service("writer", ["publish", *arguments], name=name, environment={"LAKELOG_TARGET": self.target})

    def stop(self) -> None:
        """Stops everything in reverse order; idempotent."""
        self._supervisor.stop()
        self._components.clear()
        self._supervisor = Supervisor([])

    def run(self, stop: threading.Event) -> None:
        """Restarts what dies until the event is set, then stops everything; see `Supervisor.run`."""
        self._supervisor.run(stop)

    def wait(self) -> None:
        """Blocks until there is something for `step` to do, or for some seconds."""
        self._supervisor.wait()

    def step(self) -> None:
        """Checks once for dead components, and begins to restart them; see `Supervisor.step`. Rotates large logs."""
        self._supervisor.step()
        rotate_logs(self.folder / "logs")

    def restart(self, name: str) -> None:
        """Stops a component, if it runs, and starts it again; NotFound for an unknown name, otherwise as `start`."""
        part = self._part(name)
        with self._supervisor.holding(name):
            part.restart()

    def kill(self, name: str) -> None:
        """Kills a component by SIGKILL and blocks until it is gone; NotFound for an unknown name."""
        self._part(name).kill()

    def pause(self, name: str) -> None:
        """Freezes a component by SIGSTOP; NotFound for an unknown name."""
        self._part(name).pause()

    def resume(self, name: str) -> None:
        """Lets a paused component go on; NotFound for an unknown name."""
        self._part(name).resume()

    def was_killed(self, name: str) -> bool:
        """Whether a signal ended a component; NotFound for an unknown name."""
        return self._part(name).was_killed

    def last_log_lines(self, name: str, count: int = 20) -> list[str]:
        """The last lines of a component's log, oldest first; NotFound for an unknown name."""
        return self._part(name).last_log_lines(count)

    def _loopback(self, port: int) -> str:
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def _make_kafka(self, port: int | None) -> EmbeddedKafka:
        log = self.folder / "logs" / "kafka.log"
        return EmbeddedKafka(self.folder / "kafka", port, log=log, environment=self._environment)

    def _part(self, name: str) -> _Part:
        part = self._components.get(name)
        if part is None:
            running = ", ".join(self._components) or "nothing"
            raise NotFound(
                f"There is no component {name!r} in this stack; it has {running}.", metadata={"component": name}
            )
        return part

    def _add(self, name: str, part: _Part) -> None:
        if name in self._components:
            raise InternalError(f"The component {name} was added to the same stack twice: add it once, or restart it.")
        # No component needs Kafka: all of ours start without brokers, and wait for them where they must.
        needs = {"postgres": (), "kafka": (), "metastore": ("postgres",)}.get(name, ("metastore",))
        self._supervisor.add(part, needs)
        self._components[name] = part

    def _metastore_arguments(self) -> list[str]:
        # It brings the database up to date itself: another process for that would take as long to start as this one.
        arguments = ["serve", "--migrate", "--warehouse", self.warehouse, "--listen", self.target]
        return [*arguments, "--insecure-dev", "--metrics-port", str(self.metrics_port)]

    @property
    def _database_environment(self) -> dict[str, str]:
        # Not an argument: every user of the machine sees those, and the address may hold a password.
        return {"LAKELOG_DATABASE_URL": self.database_url}

    def _service_process(
        self,
        service: str,
        arguments: Sequence[str],
        *,
        log_name: str = "",
        environment: Mapping[str, str] | None = None,
        is_ready: Callable[[], bool] | None = None,
        ready_within_s: float = 60.0,
        final_codes: Mapping[int, str] | None = None,
        waiting_codes: Mapping[int, str] | None = None,
    ) -> ManagedProcess:
        name = log_name or service
        return self._process_type(
            name,
            service_command(service, arguments),
            log=self.folder / "logs" / f"{name}.log",
            is_ready=is_ready,
            ready_within_s=ready_within_s,
            # A catalog that the shell names is another one.
            environment=service_environment(
                service, {**self._environment, "LAKELOG_CATALOG": "", **(environment or {})}
            ),
            working_directory=self.folder,
            final_codes=final_codes,
            waiting_codes=waiting_codes,
        )


class _Part(Component, Protocol):
    """What `ManagedProcess`, `EmbeddedPostgres` and `EmbeddedKafka` have in common."""

    @property
    def log(self) -> Path: ...
    @property
    def was_killed(self) -> bool: ...
    def restart(self) -> None: ...
    def kill(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def last_log_lines(self, count: int = 20) -> list[str]: ...
