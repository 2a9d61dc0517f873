"""Over gRPC: topics of logs, and how far they are published."""

from __future__ import annotations

from collections.abc import Sequence

from lakelog.client.connection.calls import Calls
from lakelog.client.connection.retry import RetryPolicy
from lakelog.client.grpc.unary import mutation, read
from lakelog.format.commit.facts import AttemptState, SentAttempt
from lakelog.format.log.state import PublishState
from lakelog.rpc.messages import build
from lakelog.rpc.table import from_proto_publish_state
from lakelog.rpc.v1 import publishing_pb2


class GrpcLogs:
    """The part of `lakelog.client.metastore.metastore.Metastore` that is about logs."""

    _calls: Calls
    _retries: RetryPolicy

    list_logs = read()
    get_log = read()
    # Not repeated after an unknown outcome: a repeat would restart it once more.
    restart_log = mutation(repeat_unknown=False)
    # Repeated: idempotent.
    report_published = mutation()
    find_log_offsets = read()
    list_log_offsets = read()
    # Repeated: idempotent.
    renew_attempts = mutation()

    def get_publish_state(self, table_uuid: str) -> PublishState:
        """How far a table's log is published."""
        request = build(publishing_pb2.GetPublishStateRequest, table_uuid=table_uuid)
        response = self._calls.read("GetPublishState", lambda on: on.methods.GetPublishState, request)
        return from_proto_publish_state(response, table_uuid)

    def find_attempts(self, table_uuid: str, attempt_ids: Sequence[str]) -> dict[str, SentAttempt]:
        """Returns the states of attempts."""
        request = build(publishing_pb2.FindAttemptsRequest, table_uuid=table_uuid, attempt_ids=attempt_ids)
        response = self._calls.read("FindAttempts", lambda on: on.methods.FindAttempts, request)
        found = dict.fromkeys(attempt_ids, SentAttempt(AttemptState.ABORTED))
        silent = set(response.silent_ids)
        # An older metastore sends no times.
        times = response.opened_ms or [0] * len(response.open_ids)
        for attempt_id, opened_ms in zip(response.open_ids, times, strict=True):
            found[attempt_id] = SentAttempt(AttemptState.OPEN, attempt_id in silent, opened_ms)
        return found | dict.fromkeys(response.committed_ids, SentAttempt(AttemptState.COMMITTED))
