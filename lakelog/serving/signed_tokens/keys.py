"""The public keys with which an issuer's tokens are verified, out of a JWKS or a PEM file. Pure.

Each key says which algorithms it verifies. They follow from its type alone (and from its `alg`, if it has one), never
from a token. So no token can have a public key taken for the secret of an HMAC.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, SECP384R1, EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from lakelog.errors import InvalidArgument

_RSA: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512")
ALGORITHMS: Final = (*_RSA, "ES256", "ES384", "EdDSA")
"""All algorithms that a token may be signed with."""

MOST_KEYS: Final = 100
"""Keys of a set. Issuers have two to five."""

MOST_FITTING: Final = 8
"""Keys that are tried for a token that does not name its key: each costs a signature check."""

MOST_BYTES: Final = 256 * 1024
"""The size of a set of keys."""

_MIN_RSA_BITS: Final = 2048
_MAX_RSA_BITS: Final = 8192
"""Larger ones make each signature check expensive."""

_PEM: Final = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.*?-----END \1-----", re.DOTALL)
_PUBLIC: Final = (b"PUBLIC KEY", b"RSA PUBLIC KEY")

PublicKey = RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey


@dataclass(frozen=True)
class TokenKey:
    """A key of an issuer.

    Args:
        kid: Its id, which a token's header names; None: it has none, and any token may be tried with it.
        algorithms: What it verifies.
        key: The key.
    """

    kid: str | None
    algorithms: frozenset[str]
    key: PublicKey = field(repr=False)


def parse_keys(data: bytes, source: str) -> tuple[TokenKey, ...]:
    """Reads a JWKS (JSON) or public keys in PEM format. Keys for other uses or of other types are left out.

    Args:
        data: The content.
        source: Where it is from, for messages.

    Returns:
        The keys; none if the list of a JWKS is empty: so an issuer takes all of its tokens back at once.

    Raises:
        InvalidArgument: It is neither, is too large, has no key of use, has a private key, or has two keys that a token
            could mean by the same id. Messages show no part of the content except ids of keys.
    """
    if len(data) > MOST_BYTES:
        raise _unusable(source, f"has {len(data)} bytes; {MOST_BYTES} is the limit")
    keys = _parse_pem(data, source) if b"-----BEGIN " in data else _parse_set(data, source)
    for number, key in enumerate(keys):
        for other in keys[:number]:
            if key.kid is not None and key.kid == other.kid and key.algorithms & other.algorithms:
                raise _unusable(source, f"has two keys with the kid {key.kid!r:.80}, so that a token's is not certain")
    return keys


def _parse_pem(data: bytes, source: str) -> tuple[TokenKey, ...]:
    found: list[TokenKey] = []
    for match in _PEM.finditer(data):
        if match[1] not in _PUBLIC:
            what = match[1].decode()
            raise _unusable(source, f"has a block {what}. Give blocks PUBLIC KEY alone, and keep private keys away")
        try:
            key = load_pem_public_key(match[0])
        except (ValueError, TypeError, UnsupportedAlgorithm):
            raise _unusable(source, f"has a damaged key (block {len(found) + 1})") from None
        algorithms, problem = _algorithms_of(key)
        if problem:
            raise _unusable(source, f"has a key that cannot be used (block {len(found) + 1}): {problem}")
        assert isinstance(key, RSAPublicKey | EllipticCurvePublicKey | Ed25519PublicKey)
        found.append(TokenKey(None, algorithms, key))
    if not found:
        raise _unusable(source, "has no complete block PUBLIC KEY")
    if len(found) > MOST_FITTING:
        remedy = "Give the ones in use, or a JWKS, whose keys have ids"
        raise _unusable(source, f"has {len(found)} keys; {MOST_FITTING} is the limit without ids. {remedy}")
    return tuple(found)


def _parse_set(data: bytes, source: str) -> tuple[TokenKey, ...]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise _unusable(source, "is neither JSON (a JWKS) nor in PEM format") from None
    entries = document.get("keys") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise _unusable(source, "has no list `keys`, so it is no JWKS")
    if not entries:
        return ()
    if len(entries) > MOST_KEYS:
        raise _unusable(source, f"has {len(entries)} keys; {MOST_KEYS} is the limit")
    found: list[TokenKey] = []
    problems: list[str] = []
    seen: list[Any] = []
    for entry in entries:
        if entry in seen:
            continue
        seen.append(entry)
        if isinstance(entry, dict) and entry.get("kty") in ("RSA", "EC", "OKP") and "d" in entry:
            raise _unusable(source, "has a private key. Publish public keys alone, and replace that key: it has leaked")
        key, problem = _parse_key(entry)
        if key is None:
            problems.append(problem)
        else:
            found.append(key)
    if not found:
        raise _unusable(source, f"has no key for signatures among its {len(entries)} keys: {problems[0]}")
    return tuple(found)


def _parse_key(entry: Any) -> tuple[TokenKey | None, str]:
    """A key of a JWKS, or why it is left out."""
    if not isinstance(entry, dict):
        return None, "a key is no JSON object"
    kind, use, operations = entry.get("kty"), entry.get("use", "sig"), entry.get("key_ops", ["verify"])
    if kind not in ("RSA", "EC", "OKP"):
        return None, "a key is of another type than RSA, EC and OKP (kty)"
    if use != "sig" or not isinstance(operations, list) or "verify" not in operations:
        return None, "a key is for another use (use, key_ops)"
    kid, algorithm = entry.get("kid"), entry.get("alg")
    if kid is not None and not isinstance(kid, str):
        return None, "the id of a key is no text (kid)"
    if algorithm is not None and algorithm not in ALGORITHMS:
        return None, f"a key is for another algorithm than {', '.join(ALGORITHMS)} (alg)"
    try:
        # Without an algorithm, PyJWT takes one that fits the type and the curve.
        key = jwt.PyJWK(entry).key
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, UnsupportedAlgorithm):
        return None, "a key is damaged"
    algorithms, problem = _algorithms_of(key)
    if problem:
        return None, problem
    if algorithm is not None and algorithm not in algorithms:
        return None, "the algorithm of a key does not fit its type (alg)"
    return TokenKey(kid, algorithms if algorithm is None else frozenset({algorithm}), key), ""


def _algorithms_of(key: object) -> tuple[frozenset[str], str]:
    """What a key verifies, or why it cannot be used."""
    if isinstance(key, RSAPublicKey):
        if not _MIN_RSA_BITS <= key.key_size <= _MAX_RSA_BITS:
            return frozenset(), f"an RSA key has not {_MIN_RSA_BITS} to {_MAX_RSA_BITS} bits but {key.key_size}"
        return frozenset(_RSA), ""
    if isinstance(key, EllipticCurvePublicKey):
        if isinstance(key.curve, SECP256R1):
            return frozenset({"ES256"}), ""
        if isinstance(key.curve, SECP384R1):
            return frozenset({"ES384"}), ""
        return frozenset(), "a key has another curve than P-256 and P-384"
    if isinstance(key, Ed25519PublicKey):
        return frozenset({"EdDSA"}), ""
    return frozenset(), "a key is of another type than RSA, EC and Ed25519"


def _unusable(source: str, problem: str) -> InvalidArgument:
    return InvalidArgument(f"The keys of {source} cannot be used: it {problem}.", metadata={"field": "token-keys"})
