"""Cost per row of the bucket function, for several key types. Run `python -m bench.kernels.hash`."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from bench.kernels.merge import cost_ns, digits, uuid_key, varying_text_key
from lakelog.format.keys import bucket

ROWS = 1_000_000


def main() -> None:
    numbers = np.random.default_rng(0).integers(0, 8 * ROWS, ROWS)
    keys: dict[str, list[pa.ChunkedArray]] = {
        "int64": [pa.chunked_array([numbers])],
        "int32": [pa.chunked_array([numbers.astype(np.int32)])],
        "string 13-30": varying_text_key(numbers).columns,
        "string 32": uuid_key(numbers).columns,
        "decimal(38,0)": [pa.chunked_array([pc.cast(pa.array(numbers), pa.decimal128(38, 0))])],
        "string 8, int64": [pa.chunked_array([digits(numbers // 1000, 8)]), pa.chunked_array([numbers])],
    }
    for name, columns in keys.items():
        figures = []
        for chunk_rows in (1 << 13, 1 << 15, 1 << 17, ROWS):
            bucket._CHUNK_ROWS = chunk_rows  # type: ignore[misc]
            figures.append(f"{chunk_rows} rows a chunk {cost_ns(partial(bucket.hash_columns, columns), ROWS):6.1f}")
        print(f"{name:16}", ", ".join(figures))


if __name__ == "__main__":
    main()
