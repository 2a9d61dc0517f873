"""Which of the rows of one key a table shows, as its options say."""

from __future__ import annotations

from dataclasses import dataclass

from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import (
    FIRST_ROW,
    MERGE_ENGINE,
    SEQUENCE_DELETE_RETENTION,
    SEQUENCE_FIELD,
    SEQUENCE_SORT_ORDER,
)
from lakelog.options.values import TableOptions


@dataclass(frozen=True)
class MergePolicy:
    """Decides between rows of one key (semantics 1.3). Picklable, hashable.

    Args:
        key: The primary key's columns without partition columns.
        sequence: `sequence.field`.
        sequence_descending: `sequence.field.sort-order` is desc.
        delete_retention_ms: `sequence.delete-retention`.
        keeps_deletes: Leave deletes out only if a later row of their key is there too, as among the rows of one commit
            (semantics 3.3).
        keep_first: The first row of a key stays, as with the merge engine `first-row`.
    """

    key: tuple[str, ...]
    sequence: tuple[str, ...]
    sequence_descending: bool
    delete_retention_ms: int
    keeps_deletes: bool = False
    keep_first: bool = False


def to_merge_policy(schema: TableSchema, options: TableOptions) -> MergePolicy:
    """The policy of a table with a primary key. Pure."""
    return MergePolicy(
        schema.trimmed_key,
        options.get(SEQUENCE_FIELD),
        options.get(SEQUENCE_SORT_ORDER) == "desc",
        options.get(SEQUENCE_DELETE_RETENTION),
        keep_first=options.get(MERGE_ENGINE) == FIRST_ROW,
    )
