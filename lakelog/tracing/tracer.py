"""What makes spans, as the rest of lakelog sees it."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Literal, Protocol

Kind = Literal["internal", "client", "server", "producer"]
Attributes = Mapping[str, str | int]


@dataclass(frozen=True)
class PastSpan:
    """A span that is over.

    Args:
        name: Its name.
        parent: The `traceparent` of its parent.
        began_ms: When it began, in milliseconds since the epoch.
        ended_ms: When it ended.
        kind: Its kind.
        attributes: What it is about.
    """

    name: str
    parent: str
    began_ms: float
    ended_ms: float
    kind: Kind = "internal"
    attributes: Attributes = field(default_factory=dict)


class Tracer(Protocol):
    """What makes spans and sends them."""

    def span(
        self, name: str, kind: Kind, parent: str, attributes: Attributes, *, may_begin: bool
    ) -> AbstractContextManager[None]:
        """A span for the length of a `with` block; without a parent and `may_begin`, nothing."""
        ...

    def record(self, past: PastSpan) -> None:
        """Sends a span that is over."""
        ...

    def traceparent(self) -> str:
        """The present span for the header `traceparent`; empty: there is none, or it is not recorded."""
        ...

    def flush(self) -> None:
        """Sends what waits, at the end of the process; blocks for two seconds at most."""
        ...
