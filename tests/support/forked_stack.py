"""A stack whose services are forked from a process that has imported them, for tests that are not about their start.

A stack of metastore, compactor, publisher and reader takes 1.2 s of CPU instead of 7. Starts as users have them are
tested by `tests/integration/embedded/`, `tests/e2e/cli/` and `tests/integration/wheel/`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar

from lakelog.embedded.processes import Child, ManagedProcess
from lakelog.embedded.stack import EmbeddedStack
from tests.support.forked import ForkedProcess, preload

preload(
    "compactor.config",
    "compactor.wiring",
    "console.config",
    "console.wiring",
    "grpc_health.v1.health_pb2_grpc",
    "metastore.config",
    "metastore.postgres.schema.alembic_steps",
    "metastore.wiring",
    "reader.config",
    "reader.wiring",
    "writer.config",
    "writer.publishing.wiring",
)


_FORKED = {
    ("compactor", "run"),
    ("console", "serve"),
    ("metastore", "migrate"),
    ("metastore", "serve"),
    ("reader", "serve"),
    ("writer", "publish"),
}
"""Others use Spark."""


class ForkedService(ManagedProcess):
    """A service as a process of its own; one that uses Spark, or loads a library first, is started as always."""

    def _spawn(self, log: IO[bytes]) -> Child:
        environment = os.environ if self._environment is None else self._environment
        is_module = self.command[:2] == (sys.executable, "-m")
        if not is_module or self.command[2:4] not in _FORKED or "LD_PRELOAD" in environment:
            return super()._spawn(log)
        return ForkedProcess(
            self.command[2],
            self.command[3:],
            folder=self._working_directory or Path.cwd(),
            environment=environment,
            output=self.log,
            leads=True,
        )


class ForkedStack(EmbeddedStack):
    """As `EmbeddedStack`; Postgres and Kafka start as there."""

    _process_type: ClassVar[type[ManagedProcess]] = ForkedService


@contextmanager
def forked_stack(folder: str | os.PathLike[str], **arguments: Any) -> Iterator[ForkedStack]:
    """As `lakelog.testing.embedded_stack`."""
    with ForkedStack(Path(folder), **arguments) as stack:
        yield stack
