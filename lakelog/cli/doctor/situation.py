"""What the checks look at: the command's options, and requests that several checks share."""

from __future__ import annotations

import shutil
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from lakelog.cli.interrupts import leave_threads
from lakelog.errors import LakelogError, Unavailable
from lakelog.format.tables.table import TableInfo, TableName

if TYPE_CHECKING:
    from lakelog.cli.commands.health.serving import ServingState
    from lakelog.cli.invocation import Invocation
    from lakelog.format.jobs.presence import Service
    from lakelog.sdk.catalog import Catalog

NOT_SERVING: Final = "DOCTOR_NOT_SERVING"
"""The reason of an error of a check that needs a metastore that serves."""

DATABASE_WITHIN_S: Final = 4.0
"""After it the checks that need the database still have time to say so."""

_T = TypeVar("_T")


@dataclass(frozen=True)
class DiskUsage:
    """A disk.

    Args:
        total_bytes: Its size.
        free_bytes: What a user may still write.
    """

    total_bytes: int
    free_bytes: int


def measure_disk(folder: Path) -> DiskUsage:
    """Measures the disk of a folder."""
    usage = shutil.disk_usage(folder)
    return DiskUsage(usage.total, usage.free)


@dataclass
class Situation:
    """What the checks look at. Several threads use it.

    Args:
        invocation: The shared options.
        environment: The variables of this process.
        data: The folder of `lakelog up`.
        database_url: A Postgres to check directly; None: only through the metastore.
        kafka: Brokers to check, as `host:port` with commas between; None: those of the tables' logs.
        warehouse: The place to check; None: that of the tables.
        measure_disk: Measures disks.
        now_ms: This machine's clock, in milliseconds since the epoch.
    """

    invocation: Invocation
    environment: Mapping[str, str]
    data: Path
    database_url: str | None = field(default=None, repr=False)
    kafka: str | None = None
    warehouse: str | None = None
    measure_disk: Callable[[Path], DiskUsage] = measure_disk
    now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000

    def __post_init__(self) -> None:
        self._lock = threading.RLock()

    @cached_property
    def serving(self) -> ServingState:
        """Whether the metastore serves. The first check that needs it finds out, and the others wait for that."""
        from lakelog.cli.commands.health.serving import check_serving

        with self._lock:
            found = self.__dict__.get("serving")
            if found is None:
                found = check_serving(self.invocation.address, self.invocation.tls, self.invocation.sign_in)
            return found

    @property
    def catalog(self) -> Catalog:
        """The catalog, if its metastore serves and has its database.

        Raises:
            Unavailable: One does not answer; reason `NOT_SERVING`.
        """
        if not self.serving.is_serving:
            raise Unavailable("The metastore does not serve; see the check 'metastore'.", reason=NOT_SERVING)
        with self._lock:
            if not self.has_database:
                message = "The database of the metastore does not answer; see the check 'postgres'."
                raise Unavailable(message, reason=NOT_SERVING)
            return self.invocation.catalog

    @cached_property
    def has_database(self) -> bool:
        """Whether the database of a metastore that serves answers within `DATABASE_WITHIN_S`.

        A metastore whose database hangs serves on for some seconds, and a request waits longer than all checks may.
        """
        with self._lock:
            if "has_database" not in self.__dict__:
                self.__dict__["has_database"] = _ends_within(self.invocation.catalog.overview, DATABASE_WITHIN_S)
            return bool(self.__dict__["has_database"])

    @cached_property
    def services(self) -> list[Service]:
        """The services that report; raises as a request does."""
        return self.catalog.metastore.list_services()

    @cached_property
    def successors(self) -> dict[str, Service]:
        """Those services that have taken the place of others; see `lakelog.format.jobs.presence.find_successors`."""
        from lakelog.format.jobs.presence import find_successors

        listed = self.services
        return find_successors(listed, self.catalog.overview().now_ms)

    def find_table(self) -> TableInfo | None:
        """Some table of this catalog; None: the caller sees none."""
        metastore = self.catalog.metastore
        for database in sorted(metastore.list_databases(), key=lambda each: each.table_count):
            if database.table_count:
                for name in metastore.list_tables(database.name)[:1]:
                    return metastore.get_table(TableName(database.name, name))
        return None


def _ends_within(request: Callable[[], object], limit_s: float) -> bool:
    """Whether a request ends in time; with an error it has, too: the check that needs it finds it."""

    def run() -> None:
        with suppress(LakelogError):
            request()

    thread = threading.Thread(target=run, name="database", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        leave_threads()
    return not thread.is_alive()


def is_not_serving(error: LakelogError) -> bool:
    """Whether a check could not be made because the metastore does not serve."""
    return error.reason == NOT_SERVING
