"""What the readers of the formats share: rows with their places, and the search for records that do not parse."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from lakelog.log.codecs.byte_columns import Mask
from lakelog.records.blocks import Block, Indices

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


@dataclass(frozen=True)
class ParsedRecords:
    """What a parser made of some records: its table's rows belong to `records`, and `bad` have a reason each."""

    table: pa.Table
    records: Indices
    bad: tuple[tuple[int, str], ...] = ()


Parse = Callable[[Indices], ParsedRecords]
"""Parses records of a block; raises ArrowException, or returns fewer rows than records, when one of them is bad."""


def parse_records(block: Block, records: Indices, parse: Parse) -> list[ParsedRecords]:
    """Parses records of a block; those that make `parse` fail are found by halving.

    Args:
        block: Where the records are.
        records: Their numbers, rising.
        parse: The format's own.

    Returns:
        Parts in order. A part without rows and with one bad record is one that could not be parsed alone.
    """
    done: list[ParsedRecords] = []
    stack = [records]
    while stack:
        part = stack.pop()
        if len(part) == 0:
            continue
        try:
            parsed = parse(part)
            reason = "its values and quotes do not pair up" if parsed.table.num_rows != len(parsed.records) else ""
        except pa.ArrowException as error:
            reason = explain(error)
        if not reason:
            done.append(parsed)
        elif len(part) == 1:
            done.append(ParsedRecords(_NO_ROWS, _NONE, ((int(part[0]), reason),)))
        else:
            middle = len(part) // 2
            stack += [part[middle:], part[:middle]]
    return done


def explain(error: Exception) -> str:
    """Says in a few words what a parser of Arrow found."""
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "UTF8" in text or "UTF-8" in text:
        return "it is not valid UTF-8 text; say in source.options.encoding what it is"
    text = text.removeprefix("CSV parse error: ").removeprefix("JSON parse error: ")
    return f"it cannot be parsed: {text[:200]}"


_NO_ROWS: Final = pa.table({})
_NONE: Final = np.empty(0, np.int64)


def spread(rows: Mask, found: Sequence[Mask]) -> list[Mask]:
    """Masks over the rows of a mask as masks over all rows. Pure."""
    masks = []
    for each in found:
        mask = np.zeros(len(rows), bool)
        mask[rows] = each
        masks.append(mask)
    return masks
