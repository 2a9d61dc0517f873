"""An issuer of signed tokens for tests, with keys of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

ISSUER, AUDIENCE = "https://issuer.test/a", "lakelog-test"
NOW_S = 1_800_000_000.0

PrivateKey = Any


@cache
def rsa_key(bits: int = 2048, number: int = 0) -> PrivateKey:
    """Takes a tenth of a second, so each is made once; `number` distinguishes them."""
    return rsa.generate_private_key(65537, bits)


@cache
def key_for(algorithm: str, number: int = 0) -> PrivateKey:
    """A private key for an algorithm."""
    if algorithm == "EdDSA":
        return ed25519.Ed25519PrivateKey.generate()
    if algorithm.startswith("ES"):
        curves: dict[str, Any] = {"ES256": ec.SECP256R1, "ES384": ec.SECP384R1, "ES512": ec.SECP521R1}
        return ec.generate_private_key(curves[algorithm]())
    return rsa_key(number=number)


def to_jwk(key: PrivateKey, kid: str | None = "k1", **more: Any) -> dict[str, Any]:
    """The public half of a key, as an entry of a JWKS."""
    public = key.public_key() if hasattr(key, "public_key") else key
    kinds = {"RSA": jwt.algorithms.RSAAlgorithm, "EC": jwt.algorithms.ECAlgorithm, "Ed": jwt.algorithms.OKPAlgorithm}
    kind: Any = next(kinds[name] for name in ("RSA", "EC", "Ed") if name.lower() in type(public).__name__.lower())
    entry: dict[str, Any] = kind.to_jwk(public, as_dict=True)
    # Some algorithms of PyJWT write the operations of the key, too.
    entry.pop("key_ops", None)
    return entry | ({} if kid is None else {"kid": kid}) | more


def to_jwks(*entries: Mapping[str, Any]) -> bytes:
    return json.dumps({"keys": entries}).encode()


def to_public_pem(key: PrivateKey) -> bytes:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def to_private_pem(key: PrivateKey) -> bytes:
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem


def sign(
    key: PrivateKey,
    algorithm: str = "ES256",
    *,
    kid: str | None = "k1",
    header: Mapping[str, Any] | None = None,
    now_s: float = NOW_S,
    **claims: Any,
) -> str:
    """A token that is valid for an hour; a claim of None is left out."""
    payload = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": int(now_s) + 3600, "iat": int(now_s)} | claims
    headers = {**({} if kid is None else {"kid": kid}), **(header or {})}
    return jwt.encode(
        {name: value for name, value in payload.items() if value is not None}, key, algorithm, headers=headers
    )
