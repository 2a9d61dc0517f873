"""A full compaction of a bucket that also tells what changed since the one before (SEMANTICS.md 3.6).

The state of the compaction before is the run that it left; what was committed since lies in the runs above. So only
keys of these can have changed, and both sides of the difference pass by while the runs are merged.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakelog.format.changelog import ChangelogRules, find_difference
from lakelog.format.files import DataFile
from lakelog.format.ordering import comparable_keys
from lakelog.format.rowkind import ROW_KIND_COLUMN, is_retract
from lakelog.format.schema import TableSchema
from lakelog.options.table_options import ROW_DEDUPLICATE, ROW_DEDUPLICATE_IGNORE_FIELDS
from lakelog.options.values import TableOptions
from lakelog.storage.aligned_runs import AlignedRows
from lakelog.storage.own_columns import KIND_FIELD
from lakelog.storage.run_rewrite import DEFAULT_REWRITE_MEMORY_BYTES, RunRewrite, RunRewriter
from lakelog.storage.store import ObjectStore

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class FullRewrite:
    """What a full compaction of a bucket wrote. Picklable.

    Args:
        files: The new top run.
        changelog_files: What changed since the full compaction before.
    """

    files: tuple[DataFile, ...]
    changelog_files: tuple[DataFile, ...]


def rewrite_fully(
    store: ObjectStore,
    schema: TableSchema,
    options: TableOptions,
    attempt_id: str,
    rewrite: RunRewrite,
    before: Collection[str],
    *,
    memory_bytes: int = DEFAULT_REWRITE_MEMORY_BYTES,
) -> FullRewrite:
    """Writes what all runs of a bucket come to, and what changed since the full compaction before. Blocks.

    A key that was written since and has a row before and behind is told as an update, also where nothing changed,
    unless `changelog-producer.row-deduplicate` leaves it out.

    Args:
        store: Where the table's files are.
        schema: The table's.
        options: The table's.
        attempt_id: Whose files they are.
        rewrite: What to do; its inputs are all files of the bucket.
        before: Paths of those inputs that the full compaction before left; none: there was none.
        memory_bytes: As of `rewrite_runs`.

    Raises:
        As `rewrite_runs`; a failure leaves no file behind.
    """
    ignored = options.get(ROW_DEDUPLICATE_IGNORE_FIELDS)
    rules = ChangelogRules(
        schema.trimmed_key,
        drop_equal=options.get(ROW_DEDUPLICATE),
        compared=tuple(name for name in schema.arrow.names if name not in ignored),
    )
    are_before = [file.path in before for file in rewrite.inputs]
    rewriter = RunRewriter(store, schema, options, rewrite, memory_bytes)
    writer, changelog = rewriter.start_writer(attempt_id), rewriter.start_changelog(attempt_id)
    try:
        for step, rows in rewriter.read_steps():
            changelog.write(_tell(step, are_before, rows, rules, schema.arrow.names))
            writer.write(rows)
        return FullRewrite(writer.finish(), changelog.finish())
    except BaseException:
        changelog.abort()
        writer.abort()
        raise


def _tell(
    step: Sequence[AlignedRows],
    are_before: Sequence[bool],
    rows: pa.Table,
    rules: ChangelogRules,
    names: Sequence[str],
) -> pa.Table:
    """What a step changes: the table's columns and `_row_kind`, by rising key, -U right before its +U."""
    nothing = rows.select(names).slice(0, 0)
    old = pa.concat_tables(
        [nothing, *(_shown(e.rows, names) for e, is_old in zip(step, are_before, strict=True) if is_old)]
    )
    since = [e.rows.select(rules.key) for e, is_old in zip(step, are_before, strict=True) if not is_old]
    touched = pa.concat_tables([nothing.select(rules.key), *since])
    if touched.num_rows == 0:
        return nothing.append_column(_KIND_FIELD, pa.array([], pa.int8()))
    new = _shown(rows, names)
    was_touched, is_touched = _find(touched, [old, new], rules.key)
    return find_difference(old.filter(pa.array(was_touched)), new.filter(pa.array(is_touched)), rules)


def _shown(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """The rows that a read shows, of a run with one row a key."""
    shown = rows.select(names)
    if ROW_KIND_COLUMN not in rows.schema.names or rows.num_rows == 0:
        return shown
    return shown.filter(pa.array(~is_retract(rows.column(ROW_KIND_COLUMN))))


def _find(touched: pa.Table, tables: Sequence[pa.Table], key: Sequence[str]) -> list[Mask]:
    """Which rows of some tables have a key that is among others."""
    together = pa.concat_tables([touched, *(table.select(list(key)) for table in tables)])
    codes = comparable_keys([together.column(name) for name in key])
    wanted = codes[: touched.num_rows]
    ends = np.cumsum([table.num_rows for table in tables])
    return [np.isin(own, wanted) for own in np.split(codes[touched.num_rows :], ends[:-1])]


_KIND_FIELD: Final = KIND_FIELD.with_nullable(False)
