"""What users' tests, and ours, may use: a real lakelog in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakelog.embedded.stack import EmbeddedStack

__all__ = ["EmbeddedStack", "embedded_stack"]


@contextmanager
def embedded_stack(
    folder: str | os.PathLike[str], *, services: Sequence[str] = ("metastore",), kafka: bool = False
) -> Iterator[EmbeddedStack]:
    """Runs real processes for the length of a `with` block: a Postgres of its own, and services on free ports.

    Needs the extra `embedded`. What dies stays dead until `stack.restart(name)`.

    Args:
        folder: Where data, warehouse and logs stand, for instance pytest's `tmp_path`.
        services: What runs besides Postgres: nothing, or `metastore`, and with it `compactor`, `reader` and
            `publisher`.
        kafka: Whether a Kafka broker runs as well, as the component `kafka`. A machine's first one fetches Kafka's
            jars (44 MB) into the user's cache folder.

    Yields:
        The running stack: `target` for `lakelog.connect`, `reader_target` for its `reader`, `kafka` (bootstrap
            servers), `database_url`, `warehouse`, `logs`, and `restart`, `kill`, `pause` and `resume` by name.

    Raises:
        InvalidArgument: A service that is not known.
        Unavailable: A component did not start; the message has its last words. Or Kafka's jars could not be fetched.
    """
    with EmbeddedStack(Path(folder), services=services, kafka=kafka) as stack:
        yield stack
