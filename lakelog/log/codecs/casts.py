"""Casts of columns in which not every value can be cast; those that cannot are found by halving. No loop over rows."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types as pt

from lakelog.format.types.decimal_text import cast_decimal_texts
from lakelog.log.codecs.byte_columns import Mask


def cast_or_null(values: pa.Array, cast: Callable[[pa.Array], pa.Array], target: pa.DataType) -> pa.Array:
    """Returns what `cast` makes of the values, NULL for those that make it raise. Few of them cost little."""
    chunks: list[pa.Array] = []
    stack = [values]
    while stack:
        part = stack.pop()
        try:
            chunks.append(cast(part))
        except (pa.ArrowException, ValueError, OverflowError):
            if len(part) <= 1:
                chunks.append(pa.nulls(len(part), target))
            else:
                middle = len(part) // 2
                stack += [part.slice(middle), part.slice(0, middle)]
    return chunks[0] if len(chunks) == 1 else pa.concat_arrays(chunks)


def cast_exactly(values: pa.Array, target: pa.DataType) -> pa.Array:
    """`values.cast(target)`, but texts with extreme exponents are no decimals."""
    is_parsed = pt.is_decimal(target) and pt.is_string(values.type)
    return cast_decimal_texts(values, target) if is_parsed else values.cast(target)


def cast_where_possible(values: pa.Array, target: pa.DataType) -> tuple[pa.Array, Mask]:
    """Casts what can be cast, and says which values cannot: those are NULL."""
    found = cast_or_null(values, lambda part: cast_exactly(part, target), target)
    return found, np.asarray(pc.and_(values.is_valid(), found.is_null()))
