"""How far external logs are published, over gRPC."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.client.connection.calls import Calls
from lakelog.format.commit.facts import AttemptState, SentAttempt
from lakelog.format.log.state import PublishReport, PublishState, SnapshotOffsets
from lakelog.rpc.log import from_proto_offsets, from_proto_publish_state, to_proto_report
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import publishing_pb2


class GrpcPublishing:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about publishing logs."""

    _calls: Calls

    def get_publish_state(self, table_uuid: str) -> PublishState:
        """How far a table's log is published."""
        request = build(publishing_pb2.GetPublishStateRequest, table_uuid=table_uuid)
        response = self._calls.read("GetPublishState", lambda on: on.publishing.GetPublishState, request)
        return from_proto_publish_state(response, table_uuid)

    def report_published(self, report: PublishReport) -> None:
        """Stores how far a log is published. Repeated: idempotent."""
        self._calls.mutate("ReportPublished", lambda on: on.publishing.ReportPublished, to_proto_report(report))

    def find_log_offsets(self, table_uuid: str, *, until: int | None = None) -> SnapshotOffsets | None:
        """The end offsets of the newest snapshot whose offsets are known."""
        request = build(publishing_pb2.FindLogOffsetsRequest, table_uuid=table_uuid, until=until)
        response = self._calls.read("FindLogOffsets", lambda on: on.publishing.FindLogOffsets, request)
        return from_proto_offsets(response.found) if response.HasField("found") else None

    def list_log_offsets(
        self, table_uuid: str, *, after: int = 0, until: int = 0, limit: int = 0
    ) -> list[SnapshotOffsets]:
        """The end offsets of each of some snapshots."""
        request = build(
            publishing_pb2.ListLogOffsetsRequest, table_uuid=table_uuid, after=after, until=until, limit=limit
        )
        response = self._calls.read("ListLogOffsets", lambda on: on.publishing.ListLogOffsets, request)
        return [from_proto_offsets(each) for each in response.snapshots]

    def find_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, SentAttempt]:
        """Returns the states of attempts."""
        request = build(publishing_pb2.FindAttemptsRequest, table_uuid=table_uuid, attempt_ids=attempt_ids)
        response = self._calls.read("FindAttempts", lambda on: on.publishing.FindAttempts, request)
        found = dict.fromkeys(attempt_ids, SentAttempt(AttemptState.ABORTED))
        silent = set(response.silent_ids)
        # An older metastore sends no times.
        times = response.opened_ms or [0] * len(response.open_ids)
        for attempt_id, opened_ms in zip(response.open_ids, times, strict=True):
            found[attempt_id] = SentAttempt(AttemptState.OPEN, attempt_id in silent, opened_ms)
        return found | dict.fromkeys(response.committed_ids, SentAttempt(AttemptState.COMMITTED))

    def renew_attempts(self, attempt_ids: Sequence[str]) -> list[str]:
        """Reports that the writers of attempts are alive. Repeated: idempotent."""
        request = build(publishing_pb2.RenewAttemptsRequest, attempt_ids=attempt_ids)
        response = self._calls.mutate("RenewAttempts", lambda on: on.publishing.RenewAttempts, request)
        return list(response.open_ids)
