"""What requests may look like: checked at the edge, before the store is asked anything.

Every refusal is an `InvalidArgument` that names the field, the value and the remedy. `lakelog.format.commit.rules`, not
this module, decides whether a request fits the state of its tables.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from lakelog.errors import INVALID_PATH, InvalidArgument
from lakelog.format.commit.request import (
    BucketRef,
    Change,
    CommitRequest,
    RemoveEverything,
    RemoveFiles,
    RemovePartitions,
    RemovePartitionValues,
    RestoreState,
    count_files,
)
from lakelog.format.keys.encoding import MAX_PARTITION_BYTES
from lakelog.format.tables.files import DataFile
from lakelog.format.tables.packed_statistics import entries_of
from lakelog.format.tables.paths import PATH_RULE, find_clash, is_path
from lakelog.format.tables.snapshot import ChangelogState, SnapshotKind

from .limits import (
    BOUNDS,
    MAX_CHANGE_BYTES,
    MAX_CHANGE_ROWS,
    MAX_FILE_BYTES,
    MAX_FILE_ROWS,
    MAX_ID,
    MAX_INT32,
    MAX_INT64,
    Limits,
)

MAX_COMMENT: Final = 4096
MAX_PROPERTIES: Final = 128
MAX_PROPERTIES_BYTES: Final = 64 * 1024
MAX_KEY_BYTES: Final = 64 * 1024
MAX_STATISTICS_BYTES: Final = 256 * 1024

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_PIPELINE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,127}")
_UUID: Final = re.compile(r"[0-9a-f]{32}")


def invalid(field: str, value: object, remedy: str, called: str = "") -> InvalidArgument:
    """The error for a field of a request with an invalid value; `called` is the name that users know the field by."""
    shown = repr(value)
    shown = shown if len(shown) <= 200 else f"{shown[:200]}... ({len(shown)} characters)"
    return InvalidArgument(f"{called or field} is {shown}. {remedy}", metadata={"field": field, "value": shown})


def check_name(field: str, name: str) -> None:
    """Check the name of a database or table."""
    if not _NAME.fullmatch(name):
        raise invalid(
            field,
            name,
            "Use a letter or '_' first, then letters, digits and '_', 128 characters at most (ASCII).",
            f"The name of the {field}",
        )


def check_pipeline_name(name: str) -> None:
    """Check the name of a pipeline."""
    if not _PIPELINE_NAME.fullmatch(name):
        raise invalid(
            "pipeline.name",
            name,
            "Use a letter or '_' first, then letters, digits, '_' and '-', 128 characters at most (ASCII).",
        )


def check_uuid(field: str, value: str) -> None:
    """Check that a value is 32 lower-case hexadecimal digits."""
    if not _UUID.fullmatch(value):
        raise invalid(field, value, "Give 32 lower-case hexadecimal digits, as the metastore returned them.")


def check_text(field: str, text: str, shortest: int, longest: int) -> None:
    """Check the length of a text, and that the database can hold it."""
    if not shortest <= len(text) <= longest:
        raise invalid(field, text, f"Give {shortest} to {longest} characters.")
    if "\x00" in text:
        raise invalid(field, text, "Leave out the character U+0000.")
    if not text.isascii():
        check_encodable(field, text)


def check_encodable(field: str, text: str) -> None:
    """Check that a text is valid Unicode."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise invalid(field, text, "Leave out surrogates without their partner: they are no characters.") from error


def check_number(field: str, value: int, lowest: int, highest: int = MAX_ID) -> None:
    """Check that a number lies in a range, both ends included; by default it is an id or is counted as one."""
    if not lowest <= value <= highest:
        raise invalid(field, value, f"Give a number from {lowest} to {highest}.")


def check_writer(writer: str) -> None:
    """Check a writer's name."""
    check_text("writer", writer, 1, 256)


def check_properties(field: str, properties: Mapping[str, str]) -> None:
    """Check the properties of a commit or the options of a table."""
    if not properties:
        return
    if len(properties) > MAX_PROPERTIES:
        raise invalid(field, f"{len(properties)} entries", f"Give at most {MAX_PROPERTIES}.")
    for key, value in properties.items():
        check_text(f"{field} key", key, 1, 256)
        check_text(f"{field}['{key}']", value, 0, MAX_PROPERTIES_BYTES)
    size = sum(len(key.encode()) + len(value.encode()) for key, value in properties.items())
    if size > MAX_PROPERTIES_BYTES:
        raise invalid(field, f"{size} bytes", f"Give at most {MAX_PROPERTIES_BYTES} bytes of keys and values together.")


def check_commit_request(request: CommitRequest, limits: Limits) -> None:
    """Check all parts of a commit that can be checked without its tables."""
    check_writer(request.writer)
    check_number("identifier", request.identifier, 0, MAX_INT64)
    if request.previous_identifier is not None:
        check_number("previous_identifier", request.previous_identifier, -1, request.identifier - 1)
    check_number("epoch", request.epoch, 0)
    if request.attempt_id:
        check_uuid("attempt_id", request.attempt_id)
    leases = [fence.lease for fence in request.fences]
    if len(leases) > 16 or len(set(leases)) < len(leases):
        raise invalid("fences", leases, "Give at most 16, and each lease once.")
    for fence in request.fences:
        check_text("fences.lease", fence.lease, 1, 256)
        check_number("fences.epoch", fence.epoch, 1)
    if not 1 <= len(request.changes) <= limits.max_commit_tables:
        raise invalid(
            "changes", f"{len(request.changes)} changes", f"Give 1 to {limits.max_commit_tables}, one for each table."
        )
    if len({change.table_uuid for change in request.changes}) < len(request.changes):
        raise invalid(
            "changes", [change.table_uuid for change in request.changes], "Name each table once; merge its changes."
        )
    files = sum(count_files(change) for change in request.changes)
    if files > limits.max_commit_files:
        raise invalid(
            "add_files", f"{files} files", f"Give at most {limits.max_commit_files} in one commit; write larger files."
        )
    for change in request.changes:
        check_change(change)


def check_change(change: Change) -> None:
    """Check all parts of one table's change that can be checked without the table."""
    check_uuid("table_uuid", change.table_uuid)
    check_number("schema_id", change.schema_id, 0, MAX_INT32)
    check_number("bucket_count", change.bucket_count, -1, MAX_INT32)
    if change.remove is not None:
        _check_removal(change)
    if change.base_snapshot_id is not None:
        check_number("base_snapshot_id", change.base_snapshot_id, 0)
    if change.base_snapshot_uuid:
        check_uuid("base_snapshot_uuid", change.base_snapshot_uuid)
        if not change.base_snapshot_id:
            raise invalid(
                "base_snapshot_uuid", change.base_snapshot_uuid, "Give base_snapshot_id as well: which one is it of?"
            )
    if change.unchanged_buckets:
        if change.base_snapshot_id is None:
            raise invalid(
                "unchanged_buckets",
                f"{len(change.unchanged_buckets)} buckets",
                "Give base_snapshot_id as well: unchanged since when?",
            )
        if len(change.unchanged_buckets) > MAX_INT32 // 10_000:
            raise invalid("unchanged_buckets", f"{len(change.unchanged_buckets)} buckets", "Give at most 214,748.")
        for bucket in change.unchanged_buckets:
            if not 0 <= bucket.bucket <= MAX_INT32:
                check_number("unchanged_buckets.bucket", bucket.bucket, 0, MAX_INT32)
            if len(bucket.partition) > MAX_PARTITION_BYTES:
                check_bytes("unchanged_buckets.partition", bucket.partition, MAX_PARTITION_BYTES)
    if change.watermark_ms is not None:
        check_number("watermark_ms", change.watermark_ms, *BOUNDS["Change.watermark_ms"])
    _check_window(change)
    check_properties("properties", change.properties)
    files = (*change.add_files, *change.changelog_files) if change.changelog_files else change.add_files
    if len({file.path for file in files}) < len(files):
        ((path, _),) = Counter(file.path for file in files).most_common(1)
        raise invalid("path", path, "Name each file once in a commit.")
    for file in (*files, *change.log_files):
        _check_file(file)
    _check_paths(change)
    _check_sums("add_files", change.add_files)
    _check_sums("changelog_files", change.changelog_files)
    _check_sums("log_files", change.log_files)
    if change.kind is not SnapshotKind.COMPACT:
        _check_levels(change)
    _check_deletion_vectors(change)
    if change.changelog_files and change.changelog is not ChangelogState.ATTACHED:
        raise invalid(
            "changelog_files",
            f"{len(change.changelog_files)} files",
            f"changelog says '{change.changelog.value}': say ATTACHED, or leave the files out.",
        )
    if change.changelog is ChangelogState.LATER:
        raise invalid(
            "changelog", change.changelog.value, "Leave it out: the table's 'changelog-producer' says what makes it."
        )
    if change.changelog is ChangelogState.PENDING and change.kind is not SnapshotKind.APPEND:
        raise invalid("changelog", change.changelog.value, "Only an APPEND has a pending changelog.")


def _check_window(change: Change) -> None:
    after, until = change.window.after_ms, change.window.until_ms
    if after is not None:
        check_number("committed_after_ms", after, 0)
    if until is not None:
        check_number("committed_until_ms", until, 0 if after is None else after + 1)


def _check_paths(change: Change) -> None:
    """Checks that all files of a change, deletion vectors included, can exist together."""
    paths = [file.path for file in (*change.add_files, *change.changelog_files, *change.log_files)]
    of_files = {file.deletion_vector_path for file in change.add_files}
    of_groups = {group.deletion_vector_path for group in change.groups}
    for field, vector_paths in (("deletion_vector_path", of_files), ("groups.deletion_vector_path", of_groups)):
        for path in vector_paths:
            if path:
                check_path(field, path)
                paths.append(path)
    clash = find_clash(paths)
    if clash is not None:
        raise invalid(
            "path",
            clash[1],
            f"'{clash[0][:200]}' is in the same commit, and not every store can hold both: one is a folder of the "
            "other, or they differ in case only. Choose another name.",
        )


def check_path(field: str, path: str) -> None:
    """Check that every store can hold a file of this path."""
    if not is_path(path):
        error = invalid(
            field, path, f"A commit's files lie in the folder of its attempt, data/<attempt id>/. {PATH_RULE}."
        )
        raise InvalidArgument(error.message, reason=INVALID_PATH, metadata=error.metadata)


def _check_sums(field: str, files: Sequence[DataFile]) -> None:
    rows = sum([file.row_count for file in files])
    if rows > MAX_CHANGE_ROWS:
        raise invalid(
            field, f"{rows} rows", f"Give files with at most {MAX_CHANGE_ROWS} rows together; count rows as written."
        )
    size_bytes = sum([file.size_bytes for file in files])
    if size_bytes > MAX_CHANGE_BYTES:
        raise invalid(
            field, f"{size_bytes} bytes", f"Give files with at most {MAX_CHANGE_BYTES} bytes together, as stored."
        )


def _check_levels(change: Change) -> None:
    higher = next((file for file in change.add_files if file.level), None)
    if higher is not None:
        raise invalid(
            "level",
            higher.level,
            f"'{higher.path[:200]}' is new and thus at level 0; only a COMPACT brings files to other levels.",
        )


def _check_deletion_vectors(change: Change) -> None:
    knowing = [file for file in change.add_files if file.deletion_vector_path is not None]
    if not knowing:
        return
    if change.kind is SnapshotKind.COMPACT:
        raise invalid(
            "deletion_vector_path",
            knowing[0].deletion_vector_path,
            "What a COMPACT writes stands in the places of its inputs, and files that were there may supersede rows of "
            "it. Leave the path out.",
        )
    unchanged = set(change.unchanged_buckets)
    paths = {file.path for file in (*change.add_files, *change.changelog_files, *change.log_files)}
    for file in knowing:
        assert file.deletion_vector_path is not None, "they were chosen by it"
        if file.deletion_vector_path in paths:
            raise invalid(
                "deletion_vector_path",
                file.deletion_vector_path,
                "That is a data or changelog file of the same commit, which holds rows and no positions. Name the file "
                "that the positions were written to, or leave the path out.",
            )
        if BucketRef(file.partition, file.bucket) not in unchanged:
            raise invalid(
                "deletion_vector_path",
                file.deletion_vector_path,
                f"It is for bucket {file.bucket}, which is not among unchanged_buckets: positions hold as long as no "
                "other file came or went. Name the bucket there, or leave the path out.",
            )


def _check_removal(change: Change) -> None:
    remove = change.remove
    if change.kind is SnapshotKind.APPEND:
        raise invalid("remove", type(remove).__name__, "An APPEND removes nothing; commit it as OVERWRITE.")
    if change.kind is SnapshotKind.COMPACT:
        raise invalid("remove", type(remove).__name__, "A COMPACT names the files that it rewrote; put them in groups.")
    match remove:
        case RemoveFiles(file_ids):
            if len(set(file_ids)) < len(file_ids):
                raise invalid("remove.file_ids", file_ids, "Name each file once.")
            for file_id in file_ids:
                check_number("remove.file_ids", file_id, 1)
        case RemovePartitions(partitions):
            for partition in partitions:
                check_bytes("remove.partitions", partition, MAX_PARTITION_BYTES)
        case RemovePartitionValues(values):
            if not values:
                raise invalid("remove.partition_values", {}, "Name at least one partition column; or use everything.")
            for column, value in values.items():
                check_text("remove.partition_values", column, 1, 10_000)
                check_bytes("remove.partition_values", value, MAX_PARTITION_BYTES)
        case RemoveEverything() | RestoreState() | None:
            # Changes that restore a state are checked in `restoring`.
            pass


def _check_file(file: DataFile) -> None:
    if not is_path(file.path):
        check_path("path", file.path)
    if len(file.partition) > MAX_PARTITION_BYTES:
        check_bytes("partition", file.partition, MAX_PARTITION_BYTES)
    if not 0 <= file.bucket <= MAX_INT32:
        check_number("bucket", file.bucket, 0, MAX_INT32)
    if not 0 <= file.schema_id <= MAX_INT32:
        check_number("schema_id", file.schema_id, 0, MAX_INT32)
    if not 0 <= file.level <= 127:
        check_number("level", file.level, 0, 127)
    if not 0 <= file.row_count <= MAX_FILE_ROWS:
        check_number("row_count", file.row_count, 0, MAX_FILE_ROWS)
    if not 0 <= file.delete_count <= file.row_count:
        raise invalid(
            "delete_count",
            file.delete_count,
            f"File '{file.path[:200]}' has {file.row_count} rows; count at least 0 deletes and no more than rows.",
        )
    if not 0 < file.size_bytes <= MAX_FILE_BYTES:
        raise invalid(
            "size_bytes",
            file.size_bytes,
            f"Give the size of '{file.path[:200]}', which is not empty, at most {MAX_FILE_BYTES} bytes.",
        )
    if file.min_key is not None and file.max_key is not None and file.min_key > file.max_key:
        raise invalid("min_key", file.min_key, f"It is above max_key {file.max_key!r} of '{file.path[:200]}'.")
    for field, key in (("min_key", file.min_key), ("max_key", file.max_key)):
        if key is not None and len(key) > MAX_KEY_BYTES:
            check_bytes(field, key, MAX_KEY_BYTES)
    if file.statistics:
        _check_statistics(file)


def _check_statistics(file: DataFile) -> None:
    seen = set()
    size = 0
    for field_id, null_count, low, high in entries_of(file.statistics):
        if field_id in seen or not 0 < field_id <= MAX_INT32:
            raise invalid("statistics.field_id", field_id, f"Give each column of '{file.path[:200]}' once, ids from 1.")
        seen.add(field_id)
        if not 0 <= null_count <= file.row_count:
            raise invalid(
                "statistics.null_count", null_count, f"'{file.path[:200]}' has {file.row_count} rows, not more."
            )
        if low is not None and high is not None and low > high:
            raise invalid("statistics.min_value", low, f"It is above max_value {high!r} of '{file.path[:200]}'.")
        size += 24 + len(low or b"") + len(high or b"")
    if size > MAX_STATISTICS_BYTES:
        raise invalid(
            "statistics",
            f"{size} bytes",
            f"Give at most {MAX_STATISTICS_BYTES} bytes for '{file.path[:200]}': shorten bounds, leave out columns.",
        )


def check_bytes(field: str, value: bytes, longest: int) -> None:
    """Check the length of encoded values."""
    if len(value) > longest:
        raise invalid(field, value[:50], f"It has {len(value)} bytes; at most {longest} are possible.")


def check_table_uuids(field: str, table_uuids: Sequence[str], most: int) -> None:
    """Check a list of tables."""
    if not 1 <= len(table_uuids) <= most:
        raise invalid(field, f"{len(table_uuids)} tables", f"Name 1 to {most}.")
    if len(set(table_uuids)) < len(table_uuids):
        raise invalid(field, list(table_uuids), "Name each table once.")
    for table_uuid in table_uuids:
        check_uuid(field, table_uuid)
