"""What a write means: what it replaces, where its kinds come from, whether it was done before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

from lakelog.client.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument
from lakelog.format.rowkind import ROW_KIND_COLUMN
from lakelog.format.table import TableInfo
from lakelog.options.call_options import DYNAMIC_PARTITION_OVERWRITE
from lakelog.options.table_options import ROWKIND_FIELD
from lakelog.options.values import TableOptions, WriteOptions
from lakelog.results import WriteResult
from lakelog.spark.commit import CommitTerms, Overwrite
from lakelog.storage.intake import KindSource
from lakelog.writes.overwrite import check_dynamic, to_static_partition

QUERY_ID_PROPERTY: Final = "spark.query-id"
"""A property of each snapshot that a stream makes: the id in its checkpoint."""

Mode = Literal["append", "delete", "overwrite"]
Partition = Mapping[str, Any] | Literal["dynamic"] | None


def settle_overwrite(mode: str, partition: Partition, info: TableInfo, options: WriteOptions) -> Overwrite | None:
    """What a write replaces; None: nothing. InvalidArgument for arguments that say nothing together."""
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


def find_applied(metastore: Metastore, info: TableInfo, terms: CommitTerms) -> WriteResult | None:
    """The result of a commit that was the writer's last one, so that a replay need not write its rows again.

    Only saves work: what was applied earlier, or meanwhile, the commit itself finds out.
    """
    if terms.writer is None:
        return None
    progress = metastore.get_writer_progress(terms.writer, info.table_uuid)
    if progress.last_identifier is None or progress.last_identifier != terms.identifier:
        return None
    return WriteResult(progress.snapshot_id, True)


def check_progress(metastore: Metastore, info: TableInfo, terms: CommitTerms) -> None:
    """Refuses a batch whose number was committed under the same name by a stream with another checkpoint.

    Raises:
        CommitConflict: It was; the rows of the batch would be taken for committed ones and be lost.
    """
    own = terms.properties.get(QUERY_ID_PROPERTY)
    if own is None or terms.writer is None or terms.identifier is None:
        return
    progress = metastore.get_writer_progress(terms.writer, info.table_uuid)
    other = progress.properties.get(QUERY_ID_PROPERTY)
    if progress.last_identifier is None or other is None or other == own or progress.last_identifier < terms.identifier:
        return
    raise CommitConflict(
        f"Batch {terms.identifier} of writer '{terms.writer}' comes from another checkpoint than the batches up to "
        f"{progress.last_identifier} that this writer has committed to {info.name}: it would be taken for a "
        "repetition, and its rows would be lost. Use the old checkpoint, or another commit-user.",
        reason="OTHER_CHECKPOINT",
        metadata={"table": str(info.name), "writer": terms.writer, "retry": "never"},
    )


def kind_source(mode: str, info: TableInfo, columns: Sequence[str]) -> KindSource:
    """Where the kinds of the rows of a write come from. Pure."""
    if mode == "delete":
        return KindSource.DELETES
    said = ROW_KIND_COLUMN in columns or TableOptions(info.options).get(ROWKIND_FIELD) is not None
    return KindSource.COLUMN if said else KindSource.INSERTS
