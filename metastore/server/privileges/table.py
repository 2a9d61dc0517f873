"""The privileges of every RPC, in one table. Denies by default: an RPC that it does not list is refused to everyone.

Tests fail when an RPC is missing, and when a request has a field that names a table, a database or something that
belongs to one, and the table does not look at it. `dev/privileges_page.py` writes `docs/privileges.md` from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakelog.serving.access import Role

from .rules import (
    OWNER,
    READER,
    WRITER,
    Anywhere,
    FullTableName,
    OfAttempt,
    OfCaller,
    OfDropped,
    OfJob,
    OfLease,
    OfOwnGrant,
    OfPipeline,
    OfPipelineName,
    Privilege,
    Rule,
    ScopeName,
    Shown,
    ShownByUseCase,
    ShownDatabases,
    ShownNames,
    ShownOverview,
    ShownTables,
    ShownUuids,
    TableUuids,
)

_PACKAGE: Final = "/lakelog.rpc.v1."


def _reads(*rules: Rule, shown: Shown | None = None) -> Privilege:
    return Privilege(Role.READER, rules, shown)


def _writes(*rules: Rule) -> Privilege:
    return Privilege(Role.WRITER, rules, has_effect=True)


def _administers(*rules: Rule) -> Privilege:
    return Privilege(Role.ADMIN, rules, has_effect=True)


_READ: Final = TableUuids("table_uuid", READER)
_WRITE: Final = TableUuids("table_uuid", WRITER)
_OWN: Final = TableUuids("table_uuid", OWNER)
_JOB: Final = OfJob("job_id", WRITER)
_LEASE: Final = OfLease("name", WRITER)

_OF_SERVICES: Final[Mapping[str, Mapping[str, Privilege]]] = {
    "CatalogService": {
        "CreateDatabase": _administers(),
        "ListDatabases": _reads(shown=ShownDatabases("databases")),
        "DropDatabase": _administers(ScopeName("name", "", OWNER)),
        "CreateTable": _administers(ScopeName("database", "", OWNER)),
        "GetTable": _reads(
            TableUuids("table_uuid", READER, may_be_empty=True), ScopeName("name.database", "name.name", READER)
        ),
        "ListTables": _reads(shown=ShownTables("database", "names")),
        "AlterTable": _administers(_OWN),
        "AlterColumns": _administers(_OWN),
        "DropTable": _administers(ScopeName("database", "name", OWNER)),
        "ListSchemas": _reads(_READ),
    },
    "SnapshotService": {
        "StageAttempt": _writes(TableUuids("table_uuids", WRITER)),
        "AbandonAttempt": _writes(OfAttempt("attempt_id", WRITER)),
        # The name of a writer belongs to the caller that uses it first (decision 21).
        "RegisterWriter": _writes(Anywhere(WRITER)),
        "ReleaseWriter": _administers(),
        "GetWriterProgress": _reads(_READ),
        "Commit": _writes(
            TableUuids("changes.table_uuid", WRITER),
            TableUuids("guards.table_uuid", READER, may_be_empty=True),
            OfLease("fences.lease", WRITER),
        ),
        # Each commit of the stream.
        "CommitStream": _writes(
            TableUuids("commit.changes.table_uuid", WRITER),
            TableUuids("commit.guards.table_uuid", READER, may_be_empty=True),
            OfLease("commit.fences.lease", WRITER),
        ),
        "AttachChangelogs": _writes(_WRITE, OfJob("job_id", WRITER, may_be_empty=True)),
        "ListSnapshots": _reads(_READ),
        "ListLatest": _reads(TableUuids("table_uuids", READER)),
        "Plan": _reads(_READ),
        "Watch": _reads(TableUuids("positions.table_uuid", READER)),
    },
    "JobService": {
        "AcquireLease": _writes(_LEASE),
        "RenewLease": _writes(_LEASE),
        "ReleaseLease": _writes(_LEASE),
        "ReportPipeline": _writes(FullTableName("pipeline.table", WRITER), OfPipelineName("pipeline.name", WRITER)),
        "ListPipelines": _reads(shown=ShownNames("pipelines", "table")),
        "ForgetPipeline": _administers(OfPipeline("name", OWNER)),
        # Without a table it takes jobs of all tables.
        "LeaseJob": _writes(TableUuids("table_uuids", WRITER)),
        "HeartbeatJob": _writes(_JOB),
        "FinishJob": _writes(_JOB),
        "FailJob": _writes(_JOB),
        "ListJobs": _reads(TableUuids("table_uuids", READER, may_be_empty=True), shown=ShownByUseCase("jobs")),
        "CountJobs": _reads(TableUuids("table_uuids", READER, may_be_empty=True), shown=ShownByUseCase("counts")),
        "ListJobRuns": _reads(TableUuids("table_uuids", READER, may_be_empty=True), shown=ShownByUseCase("runs")),
        "RetryJob": _writes(_JOB),
        "RequestJobs": _writes(_WRITE),
    },
    "DueWorkService": {
        "PlanCompactions": _writes(_WRITE),
        # Numbers over all tables.
        "DescribeQueue": _reads(),
        "GetOverview": _reads(shown=ShownOverview()),
    },
    "ConsumerService": {
        "OpenConsumer": _reads(TableUuids("table_uuids", READER)),
        "AdvanceConsumer": _reads(TableUuids("positions.table_uuid", READER)),
        "RenewConsumer": _reads(TableUuids("epochs.table_uuid", READER)),
        "ListConsumers": _reads(_READ),
        "ResetConsumer": _writes(_WRITE),
        "DeleteConsumer": _writes(_WRITE),
    },
    "DroppedTableService": {
        "ListDroppedTables": _reads(shown=ShownUuids("tables", "table_uuid")),
        "RestoreTable": _administers(OfDropped("name", "table_uuid", "new_name", OWNER)),
        "BeginPurge": _writes(_JOB),
        "PurgeRows": _writes(_JOB),
    },
    "TableFileService": {
        "FindUsedFiles": _reads(_READ),
        "ListUsedFiles": _reads(_READ),
        "ListPartitionFiles": _reads(_READ),
        "ListUnfinishedAttempts": _reads(_READ),
        "AbortAttempts": _writes(_WRITE),
        "ForgetAttempts": _writes(_WRITE),
    },
    "RetentionService": {
        "ExpireSnapshots": _writes(_WRITE),
        # A caller that may read may also keep what it reads from expiring.
        "LeaseSnapshot": _reads(_READ),
        "ReleaseSnapshot": _reads(_READ),
        "ListSnapshotLeases": _reads(_READ),
        "ListOverdueSnapshots": _reads(
            TableUuids("table_uuid", READER, may_be_empty=True), shown=ShownNames("overdue", "table")
        ),
        "ListExpiredFiles": _writes(_WRITE),
        "ForgetExpiredFiles": _writes(_WRITE),
    },
    "TagService": {
        "CreateTag": _writes(_WRITE),
        "ListTags": _reads(_READ),
        "DeleteTag": _writes(_WRITE),
    },
    "LogService": {
        "ListLogs": _reads(shown=ShownUuids("logs", "table_uuid")),
        "GetLog": _reads(_READ),
        "RestartLog": _administers(_OWN),
    },
    # Keys of the object store reach as far as their caller's right, and a line in the log says who has got them.
    "CredentialService": {
        "VendReadCredentials": _reads(_READ),
        "VendWriteCredentials": _writes(_WRITE),
    },
    "GrantService": {
        "Grant": _administers(ScopeName("database", "table", OWNER)),
        # A caller may always give back what it has.
        "Revoke": _administers(OfOwnGrant("principal", "database", "table", "table_uuid", OWNER)),
        # Without effect, but readers do not see what others may do.
        "ListGrants": Privilege(Role.ADMIN, (OfCaller("principal", "database", "table", "table_uuid", OWNER),)),
        # For services that read for others.
        "CheckAccess": _reads(),
        # About the caller itself, and of tables no more than what it may do there.
        "WhoAmI": Privilege(Role.USER),
    },
    "PresenceService": {
        # About the services themselves, and their work at all tables.
        "ReportPresence": _writes(),
        "ListServices": _reads(),
    },
    "PublishService": {
        "GetPublishState": _reads(_READ),
        "ReportPublished": _writes(_WRITE),
        "FindLogOffsets": _reads(_READ),
        "ListLogOffsets": _reads(_READ),
        "FindAttempts": _reads(_READ),
        # It passes over attempts that other callers own.
        "RenewAttempts": _writes(Anywhere(WRITER)),
    },
}

PRIVILEGES: Final[Mapping[str, Privilege]] = {
    **{
        f"{_PACKAGE}{service}/{method}": privilege
        for service, methods in _OF_SERVICES.items()
        for method, privilege in methods.items()
    },
    # Probes of load balancers carry no token; the answer is one word.
    "/grpc.health.v1.Health/Check": Privilege(None),
    "/grpc.health.v1.Health/List": Privilege(None),
    "/grpc.health.v1.Health/Watch": Privilege(None),
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Privilege(Role.READER),
}
"""What each RPC needs, by its full name."""
