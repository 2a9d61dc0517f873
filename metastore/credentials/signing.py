"""Signatures of requests to Amazon's services, version 4. Pure.

Source: "Create a signed AWS API request" in Amazon's IAM guide; tests compare with its published examples.
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

_ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True)
class SigningKeys:
    """Keys that sign. It shows no secret.

    Args:
        access_key_id: The id of the key.
        secret_access_key: Signs.
        session_token: Goes with each request of temporary keys; None: they are not temporary.
    """

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)


def sign_request(
    keys: SigningKeys,
    *,
    host: str,
    headers: Mapping[str, str],
    body: bytes,
    region: str,
    service: str,
    now: dt.datetime,
) -> dict[str, str]:
    """All headers of a signed `POST /` without a query, but for `Host` and `Content-Length`.

    Args:
        keys: They sign.
        host: With the port, if it is not the scheme's own.
        headers: Headers that are signed, too.
        body: The content.
        region: The region that the service is in.
        service: The short name of the service, as `sts`.
        now: The time, in UTC.
    """
    stamp = now.strftime("%Y%m%dT%H%M%SZ")
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    signed |= {"host": host, "x-amz-date": stamp}
    if keys.session_token is not None:
        signed["x-amz-security-token"] = keys.session_token
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    text = f"{_ALGORITHM}\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = f"AWS4{keys.secret_access_key}".encode()
    for part in scope.split("/"):
        key = _hmac(key, part)
    del signed["host"]
    credential = f"{keys.access_key_id}/{scope}"
    signed["authorization"] = (
        f"{_ALGORITHM} Credential={credential}, SignedHeaders={names}, Signature={_hmac(key, text).hex()}"
    )
    return signed


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()
