"""Secrets of each form are masked wherever they stand, and what is none stays readable."""

from __future__ import annotations

import json

import pytest

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
}


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_secrets_of_each_form_are_masked(text: str) -> None:
    for around in (text, f"2026-01-01 error {text} and so on", json.dumps({"level": "error", "event": text})):
        assert CANARY not in mask(around), around
        assert CANARY not in json.dumps(mask_all({"a": [{"b": around}], around: 1}))


def test_what_stands_under_the_name_of_a_secret_is_masked_whatever_it_is() -> None:
    found = mask_all({"token": ["a", "b"], "kafka.sasl.password": "x", "bucket": "4", "tokens": 0, "secret": None})
    assert found == {"token": "***", "kafka.sasl.password": "***", "bucket": "4", "tokens": 0, "secret": None}


def test_what_is_no_secret_stays() -> None:
    for text in (
        "committed snapshot 7 of shop.orders in 12 ms",
        "s3://bucket/prefix/data/a.parquet",
        "The primary key (id) of shop.orders has 3 columns.",
        "http://127.0.0.1:9464/metrics",
        '{"level": "info", "event": "job done", "job_id": 7, "keys": 12}',
    ):
        assert mask(text) == text
    assert not is_secret_name("primary_key")
    assert not is_secret_name("bucket-key")
