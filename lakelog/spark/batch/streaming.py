"""Streams of rows into a table, exactly once (semantics 5.8).

A batch is one commit: the writer is the stream's identity, the identifier the number of the batch. If Spark does not
know whether a batch ended, it repeats it, perhaps with other rows; the repetition finds that it was applied, and
changes nothing. `stream_identity` defines a stream's identity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from lakelog.errors import InvalidArgument
from lakelog.format.commit.request import Fence
from lakelog.spark.batch.table_write import write
from lakelog.spark.batch.write_parameters import QUERY_ID_PROPERTY, Mode
from lakelog.spark.installation import installation_of
from lakelog.spark.session.remote import check_not_remote
from lakelog.spark.source.stream_identity import to_writer_name

_QUERY_ID: Final = "sql.streaming.queryId"
"""The local property in which Spark keeps a query's id while its batches run."""


def write_stream(
    df: DataFrame,
    name: str,
    *,
    checkpoint_location: str,
    trigger: Mapping[str, Any] | None = None,
    commit_user: str | None = None,
    query_name: str | None = None,
    mode: Mode = "append",
    fill_missing: bool = False,
    merge_schema: bool = False,
    transform: Callable[[DataFrame, int], DataFrame] | None = None,
    fence: Fence | None = None,
) -> StreamingQuery:
    """Starts a stream into a table, exactly once across restarts from its checkpoint; each batch as `write` does.

    Args:
        df: A streaming DataFrame.
        name: `database.table`.
        checkpoint_location: A folder that belongs to the stream alone, and stays over restarts.
        trigger: Arguments of `DataStreamWriter.trigger`, for instance `{"availableNow": True}`; None: as fast as
            possible.
        commit_user: The writer's name; None: derived from the checkpoint. With a given name a stream with a new
            checkpoint is refused, since its batches would look like repetitions.
        query_name: The query's name in Spark.
        mode: "append" or "delete", as of `write`. For Spark's output mode "update" (rows that replace those of their
            key) use "append" into a table with a primary key. To replace a result as a whole, use `format("lakelog")`
            with the output mode "complete".
        fill_missing: As of `write`.
        merge_schema: As of `write`; batches that `transform` makes may have columns that earlier ones lacked.
        transform: Makes the rows to write from each batch and its number; runs in the driver program, perhaps
            repeatedly.
        fence: A lease that must still be held when a batch is committed.

    Returns:
        The running query; errors of batches end it and are its `exception()`.
    """
    instead = f"df.writeStream.format('lakelog').option('table', '{name}')"
    check_not_remote(df.sparkSession, "lakelog.spark.write_stream", instead)
    installation_of(df.sparkSession)
    if not df.isStreaming:
        raise InvalidArgument("The DataFrame is no stream. Use lakelog.spark.write.")

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        query_id = batch.sparkSession.sparkContext.getLocalProperty(_QUERY_ID) or ""
        writer = commit_user or to_writer_name(query_id)
        rows = batch if transform is None else transform(batch, batch_id)
        write(
            rows,
            name,
            mode=mode,
            fill_missing=fill_missing,
            merge_schema=merge_schema,
            writer=writer,
            identifier=batch_id,
            previous_identifier=batch_id - 1,
            properties={QUERY_ID_PROPERTY: query_id},
            fence=fence,
        )

    stream = df.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint_location)
    if query_name is not None:
        stream = stream.queryName(query_name)
    if trigger is not None:
        stream = stream.trigger(**trigger)
    return stream.start()
