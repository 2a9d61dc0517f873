"""The object store's token service (STS): requests keys of a role with a policy. Blocks; threads may share it.

Each request is one `POST` in the form of Amazon's query protocol, signed by the metastore's own keys, or with the token
of its service account. Nothing of an answer but its code is shown: texts can repeat what was sent.
"""

from __future__ import annotations

import datetime as dt
import html
import http.client
import re
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlencode, urlsplit

from lakelog.client.connection.target import Target
from lakelog.errors import InvalidArgument, PermissionDenied, Unavailable

from .identity import Identity
from .sending import MOST_BYTES, send
from .signing import SigningKeys, sign_request

CREDENTIALS_UNAVAILABLE: Final = "CREDENTIALS_UNAVAILABLE"
"""The reason of an error when the token service does not answer, or not as it must."""

CREDENTIALS_REFUSED: Final = "CREDENTIALS_REFUSED"
"""The reason of an error when the token service refuses keys to the metastore itself."""

_WAIT_S: Final = 5.0
"""The limit of one request, from the first look-up of a name to the last byte."""

_FORM: Final = "application/x-www-form-urlencoded; charset=utf-8"
_CODE: Final = re.compile(r"<Code>\s*([A-Za-z0-9_.]{1,64})\s*</Code>")
_TRY_AGAIN: Final = frozenset({"Throttling", "ThrottlingException", "RequestLimitExceeded", "SlowDown"})
_SESSION: Final = re.compile(r"[^\w=,.@+-]", re.ASCII)


@dataclass(frozen=True)
class SessionKeys:
    """Keys of one session. It shows no secret.

    Args:
        keys: The keys.
        expires_at_ms: When they end, in milliseconds since the epoch, by the clock of the token service.
    """

    keys: SigningKeys = field(repr=False)
    expires_at_ms: int


class TokenService:
    """The token service of a store.

    Args:
        endpoint: `http://host:port` or `https://host:port`.
        region: For signatures.
        role: The ARN of the role whose keys are requested.
        duration_s: How long the keys last.
        read_identity: Reads the metastore's own identity.
        now: The time in UTC; only tests give another one.

    Raises:
        InvalidArgument: The endpoint is none, or plaintext would leave this machine.
    """

    def __init__(
        self,
        endpoint: str,
        region: str,
        role: str,
        duration_s: int,
        read_identity: Callable[[], Identity],
        *,
        now: Callable[[], dt.datetime] = lambda: dt.datetime.now(dt.UTC),
    ) -> None:
        self.endpoint: Final = check_endpoint(endpoint)
        self._region = region
        self._role = role
        self._duration_s = duration_s
        self._read_identity = read_identity
        self._now = now

    def request_keys(self, session: str, policy: str) -> SessionKeys:
        """Requests keys that may do what both the role and a policy allow.

        Args:
            session: For whom, so that the store's own log says it.
            policy: As `make_policy`.

        Raises:
            PermissionDenied: The token service refuses; the reason is CREDENTIALS_REFUSED.
            Unavailable: It does not answer in time, or not as it must.
            InvalidArgument: The metastore has no identity.
        """
        form = {
            "Version": "2011-06-15",
            "RoleArn": self._role,
            "RoleSessionName": to_session_name(session),
            "DurationSeconds": str(self._duration_s),
            "Policy": policy,
        }
        identity = self._read_identity()
        host = urlsplit(self.endpoint).netloc
        headers = {"Content-Type": _FORM}
        if isinstance(identity, SigningKeys):
            body = urlencode({"Action": "AssumeRole", **form}).encode()
            headers = sign_request(
                identity,
                host=host,
                headers=headers,
                body=body,
                region=self._region,
                service="sts",
                now=self._now(),
            )
        else:
            # The token itself says who it is, so nothing is signed.
            signed_in = {"Action": "AssumeRoleWithWebIdentity", "WebIdentityToken": identity.token}
            body = urlencode({**signed_in, **form}).encode()
        return self._read_keys(self._send(urllib.request.Request(f"{self.endpoint}/", body, headers)))

    def _send(self, request: urllib.request.Request) -> str:
        # A store on this machine is not reached by the proxies of the environment.
        is_direct = Target(urlsplit(self.endpoint).hostname or "", 0).is_loopback
        try:
            status, data = send(request, _WAIT_S, is_direct=is_direct)
        except urllib.error.URLError as error:
            raise self._unanswered(_describe(error.reason)) from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise self._unanswered(_describe(error)) from None
        if len(data) > MOST_BYTES:
            raise self._unanswered(f"it sends more than {MOST_BYTES} bytes")
        text = data.decode("utf-8", "replace")
        if not 200 <= status < 300:
            found = _CODE.search(text)
            raise self._refused(status, found.group(1) if found else "")
        return text

    def _read_keys(self, answer: str) -> SessionKeys:
        found = {name: _find(answer, name) for name in ("AccessKeyId", "SecretAccessKey", "SessionToken", "Expiration")}
        missing = next((name for name, value in found.items() if not value), None)
        if missing is not None:
            raise self._unanswered(f"its answer has no {missing}")
        try:
            expires = dt.datetime.fromisoformat(found["Expiration"])
        except ValueError:
            raise self._unanswered("its answer has no time of expiration") from None
        if expires.tzinfo is None:
            expires = expires.replace(tzinfo=dt.UTC)
        keys = SigningKeys(found["AccessKeyId"], found["SecretAccessKey"], found["SessionToken"])
        return SessionKeys(keys, int(expires.timestamp() * 1000))

    def _refused(self, status: int, code: str) -> PermissionDenied | Unavailable:
        shown = code or f"status {status}"
        if status >= 500 or status == 429 or code in _TRY_AGAIN:
            return self._unanswered(f"it answers with {shown}")
        return PermissionDenied(
            f"The store's token service {self.endpoint} refuses keys of the role {self._role} to the metastore "
            f"({shown}). An operator must look at the metastore's keys, at what the role trusts, and at its longest "
            "session (--vend-role, --vend-duration).",
            reason=CREDENTIALS_REFUSED,
            metadata={"endpoint": self.endpoint, "code": shown},
        )

    def _unanswered(self, problem: str) -> Unavailable:
        return Unavailable(
            f"The store's token service {self.endpoint} cannot be used: {problem}. Try again; if it stays so, an "
            "operator must look at it (--vend-endpoint).",
            reason=CREDENTIALS_UNAVAILABLE,
            metadata={"endpoint": self.endpoint},
        )


def check_endpoint(endpoint: str) -> str:
    """An endpoint without a slash at its end. Pure.

    Raises:
        InvalidArgument: It is none, or keys would leave this machine in plaintext.
    """
    parts = urlsplit(endpoint)
    try:
        parts.port  # noqa: B018  # It raises if there is a wrong one.
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.path.strip("/"):
        shown = endpoint.rpartition("@")[2][:200]
        raise InvalidArgument(
            f"The token service {shown!r} is not http://host:port or https://host:port.",
            metadata={"field": "vend-endpoint"},
        )
    if parts.scheme == "http" and not Target(parts.hostname, 0).is_loopback:
        raise InvalidArgument(
            f"The token service {endpoint[:200]} would send keys in plaintext over the network: write https://.",
            metadata={"field": "vend-endpoint", "value": endpoint[:200]},
        )
    return f"{parts.scheme}://{parts.netloc}"


def to_session_name(caller: str) -> str:
    """The name of a session for a caller, as token services take it: 64 characters of a few kinds. Pure."""
    return ("lakelog-" + _SESSION.sub("-", caller))[:64]


def _find(answer: str, name: str) -> str:
    found = re.search(rf"<{name}>\s*([^<\s]+)\s*</{name}>", answer)
    return html.unescape(found.group(1)) if found else ""


def _describe(reason: object) -> str:
    if isinstance(reason, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({reason.verify_message}); SSL_CERT_FILE names others"
    if isinstance(reason, TimeoutError):
        return f"it does not answer within {_WAIT_S:g} s"
    text = getattr(reason, "strerror", None) or type(reason).__name__
    return str(text).splitlines()[0][:200]
