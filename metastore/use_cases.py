"""The use cases of the metastore, made and connected: this module says which one notifies which."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from lakelog.clock import Clock, Ids, RandomIds, SystemClock
from lakelog.format.tables.snapshot import Snapshot

from .commits.gate import CommitGate
from .commits.pending_changelogs import PendingChangelogs
from .commits.staging import Staging
from .commits.unused_writers import UnusedWriters
from .commits.writers import Writers
from .credentials.vending import Vended, Vending, VendSettings
from .grants.checking import GrantChecks
from .grants.grants import Grants
from .grants.identity import Identities
from .heavy_work import HeavyWork
from .jobs.cleaning import Cleaning
from .jobs.dedicated import DedicatedPlanning
from .jobs.due_compactions import plan_compactions
from .jobs.due_deletion_vectors import plan_deletion_vector_jobs
from .jobs.due_full import plan_full_compactions
from .jobs.due_work import DueWork, WorkPlanner
from .jobs.jobs import Jobs
from .jobs.leases import Leases
from .jobs.listing import JobListing
from .jobs.partition_expiry import plan_partition_expiry
from .jobs.pipelines import Pipelines
from .jobs.services import Services
from .jobs.unused_leases import UnusedLeases
from .logs.brokers import Brokers
from .logs.owner_rules import OwnerRules
from .logs.publishing import Publishing
from .logs.topics import LogTopics
from .metrics import OF_TABLES, Metrics, NoMetrics
from .plans.packing import Packer
from .plans.planning import Planner
from .retention.expiry import Expiry, plan_expiry_work
from .retention.old_runs import OldRuns
from .retention.overdue import Overdue
from .retention.snapshot_leases import SnapshotLeases
from .snapshots.consumers import Consumers
from .snapshots.listing import SnapshotListing
from .snapshots.tags import Tags
from .snapshots.watching import WatchHub
from .store.limits import Limits
from .store.transaction import Store
from .tables.catalog import Catalog
from .tables.columns import Columns
from .tables.dropped import DroppedTables
from .tables.partitions import PartitionRules
from .tables.table_files import TableFiles
from .waiting_work.measuring import WorkMeasuring
from .waiting_work.overview import Overviews

PLANNERS: Final[tuple[WorkPlanner, ...]] = (
    plan_compactions,
    plan_full_compactions,
    plan_deletion_vector_jobs,
    plan_expiry_work,
    plan_partition_expiry,
)
"""Which planners find what is due at a table, in the order of their calls."""


class UseCases:
    """All that the metastore does, with an attribute for each use case. Runs on one event loop.

    The public methods have the names of `lakelog.client.metastore.metastore.Metastore`, whose docstrings hold here too,
    and raise only errors of `lakelog.errors`. `metastore.background` runs what is needed beside the requests.

    Args:
        store: Where everything is stored; `close` leaves it open.
        warehouse: Absolute URI under which tables get their locations.
        clock: Measures durations; the times of commits and leases are the store's.
        ids: Generates the ids of tables, snapshots and attempts.
        limits: Bounds of single requests and of all together.
        metrics: Where measurements go.
        dropped_retention_ms: How long dropped tables can be restored; 0: not at all.
        brokers: Those that tables may name for their logs; by default there are none.
        planners: They find what commits make due.
        work: Threads for work that would block the event loop; by default it makes its own.
        vend: How keys of the object store are vended; None: not at all.
        vended: Called with what was vended.
        owner_rules: Which topics and secrets callers below the role `admin` may name; by default none.
    """

    def __init__(
        self,
        store: Store,
        warehouse: str,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        limits: Limits | None = None,
        metrics: Metrics | None = None,
        dropped_retention_ms: int = 86_400_000,
        brokers: Brokers | None = None,
        planners: Sequence[WorkPlanner] = PLANNERS,
        work: HeavyWork | None = None,
        vend: VendSettings | None = None,
        vended: Callable[[Vended], None] = lambda _: None,
        owner_rules: OwnerRules | None = None,
    ) -> None:
        clock = clock or SystemClock()
        ids = ids or RandomIds()
        limits = limits or Limits()
        self._metrics = metrics = metrics or NoMetrics()
        self.work = work = work or HeavyWork()
        partitions = PartitionRules(work.commits)
        self.watches = WatchHub(store, limits, metrics)
        self.grant_checks = GrantChecks(store, clock, self.watches.announce)
        self.watches.listeners.append(self.grant_checks.announced)
        self.grants = Grants(store, self.grant_checks, self.grant_checks.changed_of)
        self.identities = Identities(self.grant_checks)
        self.due_work = DueWork(store, clock, planners, self._jobs_due)
        self.work_measuring = WorkMeasuring(store, clock, metrics)
        self.watches.listeners.append(lambda _announced: self.work_measuring.touch())
        self.jobs = Jobs(store, clock, self.watches, limits, self.due_work.touch, self.work_measuring.touch)
        self.job_listing = JobListing(store, limits)
        self.dedicated = DedicatedPlanning(store, self.due_work, self.jobs.due)
        self.cleaning = Cleaning(store, self.jobs.due)
        self.gate = CommitGate(
            store,
            ids,
            clock,
            limits,
            metrics,
            self._committed,
            self._uncertain,
            partitions,
            self.jobs.due,
            work,
        )
        self.staging = Staging(store, ids, limits)
        self.writers = Writers(store)
        self.unused_writers = UnusedWriters(store)
        self.pending_changelogs = PendingChangelogs(store, limits, self.watches, partitions, work)
        self.log_topics = LogTopics(store, brokers or Brokers())
        self.publishing = Publishing(store)
        self.catalog = Catalog(
            store,
            ids,
            warehouse,
            self.log_topics,
            self._table_altered,
            self._table_dropped,
            self.grant_checks.changed,
            dropped_retention_ms,
            owner_rules or OwnerRules(),
        )
        self.columns = Columns(store, self._table_altered)
        self.dropped_tables = DroppedTables(store, self._table_restored)
        self.table_files = TableFiles(store)
        self.planner = Planner(store, clock, limits, metrics, work)
        self.packer = Packer(store, work, clock=clock)
        self.leases = Leases(store)
        self.unused_leases = UnusedLeases(store)
        self.pipelines = Pipelines(store)
        self.listing = SnapshotListing(store)
        self.consumers = Consumers(store, self.work_measuring.touch)
        self.tags = Tags(store)
        self.expiry = Expiry(store, self.packer, self.jobs.due)
        self.snapshot_leases = SnapshotLeases(store)
        self.old_runs = OldRuns(store)
        self.overdue = Overdue(store, metrics)
        self.overviews = Overviews(store, lambda: self.overdue.latest)
        self.services = Services(store, limits)
        self.vending = Vending(store, clock, vend, vended)

    async def close(self) -> None:
        """Ends watches, lets running commits finish and refuses those that wait; idempotent."""
        self.jobs.close()
        self.watches.close()
        self.vending.close()
        await self.log_topics.close()
        await self.gate.close()

    def _committed(self, table_uuid: str, snapshots: Sequence[Snapshot], complete_until: int) -> None:
        self.watches.committed(table_uuid, snapshots, complete_until)
        self.due_work.touch(table_uuid)
        self.packer.touch()
        self.work_measuring.touch()

    def _uncertain(self, table_uuid: str) -> None:
        self.watches.uncertain(table_uuid)
        self.due_work.touch(table_uuid)
        self.packer.touch()
        self.work_measuring.touch()

    def _jobs_due(self) -> None:
        self.jobs.due()

    def _table_altered(self, table_uuid: str) -> None:
        self.due_work.touch(table_uuid)
        # A log that was switched on begins with a lag.
        self.work_measuring.touch()

    def _table_dropped(self, table_uuid: str, name: str) -> None:
        self.watches.dropped(table_uuid)
        for level in OF_TABLES:
            self._metrics.forget(level, name)
        # It may be purged at once, or before a waiting compactor would poll again.
        self.jobs.due()
        self.log_topics.wake()

    def _table_restored(self, table_uuid: str) -> None:
        self.log_topics.wake()
        self.due_work.touch(table_uuid)
        self.jobs.due()


def find_use_case(use_cases: UseCases, name: str) -> Callable[..., Any]:
    """The method of this name of `lakelog.client.metastore.metastore.Metastore`, which one use case has."""
    found: Callable[..., Any] = next(getattr(each, name) for each in vars(use_cases).values() if hasattr(each, name))
    return found
