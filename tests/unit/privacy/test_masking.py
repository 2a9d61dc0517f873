"""Secrets of each form are masked wherever they stand, and what is none stays readable."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from urllib.parse import quote, quote_plus

import pytest

from lakelog.privacy import redaction
from lakelog.privacy.masking import is_secret_name, mask, mask_all

CANARY = "cAnArY9f3b"

KEY = f"-----BEGIN RSA PRIVATE KEY-----\nMIIE{CANARY}\n{CANARY}==\n-----END RSA PRIVATE KEY-----"

PLANTED = {
    "password of a URL": f"postgresql://ann:{CANARY}@db:5432/lake",
    "token as user of a URL": f"https://{CANARY}@git.example/x",
    "password with signs": f"postgresql://ann:a%2F{CANARY}@db/lake",
    "bearer": f"authorization: Bearer {CANARY}abc",
    "basic": f"Basic {CANARY}AAAA==",
    "signed token": f"got eyJhbGciOiJSUzI1NiJ9.{CANARY}.{CANARY}sig for ann",
    "s3 secret": f"LAKELOG_S3_SECRET_ACCESS_KEY={CANARY}",
    "s3 id": f"LAKELOG_S3_ACCESS_KEY_ID={CANARY}",
    "session token": f'"session_token": "{CANARY}"',
    "signed address": f"GET /x?X-Amz-Signature={CANARY}&X-Amz-Security-Token={CANARY}",
    "sasl": f"sasl.password={CANARY}",
    "jaas": f'sasl.jaas.config=org.x.Plain required username="u" password="{CANARY}";',
    "quoted": f"password = 'two words {CANARY}'",
    "json in json": json.dumps({"event": json.dumps({"password": f'q"{CANARY}'})}),
    "quote without end": f'"password": "two words {CANARY}',
    "python": f"{{'secret_key': '{CANARY}', 'n': 1}}",
    "key": KEY,
    "key in json": json.dumps({"event": KEY}),
    "key without its end": KEY[:60],
    "key without its beginning": KEY[40:],
    "encrypted key": KEY.replace("RSA", "ENCRYPTED"),
    "ssl key password": f"ssl.key.password: {CANARY}",
    "ssl key pem": f"kafka.ssl.key.pem={CANARY}",
    "api key": f"x-api-key: {CANARY}",
    "arrow": f"token => {CANARY}",
    "bytes of python": f"{{'password': b'{CANARY}'}}",
    "option": f"lakelog --s3-secret-access-key {CANARY} up",
    "option in a list of python": f"['metastore', '--token', '{CANARY}', 'serve']",
    "statement": f"ALTER ROLE ann WITH ENCRYPTED PASSWORD '{CANARY}'",
    "said": f"the password is {CANARY}",
    "login of curl": f"curl -u ann:{CANARY} http://x",
    "password with a slash in a URL": f"postgresql://ann:a@b/{CANARY}@db/lake",
    "URL in a URL": f"url=postgresql%3A%2F%2Fann%3A{CANARY}%40db%2Flake",
    "short names": f"pass={CANARY}&apikey={CANARY}&sig={CANARY}",
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_secrets_of_each_form_are_masked(text: str) -> None:
    for around in (text, f"2026-01-01 error {text} and so on", json.dumps({"level": "error", "event": text})):
        assert CANARY not in mask(around), around
        assert CANARY not in json.dumps(mask_all({"a": [{"b": around}], around: 1}))


def test_what_stands_under_the_name_of_a_secret_is_masked_whatever_it_is() -> None:
    found = mask_all({"token": ["a", "b"], "kafka.sasl.password": "x", "bucket": "4", "tokens": 0, "secret": None})
    assert found == {"token": "***", "kafka.sasl.password": "***", "bucket": "4", "tokens": 0, "secret": None}


ENCODINGS: dict[str, Callable[[str], str]] = {
    "address": lambda secret: quote(secret, safe=""),
    "address with slashes": quote,
    "address in small letters": lambda secret: re.sub("%..", lambda found: found[0].lower(), quote(secret, safe="")),
    "form": quote_plus,
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 in addresses": lambda secret: base64.urlsafe_b64encode(secret.encode()).decode().rstrip("="),
    "hexadecimal": lambda secret: secret.encode().hex(),
    "json in json": lambda secret: json.dumps(json.dumps([secret])),
    "python": lambda secret: repr([secret, secret.encode()]),
}


@pytest.mark.parametrize("encode", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("secret", ["wJalrXUtnFEMI/K7MDENG+bPxRfi", 'a "b"\\c: d@ü%2F', "tok-77-abc"])
def test_a_known_secret_is_masked_in_each_encoding(
    secret: str, encode: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_pattern", None)
    redaction.remember_secret(secret)
    encoded = encode(secret)
    assert mask(f"before {encoded} after") != f"before {encoded} after"
    assert encoded.strip("=")[4:-4] not in mask(f"before {encoded} after")


@pytest.mark.parametrize("login", ["ann:", "an:", "anna:", ""])
def test_a_known_secret_is_masked_inside_of_base64(login: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_pattern", None)
    redaction.remember_secret("wJalrXUtnFEMI/K7MDENG")
    encoded = base64.b64encode(f"{login}wJalrXUtnFEMI/K7MDENG and more".encode()).decode()
    left = mask(f"x {encoded} y").removeprefix("x ").removesuffix(" y")
    assert b"tnFEMI" not in base64.b64decode(re.sub(r"[*]{3}", "", left) + "==", validate=False)
    assert "***" in left


@pytest.mark.parametrize("part", ["a", "a://", "password", "--a-"])
def test_a_word_without_end_is_masked_before_the_test_times_out(part: str) -> None:
    text = part * (60_000 // len(part))
    assert CANARY not in mask(f"{text} password={CANARY}")


def test_what_is_no_secret_stays() -> None:
    for text in (
        "committed snapshot 7 of shop.orders in 12 ms",
        "s3://bucket/prefix/data/a.parquet",
        "The primary key (id) of shop.orders has 3 columns.",
        "http://127.0.0.1:9464/metrics",
        'FATAL: password authentication failed for user "ann"',
        "The token is not known, and the password is wrong.",
        "3 tests passed, bypass=1, design=2, http://localhost/a?b=c",
        '{"level": "info", "event": "job done", "job_id": 7, "keys": 12}',
    ):
        assert mask(text) == text
    assert not is_secret_name("primary_key")
    assert not is_secret_name("bucket-key")
