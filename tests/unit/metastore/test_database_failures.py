"""What callers learn of errors of the database, by their SQLSTATE."""

from __future__ import annotations

import pytest
from psycopg import errors

from lakelog.errors import InternalError, Unavailable
from metastore.postgres.connection.failures import translate


@pytest.mark.parametrize(
    ("state", "reason", "said"),
    [
        ("53100", "DATABASE_FULL", r"disk of the database server db:5432 is full; nothing happened\. Make room there"),
        ("53200", "DATABASE_OVERLOADED", "server db:5432 is out of resources; nothing happened"),
        ("53300", "DATABASE_OVERLOADED", "server db:5432 is out of resources; nothing happened"),
        ("25006", "DATABASE_READ_ONLY", "read-only, as a standby is; nothing happened"),
        ("40001", "TRANSACTION_ABORTED", "nothing happened"),
        ("57014", "DATABASE_SLOW", "took too long"),
    ],
)
def test_a_passing_state_of_the_server_is_no_defect(state: str, reason: str, said: str) -> None:
    error = translate(errors.lookup(state)("said"), server="db:5432", lost=False, committing=True)
    assert isinstance(error, Unavailable)
    assert error.retryable
    assert error.reason == reason
    with pytest.raises(Unavailable, match=said):
        raise error


def test_anything_else_is_a_defect() -> None:
    error = translate(errors.lookup("42601")("said"), server="db:5432", lost=False, committing=False)
    assert isinstance(error, InternalError)
