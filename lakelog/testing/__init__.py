"""For users' tests and ours, for notebooks and examples: a real lakelog in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakelog.embedded.stack import EmbeddedStack
from lakelog.testing.sandbox import Sandbox, open_sandbox
from lakelog.testing.showing import check, show

__all__ = ["EmbeddedStack", "Sandbox", "check", "embedded_stack", "open_sandbox", "show"]


@contextmanager
def embedded_stack(
    folder: str | os.PathLike[str], *, services: Sequence[str] = ("metastore",), kafka: bool = False
) -> Iterator[EmbeddedStack]:
    """Runs real processes for the length of a `with` block: its own Postgres, and services on free ports.

    Needs the extra `embedded`. A dead component stays dead until `stack.restart(name)`.

    Args:
        folder: The folder for data, warehouse and logs, for instance pytest's `tmp_path`.
        services: What runs besides Postgres: nothing, or `metastore`, and with it `compactor`, `reader` and
            `publisher`.
        kafka: Whether a Kafka broker runs as well, as the component `kafka`. The first one on a machine downloads
            Kafka's jars (44 MB) into the user's cache folder.

    Yields:
        The running stack: `target` for `lakelog.connect`, `reader_target` for its `reader`, `kafka` (bootstrap
            servers), `database_url`, `warehouse`, `logs`, and `restart`, `kill`, `pause` and `resume` by name.

    Raises:
        InvalidArgument: A service is unknown.
        Unavailable: A component did not start, and the message has the last lines of its log; or Kafka's jars could not
            be downloaded.
    """
    with EmbeddedStack(Path(folder), services=services, kafka=kafka) as stack:
        yield stack
