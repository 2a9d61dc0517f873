"""Streams of rows into a table, exactly once (SEMANTICS.md 5.8).

A batch is one commit: the writer is the stream's identity, the identifier the number of the batch. Spark repeats a batch
whose end it does not know of, perhaps with other rows; the repetition finds itself applied and changes nothing.

The identity comes from the checkpoint: the id that Spark writes into it when a query is first started. It is new where
the checkpoint is, so that a stream that begins anew is never taken for the old one. `commit-user` sets the name instead;
then the id of the checkpoint is remembered with each commit, and batches of another checkpoint under the same name, whose
numbers begin anew and would be taken for repetitions, are refused.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from lakelog.client.metastore import Metastore
from lakelog.errors import CommitConflict, InvalidArgument, LakelogError
from lakelog.format.commit import Fence
from lakelog.format.table import TableInfo
from lakelog.spark.commit import CommitTerms
from lakelog.spark.connection import open_table_store
from lakelog.spark.write_terms import Mode

QUERY_ID_PROPERTY: Final = "spark.query-id"
"""A property of each snapshot that a stream makes: the id in its checkpoint."""

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
    transform: Callable[[DataFrame, int], DataFrame] | None = None,
    fence: Fence | None = None,
) -> StreamingQuery:
    """Starts a stream into a table, exactly once across restarts from its checkpoint; each batch as `write` does.

    Args:
        df: A streaming DataFrame.
        name: `database.table`.
        checkpoint_location: A folder of the stream's own, kept over restarts.
        trigger: Arguments of `DataStreamWriter.trigger`, for instance `{"availableNow": True}`; None: as fast as possible.
        commit_user: The writer's name; None: derived from the checkpoint. With a name of your own a stream with a new
            checkpoint is refused, since its batches cannot be told from repetitions.
        query_name: The query's name in Spark.
        mode: "append" or "delete", as of `write`.
        transform: Makes the rows to write of each batch and its number; runs in the driver program, perhaps repeatedly.
        fence: A lease that must still be held when a batch is committed.

    Returns:
        The running query; errors of batches end it and are its `exception()`.
    """
    from lakelog.spark.installation import installation_of
    from lakelog.spark.table_write import write

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


def to_writer_name(query_id: str) -> str:
    """The writer's name of a stream without `commit-user`."""
    return f"spark-stream-{query_id}"


def check_progress(metastore: Metastore, info: TableInfo, terms: CommitTerms) -> None:
    """Refuses a batch whose number was committed under the same name by a stream with another checkpoint.

    Raises:
        CommitConflict: It was; the rows of the batch would be taken for committed ones and be lost.
    """
    own = terms.properties.get(QUERY_ID_PROPERTY)
    if own is None or terms.writer is None or terms.identifier is None:
        return
    progress = metastore.get_writer_progress(terms.writer, info.table_uuid)
    other = progress.properties.get(QUERY_ID_PROPERTY)
    if progress.last_identifier is None or other is None or other == own or progress.last_identifier < terms.identifier:
        return
    raise CommitConflict(
        f"Batch {terms.identifier} of writer '{terms.writer}' comes from another checkpoint than the batches up to "
        f"{progress.last_identifier} that this writer has committed to {info.name}: it would be taken for a repetition, and "
        "its rows would be lost. Use the old checkpoint, or another commit-user.",
        reason="OTHER_CHECKPOINT",
        metadata={"table": str(info.name), "writer": terms.writer, "retry": "never"},
    )


def read_query_id(checkpoint_location: str) -> str:
    """The id that Spark has written into a checkpoint, from outside of Spark. Blocks on the file system.

    Raises:
        InvalidArgument: The place cannot be read from Python, or holds no checkpoint.
    """
    parts = urlsplit(checkpoint_location)
    try:
        if parts.scheme in ("", "file"):
            path = unquote(parts.path) if parts.scheme else checkpoint_location
            with open(os.path.join(path, "metadata"), encoding="utf-8") as file:
                text = file.read()
        elif parts.scheme in ("s3", "s3a"):
            store = open_table_store("s3://" + checkpoint_location.partition("://")[2].rstrip("/") + "/")
            with store.open_input("metadata") as source:
                text = source.read().decode()
        else:
            raise InvalidArgument(
                f"The checkpoint {checkpoint_location[:200]} cannot be read from Python, so that the stream has no name. Give "
                "the option 'commit-user', or use lakelog.spark.write_stream.",
                metadata={"option": "checkpointLocation"},
            )
        return str(json.loads(text)["id"])
    except (OSError, ValueError, KeyError, LakelogError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"The checkpoint {checkpoint_location[:200]} does not tell the stream's id ({error!s:.200}). Give the option "
            "'commit-user'.",
            metadata={"option": "checkpointLocation"},
        ) from error
