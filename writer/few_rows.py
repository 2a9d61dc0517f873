"""Small batches: the driver program reads them itself, because a job of Spark would take longer.

A job with Python tasks takes tenths of a second, and the first one of a process seconds. Batches of pipelines that
follow their source are mostly small. Their rows come here, from the same function that tasks run, and Spark gets them
as a local relation, which it writes without a job (`lakelog.spark.batch.given_rows`).
"""

from __future__ import annotations

from contextlib import closing
from typing import Final

import pyarrow as pa

from lakelog.spark.batch.given_rows import MAX_ROWS
from lakelog.spark.task_errors import lakelog_errors

from .source import BatchTasks

_MAX_BYTES: Final = 8 << 20
"""Above this tasks read the batch: it takes them no longer, and the driver program stays small."""


def read_few_rows(tasks: BatchTasks, schema: pa.Schema) -> pa.Table | None:
    """Returns the rows of a batch if they are few; None: tasks are to read it.

    Dead letters of parts that were read to their end are left behind. The tasks replace them by the same ones.

    Args:
        tasks: Those of the batch.
        schema: The schema of the rows.

    Raises:
        LakelogError: As tasks would raise it.
    """
    if not tasks.may_be_few:
        return None
    numbers = pa.record_batch({"number": pa.array(range(tasks.count), pa.int64())})
    found: list[pa.RecordBatch] = []
    rows = size = 0
    # Closing it takes back the dead letters of the part that was read last, which are not complete.
    with lakelog_errors(), closing(tasks.read(iter([numbers]))) as batches:
        for batch in batches:
            found.append(batch)
            rows, size = rows + batch.num_rows, size + batch.nbytes
            if rows > MAX_ROWS or size > _MAX_BYTES:
                return None
    return pa.Table.from_batches(found, schema)
