"""Signed tokens: which are taken, and why each of the others is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
from typing import Any

import jwt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakelog.errors import PermissionDenied
from lakelog.serving.access import Role, SignedCaller
from lakelog.serving.signed_tokens import verification
from lakelog.serving.signed_tokens.keys import ALGORITHMS, TokenKey, parse_keys
from lakelog.serving.signed_tokens.rules import TokenRules
from lakelog.serving.signed_tokens.verification import LEEWAY_S, MOST_CHARACTERS, verify
from tests.support.issuer import AUDIENCE, ISSUER, NOW_S, key_for, sign, to_jwk, to_jwks, to_public_pem

RULES = TokenRules(ISSUER, AUDIENCE)
WITH_ROLES = TokenRules(ISSUER, AUDIENCE, role_claim="lakelog_role")
KEY = key_for("ES256")
KEYS = parse_keys(to_jwks(to_jwk(KEY)), "x")


def of(key: Any, **more: Any) -> tuple[TokenKey, ...]:
    return parse_keys(to_jwks(to_jwk(key, **more)), "x")


def take(
    token: str, keys: tuple[TokenKey, ...] = KEYS, rules: TokenRules = RULES, now_s: float = NOW_S
) -> SignedCaller:
    return verify(token, keys, rules, now_s)


def refusal(token: str, keys: tuple[TokenKey, ...] = KEYS, rules: TokenRules = RULES, now_s: float = NOW_S) -> str:
    """The field of the refusal, whose message must show no part of the token."""
    with pytest.raises(PermissionDenied) as caught:
        take(token, keys, rules, now_s)
    assert caught.value.reason == "UNAUTHENTICATED"
    for part in (token, *token.split(".")):
        assert len(part) < 8 or part not in caught.value.message
    return caught.value.metadata["field"]


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"x") -> str:
    parts = (json.dumps(header).encode(), json.dumps(claims).encode(), signature)
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_each_algorithm_with_its_key(algorithm: str) -> None:
    key = key_for(algorithm)
    token = sign(key, algorithm)
    assert take(token, of(key)) == SignedCaller("ann", None, NOW_S + 3600 + LEEWAY_S)
    assert take(token, parse_keys(to_public_pem(key), "x")).name == "ann"
    assert refusal(token, of(key_for(algorithm, 1))) == "signature", "another key of the same id"


def test_audiences_as_kubernetes_and_others_write_them() -> None:
    assert take(sign(KEY, aud=["other", AUDIENCE])).name == "ann"
    name = "system:serviceaccount:team-a:importer"
    assert take(sign(KEY, sub=name, nbf=int(NOW_S), header={"typ": ""})).name == name
    assert take(sign(KEY, header={"typ": "at+JWT"})).name == "ann"


def test_names_and_roles() -> None:
    rules = TokenRules(ISSUER, AUDIENCE, name_claim="email", role_claim="lakelog_role")
    assert take(sign(KEY, email="ann@x.test", lakelog_role="writer"), rules=rules) == SignedCaller(
        "ann@x.test", Role.WRITER, NOW_S + 3600 + LEEWAY_S
    )
    assert take(sign(KEY, email="a@x.test", email_verified=True), rules=rules).role is None
    assert refusal(sign(KEY, email="a@x.test", email_verified=False), rules=rules) == "email"
    assert refusal(sign(KEY, email="a@x.test", email_verified="true"), rules=rules) == "email"
    for role in ("boss", 3, "", ["admin"], "ADMIN"):
        assert refusal(sign(KEY, lakelog_role=role), rules=WITH_ROLES) == "lakelog_role"
    for name in (None, "", "a b", "a\nb", "a" * 241, "ä", "a'b", "a,b"):
        assert refusal(sign(KEY, email=name), rules=rules) == "email"
    assert take(sign(KEY, lakelog_role="admin")).role is None, "a server without such a claim gives no role"


@pytest.mark.parametrize(
    ("claims", "field"),
    [
        ({"exp": None}, "exp"),
        ({"exp": int(NOW_S - LEEWAY_S)}, "exp"),
        ({"exp": "2200000000"}, "exp"),
        ({"exp": True}, "exp"),
        ({"exp": 10**400}, "exp"),
        ({"exp": [1]}, "exp"),
        ({"nbf": int(NOW_S + LEEWAY_S) + 1}, "nbf"),
        ({"nbf": "now"}, "nbf"),
        ({"iat": int(NOW_S + LEEWAY_S) + 1}, "iat"),
        ({"iss": None}, "iss"),
        ({"iss": f"{ISSUER}/"}, "iss"),
        ({"iss": "https://issuer.test/b"}, "iss"),
        ({"aud": None}, "aud"),
        ({"aud": []}, "aud"),
        ({"aud": f"{AUDIENCE}-2"}, "aud"),
        ({"aud": [f"{AUDIENCE}-2", {}]}, "aud"),
        ({"aud": {AUDIENCE: 1}}, "aud"),
    ],
)
def test_a_claim_that_is_wrong(claims: dict[str, Any], field: str) -> None:
    try:
        token = sign(KEY, **claims)
    except TypeError:
        # PyJWT does not issue such a token itself.
        token = _sign_payload(claims)
    assert refusal(token) == field
    assert take(sign(KEY)).name == "ann", "control: the same token with right claims"


def _sign_payload(claims: dict[str, Any]) -> str:
    payload = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": int(NOW_S) + 60} | claims
    payload = {name: value for name, value in payload.items() if value is not None}
    return jwt.PyJWS().encode(json.dumps(payload).encode(), KEY, "ES256", headers={"kid": "k1"})


def test_messages_name_what_is_expected_and_no_value_of_the_token() -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"iss": "https://canary.test"}, f"not from the issuer {ISSUER}"),
        ({"aud": "canary"}, f"not for the audience {AUDIENCE}"),
        ({"exp": 1}, "has expired"),
        ({"nbf": int(NOW_S) + 600}, "not valid yet"),
        ({"sub": "canary name"}, "no usable name"),
    ]
    for claims, words in cases:
        with pytest.raises(PermissionDenied, match=words) as caught:
            take(sign(KEY, **claims))
        assert "canary" not in str(caught.value) + repr(caught.value.metadata)


def test_the_clocks_may_differ_a_little() -> None:
    token = sign(KEY, nbf=int(NOW_S), iat=int(NOW_S))
    assert take(token, now_s=NOW_S - LEEWAY_S).name == "ann"
    assert refusal(token, now_s=NOW_S - LEEWAY_S - 1) == "nbf"
    assert take(token, now_s=NOW_S + 3600 + LEEWAY_S - 1).name == "ann"
    assert refusal(token, now_s=NOW_S + 3600 + LEEWAY_S) == "exp"


CLAIMS = {"iss": ISSUER, "aud": AUDIENCE, "sub": "ann", "exp": int(NOW_S) + 60}


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", "", None, 7, ["ES256"], "HS256", "ES512", "ES256K"])
def test_another_algorithm(algorithm: Any) -> None:
    assert refusal(unsigned({"alg": algorithm, "kid": "k1"}, CLAIMS)) == "alg"


@pytest.mark.parametrize("signature", ["", "."])
def test_no_signature(signature: str) -> None:
    head, payload, _ = unsigned({"alg": "none"}, CLAIMS).split(".")
    assert refusal(f"{head}.{payload}.{signature}") == "token"


@pytest.mark.parametrize("algorithm", ["HS256", "HS384", "HS512"])
def test_a_public_key_is_no_secret_of_an_hmac(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    key = key_for("RS256")
    pem = to_public_pem(key)
    signed = unsigned({"alg": algorithm, "kid": "k1"}, CLAIMS).rpartition(".")[0]
    digest = hmac.new(pem, signed.encode(), algorithm.replace("HS", "sha")).digest()
    token = f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
    for keys in (of(key), parse_keys(pem, "x")):
        assert refusal(token, keys) == "alg"
    # Control: a server that believes the token's algorithm takes it.
    monkeypatch.setattr(verification, "ALGORITHMS", (*ALGORITHMS, algorithm))
    monkeypatch.setattr(verification, "_SIGNATURES", jwt.PyJWS())
    monkeypatch.setattr(jwt.algorithms.HMACAlgorithm, "prepare_key", lambda self, key: pem)
    believing = tuple(TokenKey(each.kid, frozenset({algorithm}), each.key) for each in of(key))
    assert take(token, believing).name == "ann"


def test_an_algorithm_of_another_type_of_key() -> None:
    assert refusal(sign(key_for("RS256"), "RS256"), KEYS) == "alg"
    assert refusal(sign(key_for("EdDSA"), "EdDSA"), of(key_for("RS256"))) == "alg"
    limited = of(key_for("RS256"), alg="RS256")
    assert take(sign(key_for("RS256"), "RS256"), limited).name == "ann"
    assert refusal(sign(key_for("RS256"), "RS512"), limited) == "alg", "a key that says its algorithm is held to it"
    assert take(sign(key_for("RS256"), "RS512"), of(key_for("RS256"))).name == "ann", "control"


def test_keys_are_found_by_id() -> None:
    other = key_for("ES256", 1)
    keys = parse_keys(to_jwks(to_jwk(KEY, "k1"), to_jwk(other, "k2"), to_jwk(key_for("EdDSA"), "k1")), "x")
    assert take(sign(KEY, kid="k1"), keys).name == take(sign(other, kid="k2"), keys).name == "ann"
    assert take(sign(key_for("EdDSA"), "EdDSA", kid="k1"), keys).name == "ann", "one id, two types"
    assert refusal(sign(KEY, kid="k2"), keys) == "signature", "the id of another key of the set"
    assert refusal(sign(KEY, kid="k3"), keys) == "kid"
    assert take(sign(other, kid=None), keys).name == "ann", "without an id, those that fit are tried"
    assert refusal(sign(key_for("ES256", 2), kid=None), keys) == "signature"
    many = tuple(TokenKey(f"k{number}", key.algorithms, key.key) for number in range(9) for key in KEYS)
    assert refusal(sign(KEY, kid=None), many) == "kid", "but not too many"
    strange: list[Any] = [7, ["k1"], {}]
    for kid in strange:
        assert refusal(unsigned({"alg": "ES256", "kid": kid}, CLAIMS)) == "token"


def test_what_a_header_says_of_keys_is_ignored() -> None:
    stranger = key_for("ES256", 5)
    offers: dict[str, Any] = {
        "jwk": to_jwk(stranger),
        "jku": "http://127.0.0.1:1/keys",
        "x5u": "http://127.0.0.1:1/cert",
        "x5c": ["aaaa"],
    }
    for name, value in offers.items():
        assert refusal(sign(stranger, header={name: value})) == "signature"
        assert take(sign(KEY, header={name: value})).name == "ann"


def test_extensions_and_other_types_of_tokens() -> None:
    assert refusal(unsigned({"alg": "ES256", "crit": ["exp"], "exp": 1}, CLAIMS)) in ("crit", "token")
    assert refusal(_signed_with({"crit": ["b64"], "b64": True})) in ("crit", "token")
    for kind in ("logout+jwt", "dpop+jwt", 7, "JWE"):
        assert refusal(unsigned({"alg": "ES256", "kid": "k1", "typ": kind}, CLAIMS)) == "typ"


def _signed_with(header: dict[str, Any]) -> str:
    head, payload, _ = unsigned({"alg": "ES256", "kid": "k1", **header}, CLAIMS).split(".")
    signature = hashlib.sha256(payload.encode()).hexdigest()
    return f"{head}.{payload}.{signature}"


@pytest.mark.parametrize(
    "token",
    ["a.b.c", "..", "a.b", "a.b.c.d", "a.b.c.d.e", "e30.e30.e30", "!!.!!.!!", "eyJhbGciOiJFUzI1NiJ9.e30.", "é.é.é"],
)
def test_no_token_at_all(token: str) -> None:
    assert refusal(token) in ("token", "alg")


def test_a_token_that_is_too_long_is_not_read() -> None:
    assert take(sign(KEY, pad="x" * 4000)).name == "ann"
    token = sign(KEY, pad="x" * MOST_CHARACTERS)
    assert refusal(token) == "token"
    assert refusal("a" * 100_000) == "token"


def test_deep_and_strange_payloads() -> None:
    for payload in (b"[" * 3000, b'{"a":' * 900, b"null", b"7", b"[]", b"\xff\xfe", b'{"exp":NaN}'):
        token = jwt.PyJWS().encode(payload, KEY, "ES256", headers={"kid": "k1"})
        assert refusal(token) in ("token", "iss")


TOKENS = {
    algorithm: (sign(key_for(algorithm), algorithm), of(key_for(algorithm)))
    for algorithm in ALGORITHMS[:1] + ALGORITHMS[6:]
}


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(TOKENS)), st.integers(0, 10_000), st.integers(0, 7))
def test_any_flipped_bit_refuses_a_token(algorithm: str, place: int, bit: int) -> None:
    token, keys = TOKENS[algorithm]
    data = bytearray(token.encode())
    data[place % len(data)] ^= 1 << bit
    refusal(data.decode("latin-1"), keys)


def test_control_without_the_signature_a_changed_token_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = verification._SIGNATURES.decode_complete

    def read(token: str, **_: object) -> object:
        return decode(token, options={"verify_signature": False})

    monkeypatch.setattr(verification._SIGNATURES, "decode_complete", read)
    token = sign(KEY)
    assert take(f"{token[:-20]}{'A' * 20}").name == take(sign(key_for("ES256", 9), sub="ann")).name == "ann"


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=200) | st.from_regex(r"\A[A-Za-z0-9_-]{1,60}\.[A-Za-z0-9_-]{1,60}\.[A-Za-z0-9_-]{1,60}\Z"))
def test_any_text_is_refused(text: str) -> None:
    refusal(text)
