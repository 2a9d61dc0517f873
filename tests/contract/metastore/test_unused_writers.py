"""Names of writers that never committed go after a while; all others stay for ever, and with them their results."""

from __future__ import annotations

import itertools
from typing import Final

import pytest

from lakelog.errors import Fenced
from metastore.commits import unused_writers
from metastore.postgres.commits import writers
from metastore.testing import InProcessMetastore
from tests.support.metastore.making import append, empty, make_table, snapshot_ids

_OURS: Final = "-unused"
_numbers = itertools.count(1)


@pytest.fixture
def metastore(log_metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> InProcessMetastore:
    """A metastore with names in pages of two."""
    monkeypatch.setattr(unused_writers, "_NAMES_A_STEP", 2)
    return log_metastore


def forget(metastore: InProcessMetastore) -> list[str]:
    """Names of these tests that go, in one round over all names: other tests share the database."""
    step = metastore.use_cases.unused_writers.step
    removed: list[str] = metastore.run(step())
    while metastore.use_cases.unused_writers._after:
        removed += metastore.run(step())
    return [name for name in removed if name.endswith(_OURS)]


def test_only_names_without_commits_and_attempts_go(
    metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, dropped = make_table(metastore), make_table(metastore)
    a, b, c, d, e = (f"{letter}-{next(_numbers)}{_OURS}" for letter in "abcde")
    epochs = {name: metastore.register_writer(name) for name in (a, b, c, d, e)}
    metastore.commit(empty(table, 1, writer=b, epoch=epochs[b]))
    metastore.commit(empty(dropped, 1, writer=c, epoch=epochs[c]))
    metastore.drop_table(dropped.name)
    attempt = metastore.stage_attempt([table.table_uuid], d).attempt_id
    assert forget(metastore) == [], "all are in use"
    monkeypatch.setattr(unused_writers, "UNUSED_MS", -1)
    assert forget(metastore) == [a, e]
    assert forget(metastore) == []
    metastore.restore_table(dropped.name)
    for name, committed in ((b, table), (c, dropped)):
        metastore.commit(empty(committed, 1, writer=name, epoch=epochs[name]))
        assert snapshot_ids(metastore, committed) == [1], "a repeat"
    metastore.abandon_attempt(attempt)
    assert forget(metastore) == [], "it is cleaned up first"
    # Who comes back is fenced, and registers again with another epoch: after ninety days a higher one.
    with pytest.raises(Fenced):
        metastore.commit(empty(table, 1, writer=a, epoch=epochs[a]))
    again = metastore.register_writer(a)
    assert again != epochs[a]
    metastore.commit(empty(table, 1, writer=a, epoch=again))
    assert forget(metastore) == []


def test_a_name_with_commits_keeps_its_epoch(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused_writers, "UNUSED_MS", -1)
    assert commits_after_it_was_fenced(metastore) == "WRITER_FENCED"


@pytest.mark.parametrize("log_metastore", ["postgres"], indirect=True)
def test_control_if_all_old_names_go(metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unused_writers, "UNUSED_MS", -1)
    for statement in ("_LIST_WRITERS", "_FORGET_WRITERS"):
        sql = getattr(writers, statement).replace(writers._IS_UNUSED, "%s::bigint IS NOT NULL")
        monkeypatch.setattr(writers, statement, sql)
    assert commits_after_it_was_fenced(metastore) == ""


def commits_after_it_was_fenced(metastore: InProcessMetastore) -> str:
    """Why a process that another one has replaced cannot commit, after unused names went; empty: it can."""
    table, name = make_table(metastore), f"w-{next(_numbers)}{_OURS}"
    append(metastore, table, 1, writer=name)
    metastore.register_writer(name)
    forget(metastore)
    try:
        append(metastore, table, 2, writer=name)
    except Fenced as error:
        return error.reason
    return ""
