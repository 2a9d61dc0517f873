"""Verifies a signed token: its form, its signature, and what it claims. Pure.

Invariants:

1. The algorithm is one of `keys.ALGORITHMS`, and one of the key's own: never `none`, never an HMAC.
2. A key comes from the configured set alone. Whatever a token's header says about keys (`jwk`, `jku`, `x5u`, `x5c`) is
   ignored, except the id of a key in the set.
3. Claims are read after the signature is verified.
4. A message names the claim and what the server expects, which is no secret. It shows no part of the token.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm

from lakelog.client.connection.status import UNAUTHENTICATED
from lakelog.errors import PermissionDenied
from lakelog.serving.access import SIGNED_NAME, Role, SignedCaller

from .keys import ALGORITHMS, MOST_FITTING, TokenKey
from .rules import TokenRules

MOST_CHARACTERS: Final = 8192
"""Of a token. It must fit into the headers of a call, for which gRPC has 16 KiB."""

LEEWAY_S: Final = 60.0
"""How far the clocks of the issuer and of this machine may differ."""

UNKNOWN_KEY: Final = "kid"
"""The field of a refusal because no key has the id that a token names."""

_FORM: Final = re.compile(r"[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_TYPES: Final = ("", "jwt", "at+jwt", "application/at+jwt")
"""Tokens with other types are not for callers: an issuer signs logout tokens, too, for instance."""

# It knows no other algorithm, so no option of a call can add one.
_SIGNATURES: Final = jwt.PyJWS(algorithms=ALGORITHMS)


def verify(token: str, keys: Sequence[TokenKey], rules: TokenRules, now_s: float) -> SignedCaller:
    """Who a token says the caller is.

    Args:
        token: What the caller has sent.
        keys: The keys of the issuer.
        rules: What is expected.
        now_s: The time, in seconds since 1970.

    Raises:
        PermissionDenied: With the reason UNAUTHENTICATED; `field` in its metadata is the claim or part of the header.
    """
    return _check_claims(_verify_signature(token, keys), rules, now_s)


def _verify_signature(token: str, keys: Sequence[TokenKey]) -> Mapping[str, Any]:
    if len(token) > MOST_CHARACTERS:
        raise _refused(
            "token", f"The signed token is longer than {MOST_CHARACTERS} characters. Let it have fewer claims."
        )
    if not _FORM.fullmatch(token):
        raise _malformed()
    try:
        header = _SIGNATURES.get_unverified_header(token)
    except (jwt.PyJWTError, ValueError):
        raise _malformed() from None
    if "crit" in header or "b64" in header:
        raise _refused("crit", "The signed token needs an extension (crit, b64), and this server knows none.")
    kind = header.get("typ", "")
    if not isinstance(kind, str) or kind.lower() not in _TYPES:
        raise _refused("typ", "The signed token is of another type (typ) than JWT. Send an access token.")
    algorithm = header.get("alg")
    if algorithm not in ALGORITHMS:
        raise _refused("alg", f"The signed token has an algorithm (alg) that is not one of {', '.join(ALGORITHMS)}.")
    for key in _fitting(keys, header.get("kid"), algorithm):
        try:
            verified = _SIGNATURES.decode_complete(token, key=key.key, algorithms=[algorithm])
        except (jwt.PyJWTError, ValueError, TypeError, UnsupportedAlgorithm):
            continue
        return _read_claims(verified["payload"])
    raise _refused("signature", "The signature of the token is wrong. Was it changed, or signed by another issuer?")


def _fitting(keys: Sequence[TokenKey], kid: str | None, algorithm: str) -> Sequence[TokenKey]:
    named = [key for key in keys if kid is None or key.kid is None or key.kid == kid]
    if not named:
        raise _refused(
            UNKNOWN_KEY,
            "The signed token names a key (kid) that its issuer does not publish, or not yet, or no longer.",
        )
    fitting = [key for key in named if algorithm in key.algorithms]
    if not fitting:
        raise _refused("alg", "The signed token has an algorithm (alg) that its key (kid) is not for.")
    if len(fitting) > MOST_FITTING:
        raise _refused(UNKNOWN_KEY, "The signed token names no key (kid), and its issuer has too many to try them all.")
    return fitting


def _read_claims(payload: bytes) -> Mapping[str, Any]:
    try:
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        raise _malformed() from None
    if not isinstance(claims, dict):
        raise _malformed()
    return claims


def _check_claims(claims: Mapping[str, Any], rules: TokenRules, now_s: float) -> SignedCaller:
    issuer = claims.get("iss")
    if issuer != rules.issuer:
        raise _refused(
            "iss", f"The signed token is not from the issuer {rules.issuer} (iss), which this server trusts."
        )
    audience = claims.get("aud")
    if rules.audience not in (audience if isinstance(audience, list) else [audience]):
        raise _refused(
            "aud", f"The signed token is not for the audience {rules.audience} (aud), so not for this server."
        )
    expires_s = _time(claims, "exp")
    if expires_s is None:
        raise _refused("exp", "The signed token has no expiry (exp). Have it issued with one.")
    until_s = expires_s + LEEWAY_S
    if now_s >= until_s:
        raise _refused("exp", "The signed token has expired (exp). Get a new one, and reconnect with it.")
    for claim in ("nbf", "iat"):
        begins_s = _time(claims, claim)
        if begins_s is not None and begins_s > now_s + LEEWAY_S:
            raise _refused(
                claim, f"The signed token is not valid yet ({claim}). Do the clocks of issuer and metastore agree?"
            )
    return SignedCaller(_name(claims, rules.name_claim), _role(claims, rules.role_claim), until_s)


def _time(claims: Mapping[str, Any], claim: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    try:
        time_s = math.nan if isinstance(value, bool) or not isinstance(value, int | float) else float(value)
    except OverflowError:
        time_s = math.inf
    if not math.isfinite(time_s):
        raise _refused(claim, f"The signed token has a time that is no number ({claim}).")
    return time_s


def _name(claims: Mapping[str, Any], claim: str) -> str:
    name = claims.get(claim)
    if not isinstance(name, str) or not SIGNED_NAME.fullmatch(name):
        raise _refused(
            claim, f"The signed token has no usable name ({claim}): 1 to 240 of A-Z a-z 0-9 _ . @ : | / + = ~ -."
        )
    if claim == "email" and claims.get("email_verified", True) is not True:
        raise _refused(claim, "The signed token names a caller by an address that its issuer has not verified (email).")
    return name


def _role(claims: Mapping[str, Any], claim: str | None) -> Role | None:
    name = None if claim is None else claims.get(claim)
    if name is None:
        return None
    role = next((role for role in Role if role.name.lower() == name), None)
    if role is None:
        raise _refused(str(claim), f"The signed token has a role ({claim}) that is not user, reader, writer or admin.")
    return role


def _malformed() -> PermissionDenied:
    return _refused("token", "The token is not known here, and it is no signed token (JWT) that can be read.")


def _refused(field: str, message: str) -> PermissionDenied:
    return PermissionDenied(message, reason=UNAUTHENTICATED, metadata={"field": field})
