"""A lakelog to try things on, for notebooks and examples: one of its own, or one that runs already."""

from __future__ import annotations

import argparse
import atexit
import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

import lakelog
from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import AlreadyExists, InvalidArgument, LakelogError, Unavailable

if TYPE_CHECKING:
    from lakelog.sdk.catalog import Catalog

_TERMINATED: Final = 128 + signal.SIGTERM


class Sandbox:
    """A catalog with an empty database, and what else an example needs; `open_sandbox` makes it.

    Use it in a `with` statement, or close it. What is still open when the program ends is closed then.

    Args:
        target: The metastore's address.
        database: The database's name; it is made, and dropped at the end.
        kafka: Kafka's bootstrap servers; empty: there is no Kafka.
        folder: A folder for files, which is removed at the end.
        stack: The processes to stop at the end; None: they are not ours.
        arguments: The arguments of the program.
    """

    def __init__(
        self,
        target: str,
        database: str,
        kafka: str,
        folder: Path,
        stack: EmbeddedStack | None,
        arguments: argparse.Namespace,
    ) -> None:
        self.target = target
        self.database = database
        self.kafka = kafka
        self.folder = folder
        self.stack = stack
        self.arguments = arguments
        self.catalog: Catalog = lakelog.connect(target)
        self._has_database = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Drops the database with its tables, ends what was started, and removes the folder; idempotent."""
        atexit.unregister(self.close)
        if self._has_database and self.stack is None:
            # What cannot be reached at the end of a program is no reason to hide how it ended.
            with suppress(LakelogError):
                self.catalog.drop_database(self.database, if_exists=True, cascade=True)
        self._has_database = False
        self.catalog.close()
        if self.stack is not None:
            self.stack.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make_database(self) -> None:
        try:
            self.catalog.create_database(self.database)
        except AlreadyExists as error:
            raise AlreadyExists(
                f"The metastore at {self.target} has a database {self.database} already. It may be of a run that was "
                f"killed: look at it, then drop it by `lakelog database drop {self.database} --cascade`."
            ) from error
        self._has_database = True


def open_sandbox(
    database: str,
    *,
    services: Sequence[str] = (),
    kafka: bool = False,
    target: str | None = None,
    kafka_bootstrap_servers: str | None = None,
    parser: argparse.ArgumentParser | None = None,
) -> Sandbox:
    """Opens a lakelog to try things on, with an empty database. For notebooks and examples; needs the extra `embedded`.

    Without a target it starts processes of its own in a temporary folder: Postgres, a metastore, and what else is
    named. They end with the program at the latest. With `target=`, or the argument `--target HOST:PORT` of the
    program, it uses a lakelog that runs already, and leaves nothing there.

    Args:
        database: The database's name.
        services: What is needed besides the metastore: `compactor`, `publisher`, `reader`, `console`.
        kafka: Whether a Kafka broker is needed. The first one on a machine downloads Kafka's jars (44 MB).
        target: `host:port` of a metastore; None: as the program's arguments say.
        kafka_bootstrap_servers: The brokers beside that target; None: as the argument `--kafka` says.
        parser: Parses the program's arguments, if it has some of its own; they are `arguments` of the sandbox.

    Returns:
        The sandbox: `catalog`, `target`, `kafka` (bootstrap servers), `folder` for files, `arguments`, and `close`.

    Raises:
        AlreadyExists: The database exists; it is left alone.
        InvalidArgument: Kafka is needed, and only a target is given. Or a service is unknown.
        Unavailable: A component did not start, or a service does not run beside the target; named.
    """
    arguments = _parse_arguments(parser or argparse.ArgumentParser(description=f"The example {database} of lakelog."))
    target = target or arguments.target
    servers = kafka_bootstrap_servers or arguments.kafka or ""
    if target and kafka and not servers:
        raise InvalidArgument(
            f"The example {database} needs Kafka beside the metastore at {target}: give --kafka HOST:PORT.",
            metadata={"field": "kafka"},
        )
    folder = Path(tempfile.mkdtemp(prefix=f"lakelog-sandbox-{database}-"))
    stack = None if target else _start_stack(folder, services, kafka, servers)
    sandbox = Sandbox(
        stack.target if stack else target or "",
        database,
        stack.kafka if stack else servers,
        folder,
        stack,
        arguments,
    )
    atexit.register(sandbox.close)
    _end_by_exit()
    try:
        _check_services(sandbox, services)
        sandbox._make_database()
    except BaseException:
        sandbox.close()
        raise
    return sandbox


def _parse_arguments(parser: argparse.ArgumentParser) -> argparse.Namespace:
    parser.add_argument(
        "--target", metavar="HOST:PORT", help="a metastore that runs already; without it one is started"
    )
    parser.add_argument("--kafka", metavar="HOST:PORT", help="the Kafka brokers beside it")
    # The arguments of a notebook's process are those of Jupyter.
    return parser.parse_args([] if "ipykernel" in sys.modules else None)


def _start_stack(folder: Path, services: Sequence[str], kafka: bool, servers: str) -> EmbeddedStack:
    try:
        stack = EmbeddedStack(
            folder / "stack",
            services=["metastore", *services],
            kafka=kafka,
            kafka_bootstrap_servers=servers or None,
            # A target of the shell is another lakelog, which this one must not touch.
            environment={name: value for name, value in os.environ.items() if name != "LAKELOG_TARGET"},
        )
        others = [f"the {name}" for name in services] + (["Kafka"] if kafka and not servers else [])
        *first, last = ["Postgres", "the metastore", *others]
        print(f"Starting {', '.join(first)} and {last} ...", flush=True)
        stack.start()
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return stack


def _check_services(sandbox: Sandbox, services: Sequence[str]) -> None:
    if sandbox.stack is not None:
        return
    running = {service.kind for service in sandbox.catalog.services()}
    if missing := sorted(set(services) - running):
        raise Unavailable(
            f"Beside the metastore at {sandbox.target} no {missing[0]} runs, which the example needs. `lakelog up "
            "--kafka` runs all services."
        )


def _end_by_exit() -> None:
    """Lets SIGTERM end the program in good order, where nothing else has decided about it."""
    if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
