"""What the readers of all formats give: rows with their places."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakelog.log.codecs.byte_columns import Mask
from lakelog.records.blocks import Indices

FindLeftOut = Callable[[Sequence[str], Mask], list[Mask]]
"""Which of the rows of a mask are of records that leave a column out: a mask over all rows for each name."""


@dataclass(frozen=True)
class SourceRows:
    """Rows of a file before they are fitted to the table.

    Args:
        columns: By their name in the source; strings where the source holds text. Equally long.
        count: How many rows.
        lines: The place of each row in the source, as of `BadRecord.line`. Rows with the same place stand behind each
            other and are one record: an update and its old row, of which the table takes both or none.
        raw: Gives a row as it stands in the file.
        find_left_out: Says which columns a record leaves out; None: every record names all of `columns`.
    """

    columns: Mapping[str, pa.Array]
    count: int
    lines: Indices
    raw: Callable[[int], bytes]
    find_left_out: FindLeftOut | None = None


def spread(rows: Mask, found: Sequence[Mask]) -> list[Mask]:
    """Masks over the rows of a mask as masks over all rows. Pure."""
    masks = []
    for each in found:
        mask = np.zeros(len(rows), bool)
        mask[rows] = each
        masks.append(mask)
    return masks
