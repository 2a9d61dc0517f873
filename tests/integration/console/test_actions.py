"""Actions: offered to callers that may, asked first, done once, and refused with a reason."""

from __future__ import annotations

import html
import itertools
import re
import shlex
import threading
from collections.abc import Iterator, Mapping
from urllib.parse import urlencode

import pyarrow as pa
import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import LakelogError, OutcomeUnknown, Unavailable
from lakelog.format.retention.consumer import ConsumerPosition
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.running_console import Answer, RunningConsole, token_of

_numbers = itertools.count(1)


@pytest.fixture
def table(catalog: Catalog) -> Iterator[Table]:
    """A table with three snapshots of 10 rows each."""
    name = f"shop.acted_{next(_numbers)}"
    made = catalog.create_table(name, pa.schema([("id", pa.int64())]))
    for number in range(3):
        made.append(pa.table({"id": range(number * 10, number * 10 + 10)}))
    yield catalog.table(name)
    catalog.drop_table(name)


def address(table: Table, action: str) -> str:
    return f"/tables/{table.name.replace('.', '/')}/act/{action}"


def read_form(page: Answer) -> dict[str, str]:
    """The fields of a form that a browser sends as they are."""
    found = re.findall(r'<input[^>]*name="([^"]+)" value="([^"]*)"', page.text)
    assert found, page.text[:2000]
    return dict(found)


def act(console: RunningConsole, path: str, changes: Mapping[str, str] | None = None, name: str = "root") -> Answer:
    """Opens the page of an action and sends its form."""
    return console.post(path.partition("?")[0], {**read_form(console.get(path, name)), **(changes or {})}, name)


def newest(table: Table) -> int:
    (found,) = table._context.metastore.list_latest([table.uuid])
    return found.snapshot_id


def test_a_tag_is_made_and_deleted(acting: RunningConsole, table: Table) -> None:
    page = acting.get(address(table, "tag") + "?snapshot=2")
    assert f"lakelog tags create {table.name} TAG --snapshot 2" in page.text
    answer = acting.post(address(table, "tag"), {**read_form(page), "tag": "release"})
    assert answer.status == 303
    assert answer.headers["location"].endswith("/snapshots")
    assert "release" in answer.cookies[0]
    assert table.tags.list().column("snapshot_id").to_pylist() == [2]
    assert act(acting, address(table, "delete-tag") + "?tag=release").status == 303
    assert table.tags.list().num_rows == 0


def test_errors_come_back_with_the_values(acting: RunningConsole, table: Table) -> None:
    answer = act(acting, address(table, "tag"), {"tag": "1", "snapshot": "99"})
    assert answer.status == 400
    assert 'role="alert"' in answer.text
    assert read_form(answer)["tag"] == "1"
    assert read_form(answer)["snapshot"] == "99"
    again = {**read_form(answer), "tag": "good", "snapshot": "1"}
    assert acting.post(address(table, "tag"), again).status == 303


def test_a_rollback_wants_the_name_and_an_unchanged_table(acting: RunningConsole, table: Table) -> None:
    path = address(table, "roll-back")
    page = acting.get(path + "?to=1")
    assert "2 later snapshots would be undone; 10 instead of 30 stored rows" in page.text
    form = read_form(page)
    for typed in ("", "shop", table.name + "x"):
        refused = acting.post(path, {**form, "confirmed_name": typed})
        assert (refused.status, newest(table)) == (400, 3)
        assert f"Type {table.name} to confirm" in refused.text
    table.append(pa.table({"id": [100]}))
    stale = acting.post(path, {**form, "confirmed_name": table.name})
    assert (stale.status, newest(table)) == (400, 4)
    done = acting.post(path, {**read_form(stale), "confirmed_name": table.name})
    assert (done.status, newest(table), table.count()) == (303, 5, 10)


def test_a_second_click_does_nothing_twice(acting: RunningConsole, table: Table) -> None:
    path = address(table, "roll-back")
    form = {**read_form(acting.get(path + "?to=1")), "confirmed_name": table.name}
    answers: list[Answer] = []
    threads = [threading.Thread(target=lambda: answers.append(acting.post(path, form))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answers.append(acting.post(path, form))
    assert [each.status for each in answers] == [303] * 5
    assert len({each.cookies[0] for each in answers}) == 1, "all say what was done"
    assert newest(table) == 4


def test_another_console_refuses_a_form_that_was_sent_before(acting: RunningConsole, target: str, table: Table) -> None:
    from tests.support.running_console import running_console

    path = address(table, "roll-back")
    form = {**read_form(acting.get(path + "?to=1")), "confirmed_name": table.name}
    assert acting.post(path, form).status == 303
    with running_console(target, "--actions") as other:
        assert other.post(path, form).status == 400
    assert newest(table) == 4


def test_a_form_about_another_table_of_the_name_is_refused(
    acting: RunningConsole, table: Table, catalog: Catalog
) -> None:
    forms = {
        "roll-back": {**read_form(acting.get(address(table, "roll-back") + "?to=1")), "confirmed_name": table.name},
        "tag": {**read_form(acting.get(address(table, "tag") + "?snapshot=2")), "tag": "t"},
        "compact": {**read_form(acting.get(address(table, "compact"))), "full": "yes"},
    }
    catalog.drop_table(table.name)
    other = catalog.create_table(table.name, pa.schema([("id", pa.int64())]))
    for number in range(3):
        other.append(pa.table({"id": [number]}))
    for action, form in forms.items():
        answer = acting.post(address(table, action), form)
        assert answer.status == 400
        assert "another one of the name" in answer.text
    assert newest(other) == 3
    assert not other.tags.list().num_rows
    assert acting.post(address(other, "tag"), {**forms["tag"], "target_id": other.uuid}).status == 303, "the control"


def test_a_tag_that_was_moved_and_a_consumer_that_was_opened_since_are_not_deleted(
    acting: RunningConsole, table: Table, catalog: Catalog
) -> None:
    table.tags.create("release", 1)
    (opened,) = catalog.metastore.open_consumer("etl", [table.uuid], "a reader")
    tag_form = read_form(acting.get(address(table, "delete-tag") + "?tag=release"))
    consumer_form = read_form(acting.get(address(table, "delete-consumer") + "?consumer=etl"))
    table.tags.delete("release")
    table.tags.create("release", 3)
    assert catalog.metastore.open_consumer("etl", [table.uuid], "another")[0].epoch != opened.epoch
    for action, form in (("delete-tag", tag_form), ("delete-consumer", consumer_form)):
        answer = acting.post(address(table, action), form)
        assert answer.status == 400
        assert "look again" in answer.text
        assert acting.post(address(table, action), read_form(answer)).status == 303, "the control"


def test_a_command_takes_no_name_for_an_option(acting: RunningConsole, table: Table, catalog: Catalog) -> None:
    catalog.metastore.open_consumer("--help", [table.uuid], "a reader")
    hostile = "a;b 'c'"
    catalog.metastore.open_consumer(hostile, [table.uuid], "a reader")
    for action, words in (("reset", "--to 1"), ("delete", "--yes")):
        page = acting.get(f"{address(table, action)}-consumer?consumer=--help&to=1").text
        assert f"lakelog consumers {action} {words} -- {table.name} --help<" in page
    page = acting.get(f"{address(table, 'delete')}-consumer?{urlencode({'consumer': hostile})}").text
    command = html.unescape(re.findall('class="shell">(.*?)</code>', page)[0])
    assert shlex.split(command)[-2:] == [table.name, hostile]


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (OutcomeUnknown("The answer was cut off."), 504, "it is not known whether this was done"),
        (Unavailable("It is away."), 503, "Nothing was done"),
    ],
)
@pytest.mark.parametrize("is_back", [True, False])
def test_an_action_without_an_answer_says_what_is_known(
    acting: RunningConsole,
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    error: LakelogError,
    status: int,
    words: str,
    is_back: bool,
) -> None:
    form = {**read_form(acting.get(address(table, "delete-tag") + "?tag=" + _tag(table)))}

    def fail(*_: object, **__: object) -> None:
        if not is_back:
            monkeypatch.setattr(GrpcMetastore, "list_tags", fail_to_list)
        raise error

    def fail_to_list(*_: object, **__: object) -> None:
        raise Unavailable("It is still away.")

    monkeypatch.setattr(GrpcMetastore, "delete_tag", fail)
    answer = acting.post(address(table, "delete-tag"), form)
    assert answer.status == status
    assert words in answer.text
    assert error.message in answer.text
    has_button = '<button class="danger">' in answer.text
    assert has_button == (is_back and status == 503), "what may have been done is looked at before it is repeated"
    assert "tries again by itself" not in answer.text


def _tag(table: Table) -> str:
    table.tags.create("release", 1)
    return "release"


def test_compactions_are_requested(acting: RunningConsole, table: Table, catalog: Catalog) -> None:
    assert "Compactors rewrite 1 bucket with 3 files" in acting.get(address(table, "compact") + "?full=yes").text
    assert act(acting, address(table, "compact"), {"full": "yes"}).status == 303
    assert [job.kind for job in catalog.metastore.list_jobs([table.uuid])] == ["compact"]


def test_snapshots_expire(acting: RunningConsole, table: Table) -> None:
    page = acting.get(address(table, "expire"))
    assert "0 snapshots that" in page.text
    assert act(acting, address(table, "expire")).status == 303


def test_consumers_are_reset_and_deleted(acting: RunningConsole, table: Table, catalog: Catalog) -> None:
    metastore = catalog.metastore
    (opened,) = metastore.open_consumer("etl", [table.uuid], "a reader")
    metastore.advance_consumer("etl", [ConsumerPosition(table.uuid, opened.epoch, 2)])
    path = address(table, "reset-consumer")
    page = acting.get(path + "?consumer=etl&to=1")
    assert "a reader reads under its name, and stops with an error" in page.text
    assert acting.post(path, {**read_form(page), "to": "many"}).status == 400
    assert acting.post(path, read_form(page)).status == 303
    assert metastore.list_consumers(table.uuid)[0].snapshot_id == 1
    stale = acting.post(path, {**read_form(page), "to": "0"})
    assert "opened or reset since this page" in stale.text
    assert metastore.list_consumers(table.uuid)[0].snapshot_id == 1
    assert act(acting, address(table, "delete-consumer") + "?consumer=etl").status == 303
    assert not metastore.list_consumers(table.uuid)
    assert acting.get(path + "?consumer=etl").status == 400


def test_a_failed_job_is_tried_again(acting: RunningConsole, table: Table, catalog: Catalog) -> None:
    metastore = catalog.metastore
    (job,) = metastore.request_jobs(table.uuid, "compact", ["/0"], {"strategy": "full"})
    leased = metastore.lease_job(["compact"], [table.uuid], "a compactor", duration_ms=60_000)
    assert leased is not None
    metastore.fail_job(leased.job_id, leased.epoch, "the disk is <full>", final=True)
    listed = acting.get(f"/jobs?table={table.name}&state=failed&as=json&part=jobs").json
    assert [each["job_id"] for each in listed] == [job.job_id]
    path = f"/jobs/{job.job_id}/act/retry"
    assert "the disk is &lt;full&gt;" in acting.get(path).text
    assert act(acting, path).status == 303
    assert [each.state.value for each in metastore.list_jobs([table.uuid])] == ["due"]
    assert "only one that failed or rests" in acting.get(path).text
    assert acting.get("/jobs/999999/act/retry").status == acting.get("/jobs/x/act/retry").status == 404


def test_a_console_that_only_shows_does_nothing(console: RunningConsole, acting: RunningConsole, table: Table) -> None:
    form = {**read_form(acting.get(address(table, "tag"))), "tag": "t"}
    for answer in (console.get(address(table, "tag")), console.post(address(table, "tag"), form)):
        assert answer.status == 403
        assert "--actions" in answer.text
    assert table.tags.list().num_rows == 0
    assert acting.post(address(table, "tag"), form).status == 303, "the control"


def test_only_callers_that_may_are_asked(acting: RunningConsole, table: Table, catalog: Catalog) -> None:
    form = {**read_form(acting.get(address(table, "tag"), "ann")), "tag": "t"}
    for name in ("viewer", "stranger"):
        assert acting.get(address(table, "tag"), name).status == 403
        assert acting.post(address(table, "tag"), form, name).status == 403
    assert table.tags.list().num_rows == 0
    assert acting.post(address(table, "tag"), form, "ann").status == 303, "the control"
    assert acting.post(address(table, "tag"), form, "viewer").status == 403, "the answer to ann is not for others"


def test_forms_without_a_token_and_of_other_pages_are_refused(acting: RunningConsole, table: Table) -> None:
    form = {**read_form(acting.get(address(table, "tag"))), "tag": "t"}
    assert acting.post(address(table, "tag"), {**form, "form_token": ""}).status == 400
    foreign = {"Sec-Fetch-Site": "cross-site"}
    refused = acting.send("POST", address(table, "tag"), cookie=token_of("root"), body=form, headers=foreign)
    assert refused.status == 403
    assert table.tags.list().num_rows == 0
    own = {"Sec-Fetch-Site": "same-origin"}
    assert acting.send("POST", address(table, "tag"), cookie=token_of("root"), body=form, headers=own).status == 303
