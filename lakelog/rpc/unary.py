"""Translates methods of the metastore whose request's fields are the arguments: by the names and types of the fields.

`lakelog.client.metastore.metastore.Metastore`, the use cases and the proto files have the same names for a method and
its arguments. So a method needs no translation of its own if its request and response consist of

- scalars, which stay the same; repeated fields are tuples in a request and lists in a response, maps are dicts, and
  an absent optional field is None;
- messages that `_TRANSLATIONS` contains, and fields that `_OF_FIELDS` contains.

The answer is the only field of the response, or None if it has no field. A request or a response that `_TRANSLATIONS`
itself contains is the only argument or the answer. All other methods are translated by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final

from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor, ServiceDescriptor
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass

from lakelog.format.jobs.queue import PlannedTable
from lakelog.format.tables.credentials import StoreCredentials
from lakelog.rpc import commit, job, retention, schema, table, table_files
from lakelog.rpc.messages import build, refusal
from lakelog.rpc.translation import Translate, Translation
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
    types_pb2,
)

# Generated modules have no common type.
OF_METASTORE: Final[tuple[Any, ...]] = (
    catalog_pb2,
    snapshots_pb2,
    jobs_pb2,
    due_work_pb2,
    consumers_pb2,
    dropped_pb2,
    table_files_pb2,
    retention_pb2,
    tags_pb2,
    logs_pb2,
    presence_pb2,
    publishing_pb2,
    grants_pb2,
    credentials_pb2,
)

SERVICES: Final[Mapping[str, ServiceDescriptor]] = {
    service.full_name: service for file in OF_METASTORE for service in file.DESCRIPTOR.services_by_name.values()
}
"""The metastore's services by their full names."""

_METHODS: Final[Mapping[str, MethodDescriptor]] = {
    method.name: method for service in SERVICES.values() for method in service.methods
}

_TRANSLATIONS: Final[Mapping[Descriptor, tuple[Translate, Translate]]] = {
    message_type.DESCRIPTOR: both
    for message_type, both in (
        (catalog_pb2.Database, (table.to_proto_database, table.from_proto_database)),
        (catalog_pb2.TableName, table.TABLE_NAME.both),
        (
            catalog_pb2.ColumnChange,
            (schema.to_proto_column_change, schema.from_proto_column_change),
        ),
        (types_pb2.Table, (table.to_proto_table, table.from_proto_table)),
        (types_pb2.TableSchema, (schema.to_proto_schema, lambda each: schema.from_proto_schema(each, "schemas"))),
        (snapshots_pb2.GetWriterProgressResponse, (commit.to_proto_writer_progress, commit.from_proto_writer_progress)),
        (snapshots_pb2.AttachChangelogsRequest, (job.to_proto_attach_request, job.from_proto_attach_request)),
        (snapshots_pb2.AttachChangelogsResponse, (job.to_proto_attach_result, job.from_proto_attach_result)),
        (jobs_pb2.Job, (job.to_proto_job, job.from_proto_job)),
        (jobs_pb2.JobRun, job.JOB_RUN.both),
        (jobs_pb2.JobCount, job.JOB_COUNT.both),
        (jobs_pb2.Pipeline, (job.to_proto_pipeline, job.from_proto_pipeline)),
        (jobs_pb2.AcquireLeaseResponse, (job.to_proto_lease_grant, job.from_proto_lease_grant)),
        (due_work_pb2.JobQueue, job.JOB_QUEUE.both),
        (due_work_pb2.GetOverviewResponse, job.OVERVIEW.both),
        (due_work_pb2.PlanCompactionsResponse, Translation(PlannedTable, due_work_pb2.PlanCompactionsResponse).both),
        (consumers_pb2.Consumer, (retention.to_proto_consumer, retention.from_proto_consumer)),
        (consumers_pb2.ConsumerPosition, (retention.to_proto_position, retention.from_proto_position)),
        (credentials_pb2.StoreCredentials, Translation(StoreCredentials, credentials_pb2.StoreCredentials).both),
        (grants_pb2.Grant, (table.to_proto_grant, table.from_proto_grant)),
        (grants_pb2.WhoAmIResponse, (table.to_proto_identity, table.from_proto_identity)),
        (grants_pb2.GrantResponse, (table.to_proto_granted, table.from_proto_granted)),
        (tags_pb2.Tag, (retention.to_proto_tag, retention.from_proto_tag)),
        (dropped_pb2.DroppedTable, (retention.to_proto_dropped, retention.from_proto_dropped)),
        (dropped_pb2.RestoreTableResponse, (retention.to_proto_restored, retention.from_proto_restored)),
        (retention_pb2.ExpireSnapshotsResponse, (retention.to_proto_step, retention.from_proto_step)),
        (retention_pb2.SnapshotLease, (retention.to_proto_snapshot_lease, retention.from_proto_snapshot_lease)),
        (retention_pb2.OverdueSnapshots, (retention.to_proto_overdue, retention.from_proto_overdue)),
        (table_files_pb2.AttemptAge, (table_files.to_proto_attempt, table_files.from_proto_attempt)),
        (table_files_pb2.FindUsedFilesResponse, (table_files.to_proto_found_files, table_files.from_proto_found_files)),
        (table_files_pb2.ListUsedFilesResponse, (table_files.to_proto_used_page, table_files.from_proto_used_page)),
        (
            table_files_pb2.ListPartitionFilesResponse,
            (table_files.to_proto_partition_page, table_files.from_proto_partition_page),
        ),
        (logs_pb2.LogInfo, (table.to_proto_log, table.from_proto_log)),
        (presence_pb2.ReportPresenceRequest, (job.to_proto_service_report, job.from_proto_service_report)),
        (presence_pb2.Service, (job.to_proto_service, job.from_proto_service)),
        (publishing_pb2.ReportPublishedRequest, (table.to_proto_report, table.from_proto_report)),
        (publishing_pb2.SnapshotOffsets, (table.to_proto_offsets, table.from_proto_offsets)),
    )
}


def _to_epochs(epochs: Mapping[str, int]) -> list[consumers_pb2.ConsumerEpoch]:
    return [build(consumers_pb2.ConsumerEpoch, table_uuid=uuid, epoch=epoch) for uuid, epoch in epochs.items()]


_OF_FIELDS: Final[Mapping[FieldDescriptor, tuple[Translate, Translate]]] = {
    consumers_pb2.RenewConsumerRequest.DESCRIPTOR.fields_by_name["epochs"]: (
        _to_epochs,
        lambda epochs: {each.table_uuid: each.epoch for each in epochs},
    ),
    jobs_pb2.ListJobRunsRequest.DESCRIPTOR.fields_by_name["results"]: (
        lambda results: [job.to_proto_run_result(each) for each in results],
        lambda numbers: tuple([job.from_proto_run_result(each) for each in numbers]),
    ),
    jobs_pb2.FailJobResponse.DESCRIPTOR.fields_by_name["state"]: (job.to_proto_job_state, job.from_proto_job_state),
    grants_pb2.GrantRequest.DESCRIPTOR.fields_by_name["level"]: table.GRANT_LEVEL,
    grants_pb2.CheckAccessRequest.DESCRIPTOR.fields_by_name["level"]: table.GRANT_LEVEL,
}
"""Fields whose translation does not follow from their types."""

_REQUIRED: Final[Mapping[FieldDescriptor, str]] = {
    jobs_pb2.ReportPipelineRequest.DESCRIPTOR.fields_by_name["pipeline"]: "Send the pipeline's state",
    dropped_pb2.RestoreTableRequest.DESCRIPTOR.fields_by_name["name"]: "Name the table as it was called",
}
"""Messages that a request must have: what to send."""


class UnaryMethod:
    """A method that is translated by the fields of its request and response.

    Args:
        name: The method's name in the proto file.
        parameters: The names of the arguments that `to_request` gets and `from_request` returns, in their order.

    Raises:
        TypeError: The fields of the request are not the parameters, or the method must be translated by hand.
    """

    def __init__(self, name: str, parameters: Collection[str]) -> None:
        method = _METHODS[name]
        self.name = name
        self._request_type: type[Message] = GetMessageClass(method.input_type)
        self._response_type: type[Message] = GetMessageClass(method.output_type)
        self._request = _TRANSLATIONS.get(method.input_type)
        self._only_parameter, *further = parameters or [""]
        fields = {field.name: field for field in method.input_type.fields}
        if bool(further) if self._request else set(fields) != set(parameters):
            raise TypeError(f"{name} takes {list(parameters)}, but its request has the fields {sorted(fields)}.")
        self._fields = () if self._request else tuple((each, *_translate(fields[each], tuple)) for each in parameters)
        self._response = _TRANSLATIONS.get(method.output_type)
        answers = [] if self._response else method.output_type.fields
        if len(answers) > 1:
            raise TypeError(f"{name} answers with several fields, so it needs a translation of its own.")
        self._answers = [(field.name, *_translate(field, list)) for field in answers]

    def to_request(self, arguments: Mapping[str, Any]) -> Message:
        """The request.

        Raises:
            InvalidArgument: As `lakelog.rpc.messages.build`.
        """
        if self._request is not None:
            request: Message = self._request[0](arguments[self._only_parameter])
            return request
        return build(self._request_type, **{name: write(arguments[name]) for name, write, _ in self._fields})

    def from_request(self, request: Message) -> dict[str, Any]:
        """The arguments by name.

        Raises:
            InvalidArgument: A field is malformed, or one that must be there is missing.
        """
        if self._request is not None:
            return {self._only_parameter: self._request[1](request)}
        return {name: read(request) for name, _, read in self._fields}

    def to_response(self, answer: Any) -> Message:
        """The response."""
        if self._response is not None:
            response: Message = self._response[0](answer)
            return response
        return self._response_type(**{name: write(answer) for name, write, _ in self._answers})

    def from_response(self, response: Message) -> Any:
        """The answer."""
        if self._response is not None:
            return self._response[1](response)
        return self._answers[0][2](response) if self._answers else None


def _translate(field: FieldDescriptor, collect: Callable[[Any], Any]) -> tuple[Translate, Translate]:
    """How a field's value becomes that of the message, and the other way round from the whole message."""
    name = field.name
    if field in _OF_FIELDS:
        write, read = _OF_FIELDS[field]
        return write, lambda message: read(getattr(message, name))
    if field.message_type is None:
        if field.is_repeated:
            return _same, lambda message: collect(getattr(message, name))
        if field.has_presence:
            return _same, lambda message: getattr(message, name) if message.HasField(name) else None
        return _same, lambda message: getattr(message, name)
    if field.message_type.GetOptions().map_entry:
        return dict, lambda message: dict(getattr(message, name))
    if field.message_type not in _TRANSLATIONS:
        raise TypeError(f"{field.full_name} is a message without a translation.")
    write, read = _TRANSLATIONS[field.message_type]
    if field.is_repeated:
        return (
            lambda values: [write(value) for value in values],
            lambda message: collect([read(each) for each in getattr(message, name)]),
        )
    return (
        lambda value: None if value is None else write(value),
        lambda message: read(getattr(message, name)) if message.HasField(name) else _absent(field),
    )


def _same(value: Any) -> Any:
    return value


def _absent(field: FieldDescriptor) -> None:
    if field in _REQUIRED:
        raise refusal(field.name, "is not given", _REQUIRED[field])
