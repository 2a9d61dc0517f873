"""Buckets as pictures, and plans applied to them, for tests that read "before, after".

A line is a sorted run, the newest on top; a column is a key. A letter stands where its file has a row, a capital where
that row is a delete, `-` where the file has none between others. A file is as large as it is wide, so many units:

    L0  .aA......
    L0  ...bb-b..
    L2  cccc.dddd

Files that a plan writes are called r, s, t and so on, in the order of their keys.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import count

import pyarrow as pa

from lakelog.format.compaction.plan import BucketPlan
from lakelog.format.compaction.runs import BucketFiles, to_bucket_files
from lakelog.format.compaction.settings import CompactionSettings
from lakelog.format.tables.files import FILE_SCHEMA

UNIT_BYTES = 10
WIDE = 2
"""From this width on a file is large with `SETTINGS`."""

SETTINGS = CompactionSettings(target_file_size_bytes=WIDE * UNIT_BYTES, level_count=3)


@dataclass(frozen=True)
class PaintedFile:
    """A file with its rows: by key what was written there, or None for a delete."""

    file_id: int
    name: str
    level: int
    order_key: tuple[int, int, int]
    first: int
    last: int
    size_bytes: int
    rows: Mapping[int, object | None]


Painting = tuple[PaintedFile, ...]


def parse(picture: str) -> Painting:
    """The files of a picture; those of the lowest line have the first place, and ids go with the places."""
    lines = [line.split(maxsplit=1) for line in textwrap.dedent(picture).strip().splitlines()]
    files: list[PaintedFile] = []
    for snapshot, (level, track) in enumerate(reversed(lines), 1):
        for name in sorted({letter.lower() for letter in track if letter.isalpha()}, key=track.lower().index):
            first, last = track.lower().index(name), track.lower().rindex(name)
            rows = {
                key: None if track[key].isupper() else f"{name}{key}"
                for key in range(first, last + 1)
                if track[key] != "-"
            }
            size_bytes = (last + 1 - first) * UNIT_BYTES
            order_key = (snapshot, len(files), snapshot * 1000)
            files.append(PaintedFile(len(files) + 1, name, int(level[1:]), order_key, first, last, size_bytes, rows))
    return tuple(files)


def draw(painting: Painting) -> str:
    """The picture of some files, as wide as it must be."""
    runs: dict[tuple[int, tuple[int, ...]], list[PaintedFile]] = {}
    for file in painting:
        runs.setdefault((file.level, tuple(-n for n in file.order_key) if file.level == 0 else ()), []).append(file)
    lines = []
    width = max((file.last for file in painting), default=-1) + 1
    for (level, _), members in sorted(runs.items()):
        track = ["."] * width
        for file in members:
            for key in range(file.first, file.last + 1):
                has = key in file.rows
                track[key] = "-" if not has else file.name.upper() if file.rows[key] is None else file.name
        lines.append(f"L{level}  {''.join(track)}")
    return "\n".join(lines)


def drawn(picture: str) -> str:
    """A picture as `draw` writes it, without the columns on the right where nothing is."""
    return draw(parse(picture))


def to_table(painting: Painting, partition: bytes = b"", bucket: int = 0) -> pa.Table:
    """The files as a plan lists them."""
    return pa.Table.from_pylist(
        [
            {
                "file_id": file.file_id,
                "path": f"data/{file.file_id}.parquet",
                "partition": partition,
                "bucket": bucket,
                "level": file.level,
                "row_count": len(file.rows),
                "delete_count": sum(row is None for row in file.rows.values()),
                "size_bytes": file.size_bytes,
                "min_key": bytes([file.first]),
                "max_key": bytes([file.last]),
                "schema_id": 0,
                "added_snapshot": file.order_key[0],
                "order_snapshot": file.order_key[0],
                "order_ordinal": file.order_key[1],
                "order_time_ms": file.order_key[2],
                "deletion_vector_path": None,
            }
            for file in painting
        ],
        FILE_SCHEMA,
    )


def to_files(painting: Painting) -> BucketFiles:
    """The files as compaction is planned for them."""
    return to_bucket_files(to_table(painting))


def read(painting: Painting) -> dict[int, object]:
    """What a read returns: of each key the row of the latest place, if it is no delete."""
    found: dict[int, object | None] = {}
    for file in sorted(painting, key=lambda file: file.order_key):
        found.update(file.rows)
    return {key: row for key, row in found.items() if row is not None}


def apply(
    painting: Painting, plan: BucketPlan, *, max_rows: int | None = None, is_placed_by_gate: bool = False
) -> Painting:
    """What a plan leaves of some files, some of which may have come behind it.

    Files have at most so many rows. The commit gate (`effects.place_files`) knows no parts of a plan: all
    that a commit adds to a bucket gets the latest place of all it removes, moved files that are added anew as well.
    """
    by_id = {file.file_id: file for file in painting}
    latest = max((by_id[file_id].order_key for file_id in plan.file_ids), default=(0, 0, 0))
    moved = {move.file_id for move in plan.moves}
    gone = {file_id for rewrite in plan.rewrites for file_id in rewrite.file_ids}
    assert gone.isdisjoint(moved)
    after = [
        replace(file, level=plan.output_level, order_key=latest if is_placed_by_gate else file.order_key)
        if file.file_id in moved
        else file
        for file in painting
        if file.file_id not in gone
    ]
    ids = count(max(by_id, default=0) + 1)
    names = iter("rstuvwxyz" * len(painting))
    for rewrite in plan.rewrites:
        rows: dict[int, object | None] = {}
        for section in rewrite.sections:
            merged: dict[int, object | None] = {}
            for run in section.runs:
                keys = [key for file_id in run for key in sorted(by_id[file_id].rows)]
                assert keys == sorted(set(keys)), "a run is sorted and has each key once"
                merged.update((key, by_id[file_id].rows[key]) for file_id in run for key in by_id[file_id].rows)
            assert not rows or not merged or max(rows) < min(merged), "sections stand in the order of their keys"
            rows.update(sorted(merged.items()))
        if rewrite.drops_deletes:
            rows = {key: row for key, row in rows.items() if row is not None}
        order_key = (rewrite.order_key.snapshot_id, rewrite.order_key.ordinal, rewrite.order_key.time_ms)
        if is_placed_by_gate:
            order_key = latest
        keys = list(rows)
        step = max_rows or max(len(keys), 1)
        for start in range(0, len(keys), step):
            part = {key: rows[key] for key in keys[start : start + step]}
            first, last = min(part), max(part)
            size_bytes = (last + 1 - first) * UNIT_BYTES
            after.append(
                PaintedFile(next(ids), next(names), plan.output_level, order_key, first, last, size_bytes, part)
            )
    return tuple(after)


def after(picture: str, plan: BucketPlan) -> str:
    """The picture of what a plan leaves."""
    return draw(apply(parse(picture), plan))
