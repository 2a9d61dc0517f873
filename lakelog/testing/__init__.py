"""What users' tests, and ours, may use: a real lakelog in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import InvalidArgument

__all__ = ["EmbeddedStack", "embedded_stack"]


@contextmanager
def embedded_stack(
    folder: str | os.PathLike[str], *, services: Sequence[str] = ("metastore",), kafka: bool = False
) -> Iterator[EmbeddedStack]:
    """Runs real processes for the length of a `with` block: a Postgres of its own, and services on free ports.

    Needs the extra `embedded`. What dies stays dead until `stack.restart(name)`.

    Args:
        folder: Where data, warehouse and logs stand, for instance pytest's `tmp_path`.
        services: What runs besides Postgres: nothing, or `metastore`, and with it `compactor` and `reader`.
        kafka: Whether a Kafka broker runs as well; this version has no log, so it must be False.

    Yields:
        The running stack: `target` for `lakelog.connect`, `reader_target` for its `reader`, `database_url`,
            `warehouse`, `logs`, and `restart`, `kill`, `pause` and `resume` by name.

    Raises:
        InvalidArgument: A service that is not known, or `kafka=True`.
        Unavailable: A component did not start; the message has its last words.
    """
    if kafka:
        raise InvalidArgument(
            "kafka: True is not possible: this version of lakelog has no log in Kafka yet. Leave the argument out.",
            metadata={"field": "kafka", "value": "True"},
        )
    with EmbeddedStack(Path(folder), services=services) as stack:
        yield stack
