"""A request for each RPC, about the table `shop.orders` of a world, about its database, or about what belongs to it.

Each passes the check of privileges or not; whether it has an effect then does not matter, but it must leave the world
as it is for the next caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from google.protobuf.message import Message

from lakelog.rpc.v1 import (
    catalog_pb2,
    consumers_pb2,
    credentials_pb2,
    dropped_pb2,
    due_work_pb2,
    grants_pb2,
    jobs_pb2,
    logs_pb2,
    presence_pb2,
    publishing_pb2,
    retention_pb2,
    snapshots_pb2,
    table_files_pb2,
    tags_pb2,
)
from tests.contract.grants.world import World

Make: TypeAlias = Callable[[World], Message]

PIPELINE = "pipeline/p"


def _change(world: World) -> snapshots_pb2.Change:
    return snapshots_pb2.Change(table_uuid=world.table.table_uuid)


def _commit(world: World) -> snapshots_pb2.CommitRequest:
    guard = snapshots_pb2.TableGuard(table_uuid=world.table.table_uuid)
    return snapshots_pb2.CommitRequest(writer="w", identifier=9, changes=[_change(world)], guards=[guard])


def _name(world: World) -> catalog_pb2.TableName:
    return catalog_pb2.TableName(database=world.table.name.database, name=world.table.name.name)


def _of_table(message: type[Message], **fields: object) -> Make:
    return lambda world: message(table_uuid=world.table.table_uuid, **fields)


def _of_tables(message: type[Message], **fields: object) -> Make:
    return lambda world: message(table_uuids=[world.table.table_uuid], **fields)


def _of_job(message: type[Message], **fields: object) -> Make:
    # With an epoch that no holder has.
    return lambda world: message(job_id=world.job_id, **fields)


def _fixed(message: Message) -> Make:
    return lambda _: message


CALLS: Mapping[str, Make] = {
    "CreateDatabase": _fixed(catalog_pb2.CreateDatabaseRequest(name="shop", if_not_exists=True)),
    "ListDatabases": _fixed(catalog_pb2.ListDatabasesRequest()),
    # It has a table, and `cascade` is not said.
    "DropDatabase": _fixed(catalog_pb2.DropDatabaseRequest(name="shop")),
    "CreateTable": _fixed(catalog_pb2.CreateTableRequest(database="shop", name="orders")),
    "GetTable": lambda world: catalog_pb2.GetTableRequest(name=_name(world)),
    "ListTables": _fixed(catalog_pb2.ListTablesRequest(database="shop")),
    "AlterTable": _of_table(catalog_pb2.AlterTableRequest),
    "AlterColumns": _of_table(catalog_pb2.AlterColumnsRequest, comment="orders"),
    # The test restores it.
    "DropTable": _fixed(catalog_pb2.DropTableRequest(database="shop", name="spare")),
    "ListSchemas": _of_table(catalog_pb2.ListSchemasRequest),
    "StageAttempt": _of_tables(snapshots_pb2.StageAttemptRequest, writer="sdk-" + "0" * 32),
    "AbandonAttempt": lambda world: snapshots_pb2.AbandonAttemptRequest(attempt_id=world.attempt_id),
    "RegisterWriter": _fixed(snapshots_pb2.RegisterWriterRequest(writer="w")),
    "ReleaseWriter": _fixed(snapshots_pb2.ReleaseWriterRequest(writer="none")),
    "GetWriterProgress": _of_table(snapshots_pb2.GetWriterProgressRequest, writer="w"),
    "Commit": _commit,
    "CommitStream": lambda world: snapshots_pb2.CommitStreamRequest(commit=_commit(world)),
    "AttachChangelogs": lambda world: snapshots_pb2.AttachChangelogsRequest(
        table_uuid=world.table.table_uuid, job_id=world.job_id, attempt_id=world.attempt_id, epoch=1
    ),
    "ListSnapshots": _of_table(snapshots_pb2.ListSnapshotsRequest),
    "ListLatest": _of_tables(snapshots_pb2.ListLatestRequest),
    "Plan": _of_table(snapshots_pb2.PlanRequest),
    "Watch": lambda world: snapshots_pb2.WatchRequest(
        positions=[snapshots_pb2.WatchPosition(table_uuid=world.table.table_uuid)]
    ),
    "AcquireLease": _fixed(jobs_pb2.AcquireLeaseRequest(name=PIPELINE, holder="h", duration_ms=1)),
    "RenewLease": _fixed(jobs_pb2.RenewLeaseRequest(name=PIPELINE, epoch=1, duration_ms=1000)),
    "ReleaseLease": _fixed(jobs_pb2.ReleaseLeaseRequest(name=PIPELINE, epoch=1)),
    "ReportPipeline": lambda world: jobs_pb2.ReportPipelineRequest(
        pipeline=jobs_pb2.Pipeline(name="p", table=str(world.table.name)), epoch=1
    ),
    "ListPipelines": _fixed(jobs_pb2.ListPipelinesRequest()),
    # Its lease is held.
    "ForgetPipeline": _fixed(jobs_pb2.ForgetPipelineRequest(name="p")),
    "LeaseJob": _of_tables(jobs_pb2.LeaseJobRequest, kinds=["none"], holder="h", duration_ms=1000),
    "HeartbeatJob": _of_job(jobs_pb2.HeartbeatJobRequest, epoch=1, duration_ms=1000),
    "FinishJob": _of_job(jobs_pb2.FinishJobRequest, epoch=1),
    "FailJob": _of_job(jobs_pb2.FailJobRequest, epoch=1, reason="x"),
    "ListJobs": _fixed(jobs_pb2.ListJobsRequest()),
    "CountJobs": _fixed(jobs_pb2.CountJobsRequest()),
    "ListJobRuns": _fixed(jobs_pb2.ListJobRunsRequest()),
    "RetryJob": _of_job(jobs_pb2.RetryJobRequest),
    "RequestJobs": _of_table(jobs_pb2.RequestJobsRequest, kind="none"),
    "PlanCompactions": _of_table(due_work_pb2.PlanCompactionsRequest),
    "DescribeQueue": _fixed(due_work_pb2.DescribeQueueRequest()),
    "GetOverview": _fixed(due_work_pb2.GetOverviewRequest()),
    # The table has a consumer of this name, of the admin.
    "OpenConsumer": _of_tables(consumers_pb2.OpenConsumerRequest, consumer_id="etl", holder="h"),
    "AdvanceConsumer": lambda world: consumers_pb2.AdvanceConsumerRequest(
        consumer_id="etl", positions=[consumers_pb2.ConsumerPosition(table_uuid=world.table.table_uuid, epoch=1)]
    ),
    "RenewConsumer": lambda world: consumers_pb2.RenewConsumerRequest(
        consumer_id="etl", epochs=[consumers_pb2.ConsumerEpoch(table_uuid=world.table.table_uuid, epoch=1)], holder="h"
    ),
    "ListConsumers": _of_table(consumers_pb2.ListConsumersRequest),
    "ResetConsumer": _of_table(consumers_pb2.ResetConsumerRequest, consumer_id="none", snapshot_id=-1),
    "DeleteConsumer": _of_table(consumers_pb2.DeleteConsumerRequest, consumer_id="none"),
    "ListDroppedTables": _fixed(dropped_pb2.ListDroppedTablesRequest()),
    # The test drops it again.
    "RestoreTable": _fixed(dropped_pb2.RestoreTableRequest(name=catalog_pb2.TableName(database="shop", name="old"))),
    "BeginPurge": _of_job(dropped_pb2.BeginPurgeRequest, epoch=1),
    "PurgeRows": _of_job(dropped_pb2.PurgeRowsRequest, epoch=1),
    "FindUsedFiles": _of_table(table_files_pb2.FindUsedFilesRequest),
    "ListUsedFiles": _of_table(table_files_pb2.ListUsedFilesRequest),
    "ListPartitionFiles": _of_table(table_files_pb2.ListPartitionFilesRequest),
    "ListUnfinishedAttempts": _of_table(table_files_pb2.ListUnfinishedAttemptsRequest),
    "AbortAttempts": _of_table(table_files_pb2.AbortAttemptsRequest),
    "ForgetAttempts": _of_table(table_files_pb2.ForgetAttemptsRequest),
    "ExpireSnapshots": _of_table(retention_pb2.ExpireSnapshotsRequest, dry_run=True),
    "LeaseSnapshot": _of_table(retention_pb2.LeaseSnapshotRequest, holder="h"),
    "ReleaseSnapshot": _of_table(retention_pb2.ReleaseSnapshotRequest, holder="h"),
    "ListSnapshotLeases": _of_table(retention_pb2.ListSnapshotLeasesRequest),
    "ListOverdueSnapshots": _fixed(retention_pb2.ListOverdueSnapshotsRequest()),
    "ListExpiredFiles": _of_table(retention_pb2.ListExpiredFilesRequest),
    "ForgetExpiredFiles": _of_table(retention_pb2.ForgetExpiredFilesRequest),
    "CreateTag": _of_table(tags_pb2.CreateTagRequest, name="first"),
    "ListTags": _of_table(tags_pb2.ListTagsRequest),
    "DeleteTag": _of_table(tags_pb2.DeleteTagRequest, name="none"),
    "ListLogs": _fixed(logs_pb2.ListLogsRequest()),
    "GetLog": _of_table(logs_pb2.GetLogRequest),
    # It has no log.
    "RestartLog": _of_table(logs_pb2.RestartLogRequest),
    "VendReadCredentials": _of_table(credentials_pb2.VendReadCredentialsRequest),
    "VendWriteCredentials": _of_table(credentials_pb2.VendWriteCredentialsRequest),
    "Grant": _fixed(
        grants_pb2.GrantRequest(
            database="shop", table="orders", level=grants_pb2.GRANT_LEVEL_READER, principal="reader-of-the-table"
        )
    ),
    "Revoke": _fixed(grants_pb2.RevokeRequest(database="shop", table="orders", principal="none")),
    "ListGrants": _fixed(grants_pb2.ListGrantsRequest()),
    "CheckAccess": _of_tables(grants_pb2.CheckAccessRequest, principal="someone", level=grants_pb2.GRANT_LEVEL_READER),
    "WhoAmI": _of_tables(grants_pb2.WhoAmIRequest),
    "ReportPresence": _fixed(presence_pb2.ReportPresenceRequest()),
    "ListServices": _fixed(presence_pb2.ListServicesRequest()),
    "GetPublishState": _of_table(publishing_pb2.GetPublishStateRequest),
    "ReportPublished": _of_table(publishing_pb2.ReportPublishedRequest),
    "FindLogOffsets": _of_table(publishing_pb2.FindLogOffsetsRequest),
    "ListLogOffsets": _of_table(publishing_pb2.ListLogOffsetsRequest),
    "FindAttempts": _of_table(publishing_pb2.FindAttemptsRequest),
    "RenewAttempts": lambda world: publishing_pb2.RenewAttemptsRequest(attempt_ids=[world.attempt_id]),
}
"""By the short name of the RPC."""
