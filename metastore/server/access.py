"""Which role each RPC needs. Denies by default: an RPC that `NEEDED_ROLES` does not list is refused to everyone.

A test fails when one is missing there.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakelog.errors import PermissionDenied
from lakelog.serving.access import Caller, Role

_CATALOG: Final = "/lakelog.rpc.v1.CatalogService/"
_SNAPSHOTS: Final = "/lakelog.rpc.v1.SnapshotService/"
_JOBS: Final = "/lakelog.rpc.v1.JobService/"
_DUE_WORK: Final = "/lakelog.rpc.v1.DueWorkService/"
_CONSUMERS: Final = "/lakelog.rpc.v1.ConsumerService/"
_FILES: Final = "/lakelog.rpc.v1.TableFileService/"
_DROPPED: Final = "/lakelog.rpc.v1.DroppedTableService/"
_RETENTION: Final = "/lakelog.rpc.v1.RetentionService/"
_LOGS: Final = "/lakelog.rpc.v1.LogService/"
_PRESENCE: Final = "/lakelog.rpc.v1.PresenceService/"
_PUBLISHING: Final = "/lakelog.rpc.v1.PublishService/"
_TAGS: Final = "/lakelog.rpc.v1.TagService/"

NEEDED_ROLES: Final[Mapping[str, Role | None]] = {
    f"{_CATALOG}CreateDatabase": Role.ADMIN,
    f"{_CATALOG}ListDatabases": Role.READER,
    f"{_CATALOG}DropDatabase": Role.ADMIN,
    f"{_CATALOG}CreateTable": Role.ADMIN,
    f"{_CATALOG}GetTable": Role.READER,
    f"{_CATALOG}ListTables": Role.READER,
    f"{_CATALOG}AlterTable": Role.ADMIN,
    f"{_CATALOG}DropTable": Role.ADMIN,
    f"{_CATALOG}ListSchemas": Role.READER,
    f"{_SNAPSHOTS}StageAttempt": Role.WRITER,
    f"{_SNAPSHOTS}AbandonAttempt": Role.WRITER,
    f"{_SNAPSHOTS}RegisterWriter": Role.WRITER,
    f"{_SNAPSHOTS}ReleaseWriter": Role.ADMIN,
    f"{_SNAPSHOTS}GetWriterProgress": Role.READER,
    f"{_SNAPSHOTS}Commit": Role.WRITER,
    f"{_SNAPSHOTS}CommitStream": Role.WRITER,
    f"{_SNAPSHOTS}AttachChangelogs": Role.WRITER,
    f"{_SNAPSHOTS}ListSnapshots": Role.READER,
    f"{_SNAPSHOTS}ListLatest": Role.READER,
    f"{_SNAPSHOTS}Plan": Role.READER,
    f"{_SNAPSHOTS}Watch": Role.READER,
    f"{_JOBS}AcquireLease": Role.WRITER,
    f"{_JOBS}RenewLease": Role.WRITER,
    f"{_JOBS}ReleaseLease": Role.WRITER,
    f"{_JOBS}ReportPipeline": Role.WRITER,
    f"{_JOBS}ListPipelines": Role.READER,
    f"{_JOBS}ForgetPipeline": Role.ADMIN,
    f"{_JOBS}LeaseJob": Role.WRITER,
    f"{_JOBS}HeartbeatJob": Role.WRITER,
    f"{_JOBS}FinishJob": Role.WRITER,
    f"{_JOBS}FailJob": Role.WRITER,
    f"{_JOBS}ListJobs": Role.READER,
    f"{_JOBS}RetryJob": Role.WRITER,
    f"{_JOBS}RequestJobs": Role.WRITER,
    f"{_DUE_WORK}PlanCompactions": Role.WRITER,
    f"{_DUE_WORK}DescribeQueue": Role.READER,
    f"{_CONSUMERS}OpenConsumer": Role.READER,
    f"{_CONSUMERS}AdvanceConsumer": Role.READER,
    f"{_CONSUMERS}RenewConsumer": Role.READER,
    f"{_CONSUMERS}ListConsumers": Role.READER,
    f"{_CONSUMERS}ResetConsumer": Role.WRITER,
    f"{_CONSUMERS}DeleteConsumer": Role.WRITER,
    f"{_DROPPED}ListDroppedTables": Role.READER,
    f"{_DROPPED}RestoreTable": Role.ADMIN,
    f"{_DROPPED}BeginPurge": Role.WRITER,
    f"{_DROPPED}PurgeRows": Role.WRITER,
    f"{_FILES}FindUsedFiles": Role.READER,
    f"{_FILES}ListUsedFiles": Role.READER,
    f"{_FILES}ListPartitionFiles": Role.READER,
    f"{_FILES}ListUnfinishedAttempts": Role.READER,
    f"{_FILES}AbortAttempts": Role.WRITER,
    f"{_FILES}ForgetAttempts": Role.WRITER,
    f"{_RETENTION}ExpireSnapshots": Role.WRITER,
    # A caller that may read may also keep what it reads from expiring.
    f"{_RETENTION}LeaseSnapshot": Role.READER,
    f"{_RETENTION}ReleaseSnapshot": Role.READER,
    f"{_RETENTION}ListSnapshotLeases": Role.READER,
    f"{_RETENTION}ListOverdueSnapshots": Role.READER,
    f"{_RETENTION}ListExpiredFiles": Role.WRITER,
    f"{_RETENTION}ForgetExpiredFiles": Role.WRITER,
    f"{_LOGS}ListLogs": Role.READER,
    f"{_LOGS}GetLog": Role.READER,
    f"{_LOGS}RestartLog": Role.ADMIN,
    f"{_PRESENCE}ReportPresence": Role.WRITER,
    f"{_PRESENCE}ListServices": Role.READER,
    f"{_PUBLISHING}GetPublishState": Role.READER,
    f"{_PUBLISHING}ReportPublished": Role.WRITER,
    f"{_PUBLISHING}FindLogOffsets": Role.READER,
    f"{_PUBLISHING}ListLogOffsets": Role.READER,
    f"{_PUBLISHING}FindAttempts": Role.READER,
    f"{_PUBLISHING}RenewAttempts": Role.WRITER,
    f"{_TAGS}CreateTag": Role.WRITER,
    f"{_TAGS}ListTags": Role.READER,
    f"{_TAGS}DeleteTag": Role.WRITER,
    # Probes of load balancers carry no token; the answer is one word.
    "/grpc.health.v1.Health/Check": None,
    "/grpc.health.v1.Health/List": None,
    "/grpc.health.v1.Health/Watch": None,
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": Role.READER,
}
"""The role that each RPC needs; None: open to everyone. Those that need more than READER have an effect."""


def check_allowed(method: str, caller: Caller) -> None:
    """Refuses what a caller's role does not allow.

    Args:
        method: The RPC's full name, `/package.Service/Method`.
        caller: The caller.

    Raises:
        PermissionDenied: The role is too low, or the RPC is not listed in `NEEDED_ROLES`.
    """
    if method not in NEEDED_ROLES:
        raise PermissionDenied(f"{method} is open to no role.", metadata={"method": method})
    needed = NEEDED_ROLES[method]
    if needed is not None and caller.role < needed:
        raise PermissionDenied(
            f"{caller.name} has the role {caller.role.name.lower()}, but {method.rpartition('/')[2]} needs "
            f"{needed.name.lower()}. Ask an operator for a token with that role.",
            metadata={"caller": caller.name, "role": caller.role.name.lower(), "needed": needed.name.lower()},
        )
