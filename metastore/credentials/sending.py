"""One HTTP request to the token service, which ends in time whatever the other side does. Blocks.

One limit holds for names, connection, headers and body together. When it is over the connection is cut, so that the
thread that is left ends, too.
"""

from __future__ import annotations

import urllib.request
from contextlib import closing
from http.client import HTTPException
from typing import Final
from urllib.error import HTTPError

from lakelog.serving.limited_requests import TimeLimit, open_request
from lakelog.storage.objects.calls import Calls, NoAnswerError

MOST_BYTES: Final = 64 * 1024
"""The longest answer; one with keys has some 2 KB."""

_CALLS: Final = Calls()
"""Threads of its own: those of the object store may all be left without an answer."""


def send(request: urllib.request.Request, timeout_s: float, *, is_direct: bool) -> tuple[int, bytes]:
    """Sends a request, and returns the status and at most `MOST_BYTES` + 1 bytes of the answer.

    Args:
        request: What is sent.
        timeout_s: The limit for all of it.
        is_direct: Whether it passes by the proxies that the environment names.

    Raises:
        TimeoutError: There is no whole answer in time.
        OSError: The connection fails.
        HTTPException: The answer is not HTTP.
        ValueError: The same.
    """
    limit = TimeLimit(timeout_s)

    def work() -> tuple[int, bytes]:
        try:
            with open_request(request, limit, wait_s=timeout_s, is_direct=is_direct) as response:
                return response.status, response.read(MOST_BYTES + 1)
        except HTTPError as error:
            with error:
                return error.code, error.read(MOST_BYTES + 1)

    with closing(limit):
        try:
            answer = _CALLS.run(work, timeout_s)
        except (NoAnswerError, OSError, HTTPException, ValueError) as error:
            if isinstance(error, NoAnswerError):
                # The thread that is left ends with its connection.
                limit.end()
            if limit.is_over:
                raise TimeoutError from None
            raise
        if limit.is_over:
            raise TimeoutError
    return answer
