"""The identity of a stream: the name under which its batches are committed.

The identity comes from the checkpoint: the id that Spark writes into it when a query first starts. A new checkpoint has
a new id, so a stream that begins again is never taken for the old one. `commit-user` sets the name instead; then each
commit stores the id of the checkpoint, and batches of another checkpoint under the same name are refused, since their
numbers begin again and would be taken for repetitions.
"""

from __future__ import annotations

import json
import os
from urllib.parse import unquote, urlsplit

from lakelog.errors import InvalidArgument, LakelogError
from lakelog.spark.connection import open_table_store


def to_writer_name(query_id: str) -> str:
    """The writer's name of a stream without `commit-user`."""
    return f"spark-stream-{query_id}"


def read_query_id(checkpoint_location: str) -> str:
    """The id that Spark has written into a checkpoint, from outside of Spark. Blocks on the file system.

    Raises:
        InvalidArgument: Python cannot read the place, or it holds no checkpoint.
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
                f"The checkpoint {checkpoint_location[:200]} cannot be read from Python, so that the stream has no "
                "name. Give the option 'commit-user', or use lakelog.spark.write_stream.",
                metadata={"option": "checkpointLocation"},
            )
        return str(json.loads(text)["id"])
    except (OSError, ValueError, KeyError, LakelogError) as error:
        if isinstance(error, InvalidArgument):
            raise
        raise InvalidArgument(
            f"The checkpoint {checkpoint_location[:200]} does not tell the stream's id ({error!s:.200}). Give the "
            "option 'commit-user'.",
            metadata={"option": "checkpointLocation"},
        ) from error
