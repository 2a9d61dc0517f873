"""The parameters of a write: what it replaces, the source of row kinds, whether it was applied before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.tables.table import TableInfo
from lakelog.format.types.rowkind import ROW_KIND_COLUMN
from lakelog.options.declared.reads_and_writes import DYNAMIC_PARTITION_OVERWRITE
from lakelog.options.declared.tables import ROWKIND_FIELD
from lakelog.options.values import TableOptions, WriteOptions
from lakelog.results import WriteResult
from lakelog.spark.batch.commit import CommitParameters, Overwrite
from lakelog.storage.write.row_normalizer import KindSource
from lakelog.writes.overwrite import check_dynamic, to_static_partition

QUERY_ID_PROPERTY: Final = "spark.query-id"
"""A property of each snapshot that a stream makes: the id in its checkpoint."""

Mode = Literal["append", "delete", "overwrite"]
Partition = Mapping[str, Any] | Literal["dynamic"] | None


def resolve_overwrite(mode: str, partition: Partition, info: TableInfo, options: WriteOptions) -> Overwrite | None:
    """Returns what a write replaces; None: nothing. Raises InvalidArgument for arguments that contradict each other."""
    if mode not in ("append", "delete", "overwrite"):
        raise InvalidArgument(
            f"mode={mode!r:.80} is not possible: give 'append', 'delete' or 'overwrite'.", metadata={"field": "mode"}
        )
    if mode != "overwrite":
        if partition is not None:
            raise InvalidArgument(
                f"partition= says what an overwrite replaces, and mode is '{mode}'. Leave it out, or use "
                "mode='overwrite'.",
                metadata={"field": "partition"},
            )
        if mode == "delete" and not info.schema.primary_key:
            raise InvalidArgument(
                f"Table {info.name} is an append table without a primary key, so the rows to delete cannot be found. "
                "Use mode='overwrite' to replace partitions.",
                metadata={"table": str(info.name)},
            )
        return None
    by_option = DYNAMIC_PARTITION_OVERWRITE.key in options.given() and options.get(DYNAMIC_PARTITION_OVERWRITE)
    if partition is None:
        return Overwrite(dynamic=bool(by_option and info.schema.partition_by))
    if isinstance(partition, str):
        check_dynamic(partition, info)
        return Overwrite(dynamic=True)
    return Overwrite(static=to_static_partition(partition, info))


def find_applied(metastore: Metastore, info: TableInfo, parameters: CommitParameters) -> WriteResult | None:
    """The result of a commit that was the writer's last one, so that a replay need not write its rows again.

    It only saves work: the commit itself finds out what was applied earlier, or meanwhile.
    """
    if parameters.writer is None:
        return None
    progress = metastore.get_writer_progress(parameters.writer, info.table_uuid)
    if progress.last_identifier is None or progress.last_identifier != parameters.identifier:
        return None
    return WriteResult(progress.snapshot_id, True)


def check_progress(metastore: Metastore, info: TableInfo, parameters: CommitParameters) -> None:
    """Refuses a batch whose number another checkpoint's stream has committed under the same name.

    Raises:
        CommitConflict: The rows of the batch would be taken for committed ones and be lost.
    """
    own = parameters.properties.get(QUERY_ID_PROPERTY)
    if own is None or parameters.writer is None or parameters.identifier is None:
        return
    progress = metastore.get_writer_progress(parameters.writer, info.table_uuid)
    other = progress.properties.get(QUERY_ID_PROPERTY)
    if (
        progress.last_identifier is None
        or other is None
        or other == own
        or progress.last_identifier < parameters.identifier
    ):
        return
    raise CommitConflict(
        f"Batch {parameters.identifier} of writer '{parameters.writer}' comes from another checkpoint than the"
        " batches up"
        f" to {progress.last_identifier} that this writer has committed to {info.name}: it would be taken for a "
        "repetition, and its rows would be lost. Use the old checkpoint, or another commit-user.",
        reason="OTHER_CHECKPOINT",
        metadata={"table": str(info.name), "writer": parameters.writer, "retry": "never"},
    )


def kind_source(mode: str, info: TableInfo, columns: Sequence[str]) -> KindSource:
    """The source of the row kinds of a write. Pure."""
    if mode == "delete":
        return KindSource.DELETES
    said = ROW_KIND_COLUMN in columns or TableOptions(info.options).get(ROWKIND_FIELD) is not None
    return KindSource.COLUMN if said else KindSource.INSERTS
