"""Verified tokens are held: how long, how many, and which never are."""

from __future__ import annotations

from typing import Any

import pytest

from lakelog.errors import InvalidArgument, PermissionDenied, Unavailable
from lakelog.serving.access import Access, Caller, Role, parse_token_file
from lakelog.serving.signed_tokens import failures, signed_tokens
from lakelog.serving.signed_tokens.keys import parse_keys
from lakelog.serving.signed_tokens.rules import TokenRules
from lakelog.serving.signed_tokens.signed_tokens import SignedTokens
from lakelog.serving.signed_tokens.verification import LEEWAY_S, verify
from tests.support.issuer import AUDIENCE, ISSUER, NOW_S, key_for, sign, to_jwk, to_jwks

KEY = key_for("ES256")
RULES = TokenRules(ISSUER, AUDIENCE, role_claim="role")


class Tokens:
    """Signed tokens under a clock of their own, which counts how often a token is verified."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, capacity: int = 100) -> None:
        self.now_s = NOW_S
        self.verified = 0
        self.missed = 0
        self.tokens = SignedTokens(RULES, lambda: self.now_s, capacity=capacity)
        self.tokens.on_unknown_key = self._miss
        self.tokens.use_keys(parse_keys(to_jwks(to_jwk(KEY)), "x"))

        def count(*arguments: Any) -> object:
            self.verified += 1
            return verify(*arguments)

        monkeypatch.setattr(signed_tokens, "verify", count)

    def _miss(self) -> None:
        self.missed += 1


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Tokens:
    return Tokens(monkeypatch)


def test_a_token_is_verified_once(made: Tokens) -> None:
    token = sign(KEY)
    assert {made.tokens.recognize(token).name for _ in range(5)} == {"ann"}
    assert made.verified == 1


def test_a_held_token_ends(made: Tokens) -> None:
    token = sign(KEY)
    made.tokens.recognize(token)
    made.now_s += 3600 + LEEWAY_S - 1
    made.tokens.recognize(token)
    assert made.verified == 1
    made.now_s += 1
    for _ in range(2):
        with pytest.raises(PermissionDenied, match="has expired"):
            made.tokens.recognize(token)
    assert made.tokens.held_count == 0


def test_a_change_of_keys_ends_what_is_held(made: Tokens) -> None:
    token = sign(KEY)
    made.tokens.recognize(token)
    made.tokens.use_keys(parse_keys(to_jwks(to_jwk(key_for("ES256", 1))), "x"))
    with pytest.raises(PermissionDenied, match="signature"):
        made.tokens.recognize(token)


def test_garbage_fills_nothing(made: Tokens) -> None:
    token = sign(KEY)
    made.tokens.recognize(token)
    stranger = key_for("ES256", 1)
    for number in range(300):
        with pytest.raises(PermissionDenied):
            made.tokens.recognize(sign(stranger, sub=f"x{number}", kid="k1" if number % 2 else f"k{number}"))
    assert made.tokens.held_count == 1
    assert made.missed == 150, "each unknown key is reported; who fetches keys bounds how often"
    before = made.verified
    made.tokens.recognize(token)
    assert made.verified == before


def test_wrong_tokens_of_an_address_are_checked_only_so_often(made: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    held, honest, stranger = sign(KEY), sign(KEY, sub="bob"), key_for("ES256", 1)
    made.tokens.recognize(held, "10.0.0.1")
    before = made.verified
    wrong = (sign(stranger, sub=f"x{number}") for number in range(10_000))

    def send(count: int) -> list[str]:
        reasons = []
        for _ in range(count):
            with pytest.raises((PermissionDenied, Unavailable)) as caught:
                made.tokens.recognize(next(wrong), "10.0.0.1")
            reasons.append(caught.value.reason)
        return reasons

    most = int(failures.BURST)
    assert send(most + 20) == ["UNAUTHENTICATED"] * most + ["TOO_MANY_CALLS"] * 20
    assert made.verified == before + most
    assert made.tokens.recognize(held, "10.0.0.1").name == "ann", "a token that was verified is not concerned"
    with pytest.raises(Unavailable, match=r"10\.0\.0\.1 sends more than 50 wrong signed tokens a second"):
        made.tokens.recognize(honest, "10.0.0.1")
    assert made.tokens.recognize(honest, "10.0.0.2").name == "bob", "nor are other addresses"
    made.now_s += 1
    assert send(60) == ["UNAUTHENTICATED"] * int(failures.RATE) + ["TOO_MANY_CALLS"] * 10
    # Control.
    monkeypatch.setattr(failures.FailedChecks, "check", lambda *_: None)
    assert send(100) == ["UNAUTHENTICATED"] * 100


def test_a_key_that_is_not_known_counts_as_no_failure(made: Tokens) -> None:
    stranger = key_for("ES256", 1)
    for number in range(int(failures.BURST) + 50):
        with pytest.raises(PermissionDenied, match="names a key"):
            made.tokens.recognize(sign(stranger, sub=f"x{number}", kid="new"), "10.0.0.1")


def test_failures_of_many_addresses_take_bounded_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "MOST_ADDRESSES", 3)
    failed = failures.FailedChecks(lambda: 0.0)
    for number in range(10):
        failed.note(f"10.0.0.{number}")
    assert failed.count == 3


def test_what_is_recalled_is_never_verified(made: Tokens) -> None:
    listed = parse_token_file(f"eve reader {'t' * 20}\n", "tokens")
    access = Access(tokens=listed.tokens, signed_tokens=made.tokens)
    header = f"Bearer {sign(KEY)}"
    assert access.recall(header) is None
    assert made.verified == 0
    found = access.recognize(header, None)
    assert access.recall(header) == found
    assert access.recall(f"Bearer {'t' * 20}") == Caller("eve", Role.READER)
    for other in ("", "Bearer", f"Basic {'t' * 20}", f"Bearer {'u' * 20}"):
        assert access.recall(other) is None
    made.now_s += 3600 + LEEWAY_S
    assert access.recall(header) is None, "it has ended"
    assert made.verified == 1


def test_a_refusal_is_repeated_without_another_check_for_a_second(made: Tokens) -> None:
    early = sign(KEY, nbf=int(NOW_S + LEEWAY_S) + 1)
    for _ in range(3):
        with pytest.raises(PermissionDenied, match="not valid yet"):
            made.tokens.recognize(early)
    assert made.verified == 1
    made.now_s += 1
    assert made.tokens.recognize(early).name == "ann"


def test_the_room_is_bounded_by_what_is_used_least(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Tokens(monkeypatch, capacity=3)
    tokens = [sign(KEY, sub=f"x{number}") for number in range(4)]
    for token in (*tokens[:3], tokens[0], tokens[3]):
        made.tokens.recognize(token)
    assert (made.tokens.held_count, made.verified) == (3, 4)
    made.tokens.recognize(tokens[0])
    assert made.verified == 4
    made.tokens.recognize(tokens[1])
    assert made.verified == 5


def test_without_keys_all_are_refused() -> None:
    with pytest.raises(PermissionDenied, match="has not reached their issuer's keys") as caught:
        SignedTokens(RULES, lambda: NOW_S).recognize(sign(KEY))
    assert caught.value.reason == "UNAUTHENTICATED"


def test_an_empty_list_of_keys_takes_all_tokens_back(made: Tokens) -> None:
    token = sign(KEY)
    made.tokens.recognize(token)
    assert made.tokens.find_warning() is None
    made.tokens.use_keys(())
    assert made.tokens.recall(token) is None
    with pytest.raises(PermissionDenied, match="publishes an empty list of keys") as caught:
        made.tokens.recognize(token)
    assert (caught.value.reason, made.tokens.find_warning()) == ("UNAUTHENTICATED", caught.value.message)
    assert made.missed == 1, "newer keys are asked for"
    made.tokens.use_keys(parse_keys(to_jwks(to_jwk(KEY)), "x"))
    assert made.tokens.recognize(token).name == "ann"


def test_names_and_roles_of_callers(made: Tokens) -> None:
    listed = parse_token_file(
        f"system:serviceaccount:a:imp writer signed\nann reader {'t' * 20}\nboss user signed\n"
        f"x.y.z admin {'a.b.' * 5}\n",
        "tokens",
    )
    access = Access(tokens=listed.tokens, signed_tokens=made.tokens, signed_roles=listed.signed_roles)

    def caller(token: str) -> tuple[str, Role]:
        found = access.recognize(f"Bearer {token}", None)
        assert (found.until_s is None) == (":" not in found.name)
        return found.name, found.role

    assert caller(sign(KEY, sub="system:serviceaccount:a:imp")) == ("signed:system:serviceaccount:a:imp", Role.WRITER)
    assert caller(sign(KEY, sub="ann")) == ("signed:ann", Role.USER), "not ann of the token file"
    assert caller(sign(KEY, sub="eve", role="admin")) == ("signed:eve", Role.ADMIN)
    assert caller(sign(KEY, sub="boss", role="admin")) == ("signed:boss", Role.USER), "the file wins"
    assert caller("t" * 20) == ("ann", Role.READER)
    assert caller("a.b." * 5) == ("x.y.z", Role.ADMIN), "a token of the file may have points"
    with pytest.raises(PermissionDenied, match=r"The token is not known here\. Was it revoked"):
        access.recognize(f"Bearer {'u' * 20}", None)
    with pytest.raises(PermissionDenied, match=r"The token is not known here\. Was it revoked"):
        Access(tokens=listed.tokens).recognize(f"Bearer {sign(KEY)}", None)


@pytest.mark.parametrize("name", ["signed:ann", "a:b", "a|b", "a/b"])
def test_no_name_of_the_token_file_looks_like_that_of_a_signed_token(name: str) -> None:
    for secret in ("t" * 20, "cert"):
        with pytest.raises(InvalidArgument, match="malformed name"):
            parse_token_file(f"{name} admin {secret}", "tokens")
    assert parse_token_file(f"{name} admin signed", "tokens").signed_roles == {name: Role.ADMIN}, "control"
