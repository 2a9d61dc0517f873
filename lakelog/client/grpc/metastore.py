"""The metastore over gRPC: `lakelog.client.metastore.metastore.Metastore` for a target.

Each method says whether its call is repeated after a failure, and why that is safe; `lakelog.client.connection.calls`
repeats it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from lakelog.client.connection.calls import Calls, Rpc
from lakelog.client.connection.connection import Connection
from lakelog.client.connection.plan_assembly import assemble_files
from lakelog.client.connection.retry import Deadlines, RetryPolicy
from lakelog.client.connection.target import TlsFiles, parse_target
from lakelog.client.connection.tokens import Token
from lakelog.client.grpc.jobs import GrpcJobs
from lakelog.client.grpc.logs import GrpcLogs
from lakelog.client.grpc.pipeline import GrpcCommitPipeline
from lakelog.client.grpc.retention import GrpcRetention
from lakelog.client.grpc.unary import mutation, read
from lakelog.client.grpc.watch import GrpcWatch
from lakelog.client.metastore.metastore import LatestSnapshot, SnapshotPage, WatchPosition
from lakelog.clock import Clock, SystemClock
from lakelog.errors import AlreadyExists, InternalError, InvalidArgument, LakelogError, NotFound, OutcomeUnknown
from lakelog.format.commit.request import CommitRequest, CommitResult, StagedAttempt
from lakelog.format.tables.plan import Plan, PlanRequest
from lakelog.format.tables.table import TableInfo, TableName
from lakelog.format.types.column_changes import ColumnChange
from lakelog.rpc.commit import from_proto_commit_result, to_proto_commit_request
from lakelog.rpc.messages import build
from lakelog.rpc.plan import from_proto_plan_header, to_proto_plan_request
from lakelog.rpc.schema import to_ipc_schema, to_proto_column_change
from lakelog.rpc.snapshot import from_proto_snapshot
from lakelog.rpc.table import from_proto_table, to_proto_table_name
from lakelog.rpc.v1 import catalog_pb2, snapshots_pb2


class GrpcMetastore(GrpcJobs, GrpcLogs, GrpcRetention):
    """A metastore over the wire. Connects when first used.

    Threads may share it. A forked child opens a connection of its own. It pickles as its parameters, and
    connects again where it is unpickled; the TLS files must exist there under the same paths. A token from the
    environment pickles as its variable's name.

    Args:
        target: `host:port`.
        tls: PEM files for TLS; None: plaintext.
        token: Identifies the caller; sent only over TLS or to a loopback address. Never shown. A file is read again
            when it changes.
        deadlines: The limits of single tries.
        retries: The limits and pauses of repeats, where these are safe.
        clock: Gives the time and makes the pauses.
        is_known: A metastore has answered under this target before, to another client of the same program. The wait for
            it is the same as if it had answered this client.

    Raises:
        InvalidArgument: The target is malformed, or the token must not be sent there.
    """

    def __init__(
        self,
        target: str,
        *,
        tls: TlsFiles | None = None,
        token: Token | None = None,
        deadlines: Deadlines | None = None,
        retries: RetryPolicy | None = None,
        clock: Clock | None = None,
        is_known: bool = False,
    ) -> None:
        self._parameters = (target, tls, token, deadlines, retries, clock)
        self._deadlines = deadlines or Deadlines()
        self._retries = retries or RetryPolicy()
        self._clock = clock or SystemClock()
        self._rng: Callable[[], float] = random.random
        self._connection = Connection(
            parse_target(target),
            tls=tls,
            token=token,
            deadlines=self._deadlines,
            retries=self._retries,
            clock=self._clock,
            rng=self._rng,
            is_known=is_known,
        )
        self._calls = Calls(
            self._connection, deadlines=self._deadlines, retries=self._retries, clock=self._clock, rng=self._rng
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (_connect_again, (*self._parameters, self._connection.is_known))

    def __repr__(self) -> str:
        tls = "TLS" if self._parameters[1] is not None else "plaintext"
        return f"GrpcMetastore({str(self._connection.target)!r}, {tls})"

    # Grants

    # Repeated: idempotent.
    grant = mutation()
    # Not repeated after an unknown outcome: a repeat would find no grant.
    revoke = mutation(repeat_unknown=False)
    list_grants = read()
    who_am_i = read()
    check_access = read()

    # Keys of the object store

    vend_read_credentials = read()
    vend_write_credentials = read()

    # Databases and tables

    # A repeat destroys nothing. A name that is taken then may be our own doing, so it proves nothing.
    create_database = mutation(no_proof=(AlreadyExists,))
    list_databases = read()

    def drop_database(self, name: str, *, if_exists: bool = False, cascade: bool = False) -> bool:
        """Removes a database; after an unknown outcome the error says whether the database is there now."""
        request = build(catalog_pb2.DropDatabaseRequest, name=name, if_exists=if_exists, cascade=cascade)
        try:
            # Not repeated: another client may have made the name again meanwhile, and would lose it.
            return self._calls.mutate(
                "DropDatabase", lambda on: on.methods.DropDatabase, request, repeat_unknown=False
            ).dropped
        except OutcomeUnknown as error:
            raise self._with_finding(
                error, f"Database {name}", lambda: any(found.name == name for found in self.list_databases())
            ) from error

    def create_table(
        self,
        name: TableName,
        schema: pa.Schema,
        *,
        primary_key: Sequence[str] = (),
        partition_by: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        if_not_exists: bool = False,
        comment: str = "",
    ) -> tuple[TableInfo, bool]:
        """Makes a table; False as in `create_database`."""
        request = build(
            catalog_pb2.CreateTableRequest,
            database=name.database,
            name=name.name,
            arrow_schema=to_ipc_schema(schema),
            primary_key=primary_key,
            partition_by=partition_by,
            options=dict(options or {}),
            if_not_exists=if_not_exists,
            comment=comment,
        )
        # As with databases.
        response = self._calls.mutate(
            "CreateTable", lambda on: on.methods.CreateTable, request, no_proof=(AlreadyExists,)
        )
        return from_proto_table(response.table), response.created

    def get_table(self, name: TableName) -> TableInfo:
        """A table by name."""
        return self._get_table(catalog_pb2.GetTableRequest(name=to_proto_table_name(name)))

    def get_table_by_uuid(self, table_uuid: str) -> TableInfo:
        """A table by uuid."""
        return self._get_table(build(catalog_pb2.GetTableRequest, table_uuid=table_uuid))

    def _get_table(self, request: catalog_pb2.GetTableRequest) -> TableInfo:
        return from_proto_table(self._calls.read("GetTable", lambda on: on.methods.GetTable, request).table)

    list_tables = read()

    def alter_table(
        self, table_uuid: str, *, set_options: Mapping[str, str], unset_options: Sequence[str]
    ) -> TableInfo:
        """Changes options; after an unknown outcome it reads the table, and returns it if it is as requested."""
        request = build(
            catalog_pb2.AlterTableRequest,
            table_uuid=table_uuid,
            set_options=dict(set_options),
            unset_options=unset_options,
        )
        try:
            # Not repeated: another may have altered the table meanwhile.
            response = self._calls.mutate("AlterTable", lambda on: on.methods.AlterTable, request, repeat_unknown=False)
        except OutcomeUnknown:
            table = self.get_table_by_uuid(table_uuid)
            as_set = all(table.options.get(key) == value for key, value in set_options.items())
            if as_set and not any(key in table.options for key in unset_options):
                return table
            raise
        return from_proto_table(response.table)

    def alter_columns(
        self, table_uuid: str, *, changes: Sequence[ColumnChange], comment: str | None = None
    ) -> TableInfo:
        """Changes columns; after an unknown outcome the error says which schema the table has now."""
        request = build(
            catalog_pb2.AlterColumnsRequest,
            table_uuid=table_uuid,
            changes=[to_proto_column_change(change) for change in changes],
            comment=comment,
        )
        try:
            # Not repeated: most changes cannot be done twice, and another may have altered the table meanwhile.
            response = self._calls.mutate(
                "AlterColumns", lambda on: on.methods.AlterColumns, request, repeat_unknown=False
            )
        except OutcomeUnknown as error:
            found = self.get_table_by_uuid(table_uuid).schema.schema_id
            message = f"{error.message} The table has schema {found} now: look whether it is as it should be."
            raise OutcomeUnknown(message, reason=error.reason, metadata=error.metadata) from error
        return from_proto_table(response.table)

    def drop_table(self, name: TableName, *, if_exists: bool = False) -> bool:
        """Removes a table; after an unknown outcome the error says whether the table is there now."""
        request = build(catalog_pb2.DropTableRequest, database=name.database, name=name.name, if_exists=if_exists)
        try:
            # Not repeated, as with databases.
            return self._calls.mutate(
                "DropTable", lambda on: on.methods.DropTable, request, repeat_unknown=False
            ).dropped
        except OutcomeUnknown as error:
            raise self._with_finding(error, f"Table {name}", lambda: self._exists(name)) from error

    list_schemas = read()

    # Commits

    def stage_attempt(
        self,
        table_uuids: Sequence[str],
        writer: str,
        *,
        attempt_id: str = "",
        count: int = 1,
        identifier: int | None = None,
        epoch: int = 0,
    ) -> StagedAttempt:
        """Opens or widens attempts. Repeated: an attempt that no one knows of costs only a later clean-up."""
        request = build(
            snapshots_pb2.StageAttemptRequest,
            table_uuids=table_uuids,
            writer=writer,
            attempt_id=attempt_id,
            count=0 if count == 1 else count,
            identifier=identifier,
            epoch=epoch,
        )
        response = self._calls.mutate("StageAttempt", lambda on: on.methods.StageAttempt, request)
        return StagedAttempt(
            response.attempt_id,
            tuple(from_proto_table(table) for table in response.tables),
            tuple(response.further_attempt_ids),
        )

    # Repeated: idempotent.
    abandon_attempt = mutation()
    # Repeated: the caller wants to be the newest, and the last answer makes it so.
    register_writer = mutation()
    # A repeat answers that the name has no owner.
    release_writer = mutation()
    get_writer_progress = read()

    def commit(self, request: CommitRequest) -> CommitResult:
        """Commits. Repeated until `RetryPolicy.commit_total_s`: idempotent by (table, writer, identifier)."""
        response = self._calls.mutate(
            "Commit",
            lambda on: on.methods.Commit,
            to_proto_commit_request(request),
            total_s=self._retries.commit_total_s,
        )
        return from_proto_commit_result(response)

    def open_commit_pipeline(self, *, max_in_flight: int = 256) -> GrpcCommitPipeline:
        """Opens a stream of commits, which repeats nothing by itself."""
        return GrpcCommitPipeline(
            self._connection, max_in_flight=max_in_flight, stall_s=self._retries.commit_total_s, clock=self._clock
        )

    # Reading

    def list_snapshots(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0, newest: bool = False
    ) -> SnapshotPage:
        """Snapshots after `after` up to `until` (0: no end), at most `limit` (0: 1000)."""
        request = build(
            snapshots_pb2.ListSnapshotsRequest,
            table_uuid=table_uuid,
            after=after,
            until=until,
            limit=limit,
            newest=newest,
        )
        response = self._calls.read("ListSnapshots", lambda on: on.methods.ListSnapshots, request)
        return SnapshotPage(
            tuple([from_proto_snapshot(snapshot) for snapshot in response.snapshots]),
            response.latest_snapshot_id,
            response.earliest_snapshot_id,
            # A metastore that does not report this keeps changes as long as states.
            response.earliest_change_id or response.earliest_snapshot_id,
            response.first_pending_snapshot_id,
        )

    def list_latest(self, table_uuids: Sequence[str]) -> list[LatestSnapshot]:
        """The newest snapshots of tables, in the order of the tables, all at one moment."""
        request = build(snapshots_pb2.ListLatestRequest, table_uuids=table_uuids)
        response = self._calls.read("ListLatest", lambda on: on.methods.ListLatest, request)
        return [
            LatestSnapshot(
                each.table_uuid,
                each.snapshot_id,
                each.snapshot_uuid,
                each.earliest_snapshot_id,
                each.earliest_change_id or each.earliest_snapshot_id,
                each.last_full_snapshot_id,
            )
            for each in response.tables
        ]

    def plan(self, request: PlanRequest) -> Plan:
        """The files that a read needs. A stream that breaks is requested again from its beginning."""
        message = to_proto_plan_request(request)
        parts = self._calls.read(
            "Plan",
            lambda on: _whole_stream(on.methods.Plan),
            message,
            deadline_s=self._deadlines.plan_s,
            total_s=self._deadlines.plan_s,
        )
        if not parts or parts[0].WhichOneof("part") != "header":
            raise InternalError(f"The plan of table {request.table_uuid} does not begin with a header.")
        header = from_proto_plan_header(parts[0].header)
        files = assemble_files(
            ((part.chunk.entries, part.chunk.without_file_ids) for part in parts[1:]),
            with_statistics=request.with_statistics,
        )
        return Plan(
            header.table, header.schema, header.file_schemas, header.snapshot, header.range_snapshots, files=files
        )

    def watch(self, positions: Sequence[WatchPosition], *, complete: bool = False) -> GrpcWatch:
        """Reports each new snapshot; connects when iterated."""
        if not positions:
            raise InvalidArgument(
                "positions is empty. Name 1 to 1000 tables to watch.", metadata={"field": "positions"}
            )
        return GrpcWatch(
            self._connection, positions, policy=self._retries, clock=self._clock, rng=self._rng, complete=complete
        )

    def close(self) -> None:
        """Ends all connections; idempotent."""
        self._connection.close()

    def _exists(self, name: TableName) -> bool:
        try:
            self.get_table(name)
        except NotFound:
            return False
        return True

    def _with_finding(self, error: OutcomeUnknown, what: str, exists: Callable[[], bool]) -> OutcomeUnknown:
        try:
            finding = f"{what} is still there." if exists() else f"{what} is gone now."
        except LakelogError as failure:
            finding = f"Looking for it failed, too: {failure.message}"
        return OutcomeUnknown(f"{error.message} {finding}", reason=error.reason, metadata=error.metadata)


def _whole_stream(
    rpc: Callable[..., Any],
) -> Rpc[snapshots_pb2.PlanRequest, list[snapshots_pb2.PlanResponse]]:
    def call(
        request: snapshots_pb2.PlanRequest, /, timeout: float | None = None, metadata: Any = None
    ) -> list[snapshots_pb2.PlanResponse]:
        return list(rpc(request, timeout=timeout, metadata=metadata))

    return call


def _connect_again(
    target: str,
    tls: TlsFiles | None,
    token: str | None,
    deadlines: Deadlines | None,
    retries: RetryPolicy | None,
    clock: Clock | None,
    is_known: bool,
) -> GrpcMetastore:
    return GrpcMetastore(
        target, tls=tls, token=token, deadlines=deadlines, retries=retries, clock=clock, is_known=is_known
    )
