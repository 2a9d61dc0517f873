"""Answers the calls of `TableStream.java` for one query's stream, in the driver program.

A call is a JSON object with `call`, one of:

- `initialOffset`, `reportLatestOffset`, `latestOffset` with `start` and `all` (Spark gives no limit): answer `offset`,
  the text that Spark stores in its checkpoint.
- `limit`: answer `kind` (`files`, `bytes`, `rows` or `all`) and `value`.
- `prepareForTriggerAvailableNow`, `stop`: answer nothing.
- `plan` with `start` and `end`: answer `files`, for each task a list of files below `root`; or `rows`, a pickled
  partition in base64 for each task.
- `function`: answer `function`, the pickled reader of such partitions.

An answer with `error` ends the query.
"""

from __future__ import annotations

import base64
import io
import json
import logging
import pickle
import struct
import traceback
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, ClassVar, Final

from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxFiles, ReadMaxRows
from pyspark.sql.types import StructType
from pyspark.sql.worker.plan_data_source_read import write_read_func_and_partitions

from lakelog.errors import LakelogError
from lakelog.spark.java.file_tasks import FileSlice, plan_file_tasks
from lakelog.spark.parquet_files import can_read, to_hadoop_location
from lakelog.spark.stream.read_options import COMMIT_TIMESTAMP_COLUMN
from lakelog.spark.stream.reader import LakelogStreamReader
from lakelog.spark.task_errors import to_driver_text

_log = logging.getLogger(__name__)

_NO_LIMIT: Final = ReadAllAvailable()


class StreamCalls:
    """One query's stream. Java's thread of the query calls it.

    Args:
        spark: The session.
        source: The data source, for tasks that make rows in Python.
        reader: Knows offsets and plans batches.
        columns: The columns of the stream.
        constants: Those of them that have one value in a file.
        is_filtered: Whether only rows of a condition are shown.
    """

    class Java:
        """The interface by which Java calls it."""

        implements: ClassVar = ["java.util.function.Function"]

    def __init__(
        self,
        spark: SparkSession,
        source: DataSource,
        reader: LakelogStreamReader,
        columns: StructType,
        constants: Sequence[str],
        is_filtered: bool,
    ) -> None:
        self._spark = spark
        self._source = source
        self._reader = reader
        self._columns = columns
        self._constants = constants
        self._is_filtered = is_filtered
        self._is_readable: bool | None = None
        self._planning = ThreadPoolExecutor(1, thread_name_prefix="lakelog-plan")
        self._ahead: tuple[str, str, Future[Sequence[Any]]] | None = None
        self._calls: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "initialOffset": lambda _: {"offset": json.dumps(reader.initialOffset())},
            "latestOffset": self._find_latest,
            "reportLatestOffset": self._report_latest,
            "limit": self._find_limit,
            "prepareForTriggerAvailableNow": self._prepare,
            "plan": self._plan,
            "function": self._pickle_function,
            "stop": self._stop,
        }

    def apply(self, text: str) -> str:
        """Answers a call; both are JSON objects."""
        arguments = json.loads(text)
        try:
            return json.dumps(self._calls[arguments["call"]](arguments))
        except LakelogError as error:
            return json.dumps({"error": to_driver_text(error)})
        except Exception:
            # The traceback would otherwise stay in this process, and the query end with a text of py4j.
            return json.dumps({"error": traceback.format_exc()})

    def _find_latest(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        limit = _NO_LIMIT if arguments["all"] else self._reader.getDefaultReadLimit()
        start = arguments["start"]
        end = json.dumps(self._reader.latestOffset(json.loads(start), limit))
        if end != start:
            # Spark writes the offset into its checkpoint before it asks for the plan of the batch.
            self._ahead = (start, end, self._planning.submit(self._plan_splits, start, end))
        return {"offset": end}

    def _report_latest(self, _: Mapping[str, Any]) -> dict[str, Any]:
        newest = self._reader.reportLatestOffset()
        return {"offset": None if newest is None else json.dumps(newest)}

    def _find_limit(self, _: Mapping[str, Any]) -> dict[str, Any]:
        match self._reader.getDefaultReadLimit():
            case ReadMaxFiles(max_files=value):
                return {"kind": "files", "value": value}
            case ReadMaxBytes(max_bytes=value):
                return {"kind": "bytes", "value": value}
            case ReadMaxRows(max_rows=value):
                return {"kind": "rows", "value": value}
            case _:
                return {"kind": "all", "value": 0}

    def _prepare(self, _: Mapping[str, Any]) -> dict[str, Any]:
        self._reader.prepareForTriggerAvailableNow()
        return {}

    def _stop(self, _: Mapping[str, Any]) -> dict[str, Any]:
        # A plan that is under way ends by itself. The query need not wait for it, if the metastore is away.
        self._planning.shutdown(wait=False, cancel_futures=True)
        self._reader.stop()
        return {}

    def _plan(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        splits = self._take_splits(arguments["start"], arguments["end"])
        tasks = None if self._is_filtered else plan_file_tasks(splits, self._spark.sparkContext.defaultParallelism)
        if not splits or tasks == []:
            return {"files": [], "root": ""}
        if (
            tasks is None
            or not self._can_read(splits[0].table.location, tasks[0][0].file.path)
            or not self._reader.reads_natively({part.file.schema_id for task in tasks for part in task})
        ):
            return {"rows": [_to_text(pickle.dumps(each)) for each in splits]}
        times_ms = {snapshot: ms for each in splits for snapshot, ms in each.times_ms.items()}
        root = to_hadoop_location(splits[0].table.location)
        return {"root": root, "files": [[self._describe(each, times_ms) for each in task] for task in tasks]}

    def _take_splits(self, start: str, end: str) -> Sequence[Any]:
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead[:2] == (start, end):
            return ahead[2].result()
        return self._plan_splits(start, end)

    def _plan_splits(self, start: str, end: str) -> Sequence[Any]:
        return self._reader.partitions(json.loads(start), json.loads(end))

    def _can_read(self, location: str, path: str) -> bool:
        if self._is_readable is None:
            self._is_readable = can_read(self._spark, location, path)
        return self._is_readable

    def _describe(self, part: FileSlice, times_ms: Mapping[int, int]) -> dict[str, Any]:
        values = [
            times_ms[part.snapshot_id] * 1000 if name == COMMIT_TIMESTAMP_COLUMN else part.snapshot_id
            for name in self._constants
        ]
        file = part.file
        return {
            "path": file.path,
            "start": part.start,
            "length": part.length,
            "size": file.size_bytes,
            "constants": values,
        }

    def _pickle_function(self, _: Mapping[str, Any]) -> dict[str, Any]:
        written = io.BytesIO()
        conf = self._spark.conf
        write_read_func_and_partitions(
            written,
            reader=self._reader,
            data_source=self._source,
            schema=self._columns,
            max_arrow_batch_size=int(conf.get("spark.sql.execution.arrow.maxRecordsPerBatch") or 10_000),
            binary_as_bytes=conf.get("spark.sql.execution.pyspark.binaryAsBytes") == "true",
        )
        (length,) = struct.unpack_from(">i", written.getbuffer())
        return {"function": _to_text(written.getvalue()[4 : 4 + length])}


def _to_text(data: bytes) -> str:
    return base64.b64encode(data).decode()
