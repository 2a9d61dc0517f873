"""Reads the keys of an issuer from its URL, within bounds of time and size. Blocks."""

from __future__ import annotations

import contextlib
import http.client
import ssl
import urllib.error
import urllib.request
from typing import Any, Final
from urllib.parse import urlsplit

from lakelog.client.connection.target import Target
from lakelog.errors import InvalidArgument, Unavailable
from lakelog.serving.limited_requests import TimeLimit, open_request

from .keys import MOST_BYTES
from .rules import KeySource

TOTAL_S: Final = 10.0
"""For all that is sent and received: TLS, headers and content. A server that sends a byte now and then does not occupy
the thread for longer."""

_WAIT_S: Final = 5.0
_PART_BYTES: Final = 16 * 1024


def fetch_keys(source: KeySource) -> bytes:
    """The document at the URL of a source.

    Raises:
        Unavailable: It does not answer in time, or with another status than 200, or with too many bytes.
        InvalidArgument: The file of certificates or of the token cannot be used.
    """
    data = b""
    with contextlib.closing(TimeLimit(TOTAL_S)) as limit:
        try:
            data = _fetch(source, limit)
        except Unavailable:
            if not limit.is_over:
                raise
        # A connection that was ended can also look like the end of a complete answer.
        if limit.is_over:
            raise _unreached(source, f"it sends for longer than {TOTAL_S:g} s")
    return data


def _fetch(source: KeySource, limit: TimeLimit) -> bytes:
    url = str(source.url)
    context = _make_context(source) if url.startswith("https:") else None
    headers = {"Accept": "application/jwk-set+json, application/json"}
    if source.token_file is not None:
        headers["Authorization"] = f"Bearer {_read_token(source)}"
    try:
        with open_request(
            urllib.request.Request(url, headers=headers),
            limit,
            wait_s=_WAIT_S,
            is_direct=is_loopback(urlsplit(url).hostname),
            context=context,
        ) as response:
            if response.status != 200:
                raise _unreached(source, f"it answers with status {response.status}")
            return _read_all(response, source)
    except urllib.error.HTTPError as error:
        error.close()
        raise _unreached(source, f"it answers with status {error.code}") from None
    except urllib.error.URLError as error:
        raise _unreached(source, _describe(error.reason)) from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        raise _unreached(source, _describe(error)) from None


def is_loopback(host: str | None) -> bool:
    """Whether a host of a URL is this machine. Pure."""
    return host is not None and Target(host, 0).is_loopback


def _make_context(source: KeySource) -> ssl.SSLContext:
    if source.ca is None:
        return ssl.create_default_context()
    try:
        return ssl.create_default_context(cafile=source.ca)
    except (OSError, ssl.SSLError) as error:
        raise InvalidArgument(
            f"The certificates --token-keys-ca {source.ca} cannot be used: {_describe(error)}.",
            metadata={"field": "token-keys-ca"},
        ) from None


def _read_token(source: KeySource) -> str:
    problem = ""
    token = ""
    try:
        # Read each time: Kubernetes replaces it every hour.
        token = source.token_file.read_text("ascii").strip() if source.token_file is not None else ""
    except OSError as error:
        problem = f"{error.strerror}"
    except UnicodeDecodeError:
        problem = "it is not ASCII text"
    if not problem and (not token or not token.isprintable() or " " in token):
        problem = "it does not hold one token"
    if problem:
        raise InvalidArgument(
            f"The file --token-keys-token-file {source.token_file} cannot be used: {problem}.",
            metadata={"field": "token-keys-token-file"},
        )
    return token


def _read_all(response: Any, source: KeySource) -> bytes:
    parts: list[bytes] = []
    size = 0
    while part := response.read1(_PART_BYTES):
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            raise _unreached(source, f"it sends more than {MOST_BYTES} bytes")
    return b"".join(parts)


def _describe(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({reason.verify_message}); see --token-keys-ca"
    if isinstance(reason, TimeoutError):
        return f"it does not answer within {_WAIT_S:g} s"
    text = getattr(reason, "strerror", None) or str(reason) or type(reason).__name__
    return str(text).splitlines()[0][:200]


def _unreached(source: KeySource, problem: str) -> Unavailable:
    return Unavailable(
        f"The keys of signed tokens cannot be read from {source.url}: {problem} (--token-keys).",
        reason="TOKEN_KEYS",
        metadata={"field": "token-keys"},
    )
