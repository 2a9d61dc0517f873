"""What the proxy before Postgres takes for a commit that it may cut."""

from __future__ import annotations

import pytest

from lakelog.testing.postgres_proxy import _Requests

INSERT = b"INSERT INTO snapshot VALUES (1)"
REPORT = b"UPDATE service SET state = $1 WHERE instance_id = $2"


def message(kind: bytes, body: bytes) -> bytes:
    return kind + (len(body) + 4).to_bytes(4, "big") + body


def parsed(name: bytes, statement: bytes) -> bytes:
    return message(b"P", name + b"\x00" + statement + b"\x00\x00\x00")


def bound(name: bytes) -> bytes:
    return message(b"B", b"\x00" + name + b"\x00")


@pytest.fixture
def requests() -> _Requests:
    begun = _Requests()
    assert not begun.has_commit((8).to_bytes(4, "big") + b"\x00\x03\x00\x00")
    assert not begun.has_commit(parsed(b"i", INSERT) + parsed(b"r", REPORT) + parsed(b"c", b"COMMIT"))
    return begun


def test_a_commit_is_found_in_either_form(requests: _Requests) -> None:
    assert requests.has_commit(bound(b"i") + bound(b"c"))
    assert requests.has_commit(message(b"Q", b"COMMIT\x00"))
    assert not requests.has_commit(bound(b"i") + message(b"Q", b"ROLLBACK\x00"))


def test_a_report_of_presence_is_no_commit_to_cut_and_the_next_one_is(requests: _Requests) -> None:
    assert not requests.has_commit(bound(b"r") + bound(b"c"))
    assert requests.has_commit(bound(b"i") + bound(b"c"))


def test_a_report_that_is_rolled_back_hides_no_later_commit(requests: _Requests) -> None:
    assert not requests.has_commit(bound(b"r") + message(b"Q", b"ROLLBACK\x00"))
    assert requests.has_commit(bound(b"i") + bound(b"c"))


def test_a_commit_that_locks_heads_is_known_until_the_next_transaction(requests: _Requests) -> None:
    requests.has_commit(
        parsed(b"b", b"BEGIN") + parsed(b"h", b"SELECT a\nFROM table_head WHERE b ORDER BY c FOR UPDATE")
    )
    requests.has_commit(bound(b"b") + bound(b"i"))
    assert not requests.locks_heads
    requests.has_commit(bound(b"h"))
    assert requests.locks_heads
    assert requests.has_commit(bound(b"c"))
    assert requests.locks_heads
    requests.has_commit(bound(b"b"))
    assert not requests.locks_heads
