"""Leases and pipelines on the wire."""

from __future__ import annotations

from lakelog.format.jobs.work import LeaseGrant, Pipeline
from lakelog.rpc.translation import Translation
from lakelog.rpc.v1 import jobs_pb2

to_proto_lease_grant, from_proto_lease_grant = Translation(LeaseGrant, jobs_pb2.AcquireLeaseResponse).both
to_proto_pipeline, from_proto_pipeline = Translation(Pipeline, jobs_pb2.Pipeline).both
