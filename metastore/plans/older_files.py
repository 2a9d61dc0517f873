"""Bounds of columns in files that were written under an earlier version of the schema.

A file's bounds are encoded with the types of its own schema, and it has none of a column that was added later. The
column says in its metadata since which version it is there, and since which version its values are encoded as now.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakelog.format.keys.encoding import encode_value
from lakelog.format.tables.prune import ColumnBounds
from lakelog.format.types.defaults import initial_default
from lakelog.format.types.evolution import ADDED_SINCE_KEY, ENCODED_SINCE_KEY


def adapt_bounds(bounds: ColumnBounds, field: pa.Field, schema_ids: pa.Array, row_count: pa.Array) -> ColumnBounds:
    """The bounds of a column in its present encoding; NULL where a file says nothing. Pure; no loop over files.

    Args:
        bounds: As the files have them, of one value a file.
        field: The column in the schema of the plan.
        schema_ids: The schema of each file.
        row_count: Rows of each file.
    """
    metadata = field.metadata or {}
    if ENCODED_SINCE_KEY in metadata:
        bounds = _unknown_before(bounds, int(metadata[ENCODED_SINCE_KEY]), schema_ids)
    if ADDED_SINCE_KEY in metadata:
        bounds = _initial_before(bounds, int(metadata[ADDED_SINCE_KEY]), field, schema_ids, row_count)
    return bounds


def _unknown_before(bounds: ColumnBounds, since: int, schema_ids: pa.Array) -> ColumnBounds:
    """How many values are NULL is right in any encoding."""
    is_older = _is_older(schema_ids, since)
    if is_older is None:
        return bounds
    unknown = pa.scalar(None, pa.binary())
    return ColumnBounds(
        pc.if_else(is_older, unknown, bounds.min_value),
        pc.if_else(is_older, unknown, bounds.max_value),
        bounds.null_count,
    )


def _initial_before(
    bounds: ColumnBounds, since: int, field: pa.Field, schema_ids: pa.Array, row_count: pa.Array
) -> ColumnBounds:
    """All rows of files without the column show its initial default, or NULL."""
    is_older = _is_older(schema_ids, since)
    if is_older is None:
        return bounds
    default = initial_default(field)
    value = pa.scalar(None if default is None else encode_value(default), pa.binary())
    nulls = row_count if default is None else pa.scalar(0, pa.int64())
    return ColumnBounds(
        pc.if_else(is_older, value, bounds.min_value),
        pc.if_else(is_older, value, bounds.max_value),
        pc.if_else(is_older, nulls, bounds.null_count),
    )


def _is_older(schema_ids: pa.Array, since: int) -> pa.Array | None:
    """Which files are older than a version; None: none is."""
    older = schema_ids.to_numpy(zero_copy_only=False) < since
    return pa.array(older) if np.any(older) else None
