"""What a proxy before an S3 server does wrong, and to which requests."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Refused:
    """An error instead of an answer.

    Args:
        status: The HTTP status.
        code: The error code in the body.
        is_done: The server does the work first.
    """

    status: int = 503
    code: str = "SlowDown"
    is_done: bool = False


@dataclass(frozen=True)
class Lost:
    """A connection that is reset instead of an answer.

    Args:
        is_done: The server does the work first.
        late_s: The server gets the request so long after the reset.
    """

    is_done: bool = False
    late_s: float | None = None


@dataclass(frozen=True)
class Cut:
    """A body that ends too early.

    Args:
        after: The bytes of the body that arrive.
        is_admitted: The answer's own length is that of the part. Otherwise the connection is reset after the part.
    """

    after: int
    is_admitted: bool = False


@dataclass(frozen=True)
class Slow:
    """An answer that takes long.

    Args:
        seconds: The pause before its headers.
        bytes_per_s: How fast its body arrives, in ten pieces a second; None: at once.
    """

    seconds: float = 0.0
    bytes_per_s: int | None = None


@dataclass(frozen=True)
class Silent:
    """A connection that stays open without an answer, until the proxy heals. The server does not get the request."""


@dataclass(frozen=True)
class Overtaken:
    """An answer that other requests overtake: it waits until so many others have been answered, or ten seconds."""

    requests: int = 2


Fault = Refused | Lost | Cut | Slow | Silent | Overtaken


@dataclass(frozen=True)
class Rule:
    """Which requests a fault strikes.

    Args:
        fault: What happens.
        methods: Of these HTTP methods, separated by spaces; empty: of any.
        target: A pattern that is found in path and query.
        first: The first matching request that it strikes, from 1.
        times: How often it strikes at most.
        share: The probability that it strikes a matching request.
    """

    fault: Fault
    methods: str = ""
    target: str = ""
    first: int = 1
    times: int | None = None
    share: float = 1.0

    def matches(self, method: str, target: str) -> bool:
        """Whether a request is one of its kind."""
        return (not self.methods or method in self.methods.split()) and re.search(self.target, target) is not None
