"""Leases and pipelines on the wire."""

from __future__ import annotations

from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.rpc.messages import build
from lakelog.rpc.v1 import jobs_pb2


def to_proto_lease_grant(grant: LeaseGrant) -> jobs_pb2.AcquireLeaseResponse:
    """Translates the answer to asking for a lease."""
    return build(
        jobs_pb2.AcquireLeaseResponse,
        acquired=grant.acquired,
        epoch=grant.epoch,
        holder=grant.holder,
        remaining_ms=grant.remaining_ms,
    )


def from_proto_lease_grant(message: jobs_pb2.AcquireLeaseResponse) -> LeaseGrant:
    """Translates the answer to asking for a lease back."""
    return LeaseGrant(message.acquired, message.epoch, message.holder, message.remaining_ms)


def to_proto_pipeline(pipeline: Pipeline) -> jobs_pb2.Pipeline:
    """Translates where a pipeline is."""
    return build(
        jobs_pb2.Pipeline,
        name=pipeline.name,
        table=pipeline.table,
        source=pipeline.source,
        state=pipeline.state,
        last_batch_id=pipeline.last_batch_id,
        position=pipeline.position,
        lag=pipeline.lag,
        total_rows=pipeline.total_rows,
        dead_letter_rows=pipeline.dead_letter_rows,
        last_error=pipeline.last_error,
        reported_at_ms=pipeline.reported_at_ms,
        holder=pipeline.holder,
    )


def from_proto_pipeline(message: jobs_pb2.Pipeline) -> Pipeline:
    """Translates where a pipeline is back."""
    return Pipeline(
        name=message.name,
        table=message.table,
        source=message.source,
        state=message.state,
        last_batch_id=message.last_batch_id if message.HasField("last_batch_id") else None,
        position=message.position,
        lag=message.lag if message.HasField("lag") else None,
        total_rows=message.total_rows,
        dead_letter_rows=message.dead_letter_rows,
        last_error=message.last_error,
        reported_at_ms=message.reported_at_ms,
        holder=message.holder,
    )
