"""What is logged about a call: enough to know who did what to which table, and never a secret."""

from __future__ import annotations

from contextvars import ContextVar
from functools import cache
from typing import Any, Final

import structlog
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import Message

from lakelog.clock import show_time
from lakelog.format.commit.request import CommitResult
from lakelog.format.jobs.work import MEMBERSHIP_LEASES
from lakelog.format.tables.grant import GrantLevel
from lakelog.rpc.v1 import grants_pb2, jobs_pb2, snapshots_pb2

from ..credentials.vending import Vended
from .edge.sliced_requests import SlicedRequest

_SHOWN_CHARACTERS: Final = 256
_SHOWN_TABLES: Final = 8
# Fields of requests that say what the call acts on, in the order in which they are logged. Options, schemas,
# properties and file lists are left out: they are large, and only some of them are harmless.
_LOGGED_FIELDS: Final = (
    "database",
    "table",
    "principal",
    "name",
    "table_uuid",
    "writer",
    "identifier",
    "attempt_id",
    "job_id",
    "holder",
    "epoch",
    "cascade",
)
# How fields with files are called in the log, if not by their names.
_LOGGED_COUNTS: Final = {"add_files": "added_files", "files": "changelog_files"}
_GRANTED: Final[dict[int, str]] = {int(level): level.name.lower() for level in GrantLevel}
"""The levels of grants, whose numbers are those on the wire."""

log: Final = structlog.get_logger()

caller_name: Final[ContextVar[str | None]] = ContextVar("caller_name", default=None)
"""The caller of the call that is being served, for log lines that are written further inside."""

_made: Final[ContextVar[dict[str, Any] | None]] = ContextVar("made", default=None)
"""What the line of the call that is being served says about its result."""


def begin_line() -> dict[str, Any]:
    """What the line of the present call will say about its result; `note_commit` fills it in a task of the call."""
    fields: dict[str, Any] = {}
    _made.set(fields)
    return fields


def note_commit(result: CommitResult) -> None:
    """Notes the snapshots that the present call has made."""
    fields = _made.get()
    if fields is not None:
        fields |= describe_result(result)


def describe_result(result: CommitResult) -> dict[str, Any]:
    """The tables and snapshots of a commit. Pure and cheap: it runs for every commit."""
    shown = result.results[:_SHOWN_TABLES]
    return {"table": [each.table for each in shown], "snapshot": [each.snapshot_id for each in shown]}


def is_counting(request: Message | SlicedRequest[Any] | None) -> bool:
    """Whether a publisher counts others by this call, as it does every few seconds. Pure and cheap, as the next one."""
    if not isinstance(request, jobs_pb2.AcquireLeaseRequest | jobs_pb2.ReleaseLeaseRequest):
        return False
    return request.name.startswith(MEMBERSHIP_LEASES)


def describe_request(request: Message | SlicedRequest[Any]) -> dict[str, Any]:
    """The objects that a request acts on. Pure and cheap: it runs for every mutation."""
    if isinstance(request, SlicedRequest):
        fields = _describe(request.message)
        for name, count in request.file_counts.items():
            if count:
                field = _LOGGED_COUNTS.get(name, name)
                fields[field] = fields.get(field, 0) + count
        return fields
    return _describe(request)


def _describe(request: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {}
    for name in _logged_fields(request.DESCRIPTOR):
        if request.DESCRIPTOR.fields_by_name[name].has_presence and not request.HasField(name):
            continue
        value = getattr(request, name)
        if value or value == 0:
            fields[name] = value[:_SHOWN_CHARACTERS] if isinstance(value, str) else value
    if isinstance(request, snapshots_pb2.CommitRequest):
        changes = request.changes
        fields["tables"] = [change.table_uuid[:_SHOWN_CHARACTERS] for change in changes[:_SHOWN_TABLES]]
        if request.guards:
            fields["guarded"] = [guard.table_uuid[:_SHOWN_CHARACTERS] for guard in request.guards[:_SHOWN_TABLES]]
        fields["added_files"] = sum([len(change.add_files) for change in changes])
        changelog_files = sum([len(change.changelog_files) for change in changes])
        if changelog_files:
            fields["changelog_files"] = changelog_files
        log_files = sum([len(change.log_files) for change in changes])
        if log_files:
            fields["log_files"] = log_files
    elif isinstance(request, snapshots_pb2.StageAttemptRequest):
        fields["tables"] = [uuid[:_SHOWN_CHARACTERS] for uuid in request.table_uuids[:_SHOWN_TABLES]]
    elif isinstance(request, snapshots_pb2.AttachChangelogsRequest):
        fields["snapshots"] = [each.snapshot_id for each in (*request.changelogs[:1], *request.changelogs[1:][-1:])]
        fields["changelog_files"] = sum([len(each.files) for each in request.changelogs])
    elif isinstance(request, grants_pb2.GrantRequest):
        # Not by the field's name: the line has a level of its own.
        fields["granted"] = _GRANTED.get(request.level, request.level)
    elif isinstance(request, jobs_pb2.ReportPipelineRequest):
        fields["name"] = request.pipeline.name[:_SHOWN_CHARACTERS]
        fields["state"] = request.pipeline.state[:_SHOWN_CHARACTERS]
    return fields


def log_vended(vended: Vended) -> None:
    """Writes who has got keys of the object store, for what, and until when."""
    log.info(
        "keys vended",
        caller=vended.caller,
        table=vended.table,
        table_uuid=vended.table_uuid,
        access=vended.access,
        until=show_time(vended.expires_at_ms),
    )


@cache
def _logged_fields(descriptor: Descriptor) -> tuple[str, ...]:
    known = descriptor.fields_by_name
    return tuple([name for name in _LOGGED_FIELDS if name in known and known[name].message_type is None])
