"""Sets of keys: which keys of them are used, and which sets are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from lakelog.errors import InvalidArgument
from lakelog.serving.signed_tokens.keys import MOST_BYTES, parse_keys
from tests.support.issuer import key_for, rsa_key, to_jwk, to_jwks, to_private_pem, to_public_pem

RSA, EC = to_jwk(key_for("RS256"), "r"), to_jwk(key_for("ES256"), "e")


def test_keys_for_other_things_are_left_out() -> None:
    odd: list[Any] = [
        {"kty": "oct", "k": "c2VjcmV0", "kid": "h"},
        {"kty": "unheard", "kid": "u"},
        to_jwk(key_for("ES512"), "p521"),
        to_jwk(key_for("RS256"), "enc", use="enc"),
        to_jwk(key_for("RS256"), "ops", key_ops=["wrapKey"]),
        to_jwk(key_for("RS256"), "oaep", alg="RSA-OAEP"),
        to_jwk(key_for("RS256"), "hmac", alg="HS256"),
        to_jwk(key_for("RS256"), "curve", alg="ES256"),
        to_jwk(rsa_key(1024), "short"),
        EC | {"kid": "damaged", "x": "AAAA"},
        EC | {"kid": 7},
        "text",
    ]
    found = parse_keys(to_jwks(*odd, RSA, EC, EC), "x")
    assert [(key.kid, sorted(key.algorithms)) for key in found] == [
        ("r", ["PS256", "PS384", "PS512", "RS256", "RS384", "RS512"]),
        ("e", ["ES256"]),
    ]
    for entry in odd:
        with pytest.raises(InvalidArgument, match="has no key for signatures among its 1 keys: "):
            parse_keys(to_jwks(entry), "x")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "neither JSON"),
        (b"\xff", "neither JSON"),
        (b"[" * 100_000, "neither JSON"),
        (b"[]", "no list `keys`"),
        (b'{"keys": 7}', "no list `keys`"),
        (to_jwks(*([RSA] * 101)), "101 keys; 100 is the limit"),
        (b" " * (MOST_BYTES + 1), f"{MOST_BYTES} is the limit"),
        (to_jwks(RSA, to_jwk(rsa_key(number=1), "r")), "two keys with the kid 'r'"),
        (to_jwks(RSA | {"d": "AAAA"}), "has a private key"),
        (to_private_pem(key_for("ES256")), "block PRIVATE KEY"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "damaged key"),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n", "no complete block"),
        (to_public_pem(rsa_key(1024)), "2048 to 8192 bits but 1024"),
        (to_public_pem(key_for("ES512")), "another curve"),
        (to_public_pem(key_for("ES256")) * 9, "9 keys; 8 is the limit"),
    ],
)
def test_sets_that_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as caught:
        parse_keys(data, "the file /k")
    assert "the file /k" in caught.value.message
    assert "AAAA" not in caught.value.message


def test_an_empty_set_has_no_keys() -> None:
    assert parse_keys(b'{"keys": []}', "x") == ()
    # Control: what is damaged is not taken for it.
    for damaged in (b"", b"{}", b'{"keys": null}', b'{"keys": {}}', b'{"keys": [{}]}', b'{"keys": [[]]}'):
        with pytest.raises(InvalidArgument):
            parse_keys(damaged, "x")


def test_the_same_id_of_keys_of_two_types_is_certain() -> None:
    assert len(parse_keys(to_jwks(RSA, EC | {"kid": "r"}), "x")) == 2
    assert len(parse_keys(to_public_pem(key_for("RS256")) + to_public_pem(key_for("ES256")), "x")) == 2


def test_no_repr_shows_a_key() -> None:
    assert json.loads(to_jwks(EC))["keys"][0]["x"] not in repr(parse_keys(to_jwks(EC), "x"))
