"""How the changes of a table are emitted, by its options."""

from __future__ import annotations

from lakelog.format.merge.changelog import ChangelogRules
from lakelog.format.types.schema import TableSchema
from lakelog.options.declared.tables import ROW_DEDUPLICATE, ROW_DEDUPLICATE_IGNORE_FIELDS
from lakelog.options.values import TableOptions
from lakelog.storage.merging.merge_policy import to_merge_policy


def to_changelog_rules(schema: TableSchema, options: TableOptions) -> ChangelogRules:
    """How the changelog producer `lookup` emits the changes of a table (semantics 3.2). Pure."""
    policy = to_merge_policy(schema, options)
    ignored = options.get(ROW_DEDUPLICATE_IGNORE_FIELDS)
    return ChangelogRules(
        policy.key,
        policy.sequence,
        policy.sequence_descending,
        policy.delete_retention_ms,
        keep_first=policy.keep_first,
        drop_equal=options.get(ROW_DEDUPLICATE),
        compared=tuple(name for name in schema.arrow.names if name not in ignored),
    )
