"""Who may act on attempts, names, leases, jobs and consumers: the owner and admins, over the wire and both stores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from google.protobuf.descriptor import Descriptor, FieldDescriptor

from lakelog.errors import InvalidArgument, PermissionDenied
from lakelog.format.commit.facts import AttemptState
from lakelog.format.commit.request import CommitRequest
from lakelog.serving.methods import OF_METASTORE, list_methods
from metastore.ownership import NOT_OWNER
from metastore.server.logging_setup import set_up_logging
from metastore.tables import table_files
from tests.contract.metastore.owned_calls import OPEN_TO_THE_ROLE, REFUSED, SPARED, Prepare, fresh
from tests.support.log_settings import kept_log_settings
from tests.support.metastore.making import append, empty, make_change, make_file, make_table
from tests.support.metastore.parties import Parties, open_parties

_OWNED_FIELDS = frozenset(
    {"attempt_id", "attempt_ids", "writer", "identifier", "lease", "job_id", "epoch", "epochs", "holder", "consumer_id"}
)

CASES = [
    pytest.param(rpc, prepare, id=f"{rpc}-{number}")
    for rpc, prepares in REFUSED.items()
    for number, prepare in enumerate(prepares)
]


@pytest.fixture(scope="module", params=["memory", "postgres"])
def parties(request: pytest.FixtureRequest) -> Iterator[Parties]:
    """For all tests here: each uses names of its own."""
    url = request.getfixturevalue("module_url") if request.param == "postgres" else None
    with open_parties(url) as opened:
        yield opened


def _names_a_thing(message: Descriptor, seen: frozenset[str] = frozenset()) -> bool:
    """Whether a message has a field that names an attempt, a writer, a lease, a job or a consumer."""
    if message.full_name in seen:
        return False
    inside: list[FieldDescriptor] = list(message.fields)
    return any(
        field.name in _OWNED_FIELDS
        or (field.message_type is not None and _names_a_thing(field.message_type, seen | {message.full_name}))
        for field in inside
    )


def test_each_call_that_names_what_is_owned_is_in_a_table() -> None:
    named = {method.name for method in list_methods(OF_METASTORE) if _names_a_thing(method.input_type)}
    listed = [*REFUSED, *SPARED, *OPEN_TO_THE_ROLE]
    assert len(set(listed)) == len(listed), "each in one table"
    known = {method.name for method in list_methods(OF_METASTORE)}
    assert not named - set(listed), "say who may make this call"
    assert not set(listed) - known, "there is no such call any more"


@pytest.mark.parametrize(("rpc", "prepare"), CASES)
def test_only_the_owner_and_admins(
    parties: Parties, rpc: str, prepare: Prepare, capfd: pytest.CaptureFixture[str]
) -> None:
    call = prepare(parties)
    with kept_log_settings():
        set_up_logging("info")
        capfd.readouterr()
        with pytest.raises(PermissionDenied, match=r"'alice'.*only 'alice' and admins") as caught:
            call(parties.bob)
        lines = [json.loads(line) for line in capfd.readouterr().err.splitlines() if line.startswith("{")]
    assert caught.value.reason == NOT_OWNER
    assert (caught.value.metadata["owner"], caught.value.metadata["caller"]) == ("alice", "bob")
    refused = [(line["caller"], line["method"], line["outcome"]) for line in lines if line["event"] == "refused"]
    assert refused == [("bob", rpc, NOT_OWNER)], "one line of the audit"
    # It had no effect: it is still there for an admin, and another one for its owner.
    call(parties.root)
    prepare(parties)(parties.alice)


@pytest.mark.parametrize("rpc", SPARED)
def test_attempts_of_others_are_spared(parties: Parties, rpc: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(parties.root).table_uuid
    ids = [who.stage_attempt([table], fresh("w")).attempt_id for who in (parties.alice, parties.bob)]
    if rpc == "AbortAttempts":
        assert parties.bob.abort_attempts(table, ids, 0) == ids[1:]
        # After three days it belongs to no one.
        monkeypatch.setattr(table_files, "ABANDONED_MS", 0)
        assert set(parties.bob.abort_attempts(table, ids, 0)) == set(ids)
    else:
        for who, attempt in zip((parties.alice, parties.bob), ids, strict=True):
            who.abandon_attempt(attempt)
        assert parties.bob.forget_attempts(table, ids) == 1
        monkeypatch.setattr(table_files, "SETTLED_MS", 0)
        assert parties.bob.forget_attempts(table, ids) == 1
    again = parties.alice.stage_attempt([table], fresh("w")).attempt_id
    monkeypatch.undo()
    assert parties.root.abort_attempts(table, [again], 0) == [again]
    assert parties.root.forget_attempts(table, [again]) == 1


def test_names_of_jobs(parties: Parties) -> None:
    """No one registers them, and no one commits under one that is not held."""
    table = make_table(parties.root)
    for who in (parties.bob, parties.root):
        with pytest.raises(InvalidArgument, match="take a job instead"):
            who.register_writer("job/7")
    for name in ("job/999999", "job/x", "job/"):
        with pytest.raises(PermissionDenied, match="a job that no one holds"):
            parties.bob.commit(empty(table, 1, writer=name))
        with pytest.raises(PermissionDenied, match="a job that no one holds"):
            parties.bob.stage_attempt([table.table_uuid], name)


def test_a_job_is_free_after_its_end(parties: Parties) -> None:
    table = make_table(parties.root)
    parties.bob.request_jobs(table.table_uuid, "compact", ["/0"], {"strategy": "full"})

    def take(who: Any) -> Any:
        return who.lease_job(["compact"], [table.table_uuid], "me", duration_ms=60_000, wait_ms=2000)

    first = take(parties.alice)
    parties.alice.finish_job(first.job_id, first.epoch, work_left=True)
    with pytest.raises(PermissionDenied, match="no one holds"):
        parties.alice.commit(empty(table, 1, writer=first.lease))
    second = take(parties.bob)
    assert second.job_id == first.job_id
    assert second.epoch > first.epoch
    attempt = parties.bob.stage_attempt([table.table_uuid], second.lease).attempt_id
    parties.bob.commit(CommitRequest(second.lease, 1, (make_change(table, [make_file(attempt)]),), attempt))
    assert parties.bob.finish_job(second.job_id, second.epoch) is False


def test_a_job_that_was_taken_over(parties: Parties) -> None:
    """Another service's instance goes on, under a token of its own; the former one's attempts are aborted."""
    table = make_table(parties.root)
    parties.root.request_jobs(table.table_uuid, "compact", ["/0"], {"strategy": "full"})
    first = parties.alice.lease_job(["compact"], [table.table_uuid], "a", duration_ms=1000)
    assert first is not None
    attempt = parties.alice.stage_attempt([table.table_uuid], first.lease).attempt_id
    second = parties.bob.lease_job(["compact"], [table.table_uuid], "b", duration_ms=60_000, wait_ms=5000)
    assert second is not None
    assert second.aborted_attempts == (attempt,)
    parties.bob.heartbeat_job(second.job_id, second.epoch, 60_000)


def test_a_name_is_handed_over(parties: Parties) -> None:
    table, name = make_table(parties.root), fresh("nightly")
    append(parties.alice, table, 1, writer=name)
    with pytest.raises(PermissionDenied, match=f"lakelog writers release {name}"):
        append(parties.bob, table, 2, writer=name)
    with pytest.raises(PermissionDenied, match="needs admin"):
        parties.alice.release_writer(name)
    assert parties.root.release_writer(name) == "alice"
    assert parties.root.release_writer(name) == ""
    assert parties.root.release_writer(fresh("nobody")) == ""
    append(parties.bob, table, 2, writer=name)
    with pytest.raises(PermissionDenied, match="'bob'"):
        append(parties.alice, table, 3, writer=name)
    # A repeat gets the first result, whoever has the name by now; it changes nothing.
    again = parties.alice.commit(empty(table, 1, writer=name))
    assert again.results[0].snapshot_id == 1
    assert parties.root.get_writer_progress(name, table.table_uuid).epoch == 0, "no instance was fenced"


def test_an_admin_does_not_become_the_owner(parties: Parties) -> None:
    table, name = make_table(parties.root), fresh("nightly")
    append(parties.alice, table, 1, writer=name)
    append(parties.root, table, 2, writer=name)
    first = parties.root.register_writer(name)
    assert parties.alice.register_writer(name) > first
    (opened,) = parties.alice.open_consumer("etl", [table.table_uuid], "me")
    parties.root.renew_consumer("etl", {table.table_uuid: opened.epoch}, "me")
    parties.alice.renew_consumer("etl", {table.table_uuid: opened.epoch}, "me")
    with pytest.raises(PermissionDenied):
        parties.bob.renew_consumer("etl", {table.table_uuid: opened.epoch}, "me")


def test_a_reset_by_an_admin_hands_a_consumer_over(parties: Parties) -> None:
    table = make_table(parties.root)
    append(parties.alice, table, 1, writer=fresh("w"))
    parties.alice.open_consumer("etl", [table.table_uuid], "me")
    parties.alice.reset_consumer(table.table_uuid, "etl", 1)
    with pytest.raises(PermissionDenied):
        parties.bob.open_consumer("etl", [table.table_uuid], "me")
    parties.root.reset_consumer(table.table_uuid, "etl", 1)
    (opened,) = parties.bob.open_consumer("etl", [table.table_uuid], "me")
    assert opened.snapshot_id == 1
    with pytest.raises(PermissionDenied):
        parties.alice.open_consumer("etl", [table.table_uuid], "me")


def test_names_for_one_commit_have_no_owner(parties: Parties) -> None:
    """Else each write without a name of its own would leave a row for ever."""
    table, name = make_table(parties.root), f"sdk-{7:032x}"
    append(parties.alice, table, 1, writer=name)
    append(parties.bob, table, 2, writer=name)
    assert parties.root.release_writer(name) == ""
    epoch = parties.alice.register_writer(name)
    with pytest.raises(PermissionDenied):
        parties.bob.commit(empty(table, 3, writer=name, epoch=epoch))


def test_one_commit_of_a_group_is_refused(parties: Parties) -> None:
    """Its neighbours are applied."""
    table, hers, his = make_table(parties.root), fresh("w"), fresh("w")
    append(parties.alice, table, 1, writer=hers)
    append(parties.bob, table, 1, writer=his)
    pipeline = parties.bob.open_commit_pipeline()
    answers = [
        pipeline.submit(empty(table, 2, writer=his)),
        pipeline.submit(empty(table, 2, writer=hers)),
        pipeline.submit(empty(table, 3, writer=his)),
    ]
    failures = [answer.exception(30) for answer in answers]
    pipeline.close()
    assert [type(failure) for failure in failures] == [type(None), PermissionDenied, type(None)]
    assert parties.alice.commit(empty(table, 2, writer=hers)).results[0].snapshot_id == 5


def test_attempts_of_others_can_be_looked_up(parties: Parties) -> None:
    table = make_table(parties.root)
    attempt = parties.alice.stage_attempt([table.table_uuid], fresh("w")).attempt_id
    assert parties.bob.find_attempts(table.table_uuid, [attempt])[attempt].state is AttemptState.OPEN


def test_attempts_of_others_are_not_renewed(parties: Parties) -> None:
    table = make_table(parties.root)
    attempt = parties.alice.stage_attempt([table.table_uuid], fresh("w")).attempt_id
    assert parties.bob.renew_attempts([attempt]) == []
    assert parties.alice.renew_attempts([attempt]) == [attempt]
    assert parties.root.renew_attempts([attempt]) == [attempt]
