"""Runs on executors: which row positions of a bucket's files are superseded, as words of 64 bits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

WORD_BITS = 64
SCHEMA = "file long, words array<bigint>, superseded long"


def deleted(runs: list[npt.NDArray[np.int64]]) -> npt.NDArray[np.bool_]:
    """Mark, over the concatenated runs (oldest first, each sorted, keys unique), each row whose key comes again."""
    keys = np.concatenate(runs)
    order = np.argsort(keys, kind="stable")
    ordered = keys[order]
    marks = np.zeros(len(keys), np.bool_)
    marks[order[:-1]] = ordered[:-1] == ordered[1:]
    return marks


def to_words(marks: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Pack marks into words, position p at bit p % 64 of word p // 64."""
    padded = np.zeros(-(-len(marks) // WORD_BITS) * WORD_BITS // 8, np.uint8)
    packed = np.packbits(marks, bitorder="little")
    padded[: len(packed)] = packed
    return padded.view(np.int64)


def words_of_bucket(files: list[int], paths: list[str], key: str) -> pa.RecordBatch:
    """One row a file that has superseded rows: its number, its words, how many are superseded."""
    runs = [pq.read_table(p, columns=[key], use_threads=False, memory_map=True)[key].to_numpy() for p in paths]
    marks = deleted(runs)
    numbers, words, counts, start = [], [], [], 0
    for file, run in zip(files, runs, strict=True):
        mine = marks[start : start + len(run)]
        start += len(run)
        count = int(np.count_nonzero(mine))
        if count:
            numbers.append(file)
            words.append(to_words(mine))
            counts.append(count)
    offsets = np.zeros(len(words) + 1, np.int32)
    np.cumsum([len(w) for w in words], out=offsets[1:])
    flat = np.concatenate(words) if words else np.empty(0, np.int64)
    columns = [
        pa.array(numbers, pa.int64()),
        pa.ListArray.from_arrays(pa.array(offsets), pa.array(flat)),
        pa.array(counts, pa.int64()),
    ]
    return pa.record_batch(columns, names=["file", "words", "superseded"])


def find_deleted_rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """mapInArrow over rows (files array<bigint>, paths array<string>, key string), one a bucket."""
    for batch in batches:
        for row in batch.to_pylist():
            yield words_of_bucket(row["files"], row["paths"], row["key"])
