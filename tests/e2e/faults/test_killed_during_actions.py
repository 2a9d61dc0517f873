"""The metastore, or the console, killed in the middle of an action of a page.

Whoever sent the form hears only what is true, and sending it again does nothing twice.
"""

from __future__ import annotations

import re
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psycopg
import pyarrow as pa
import pytest

import lakelog
from lakelog.embedded.ports import free_port
from lakelog.embedded.services import is_listening
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.forked_stack import ForkedStack, forked_stack

pytestmark = [pytest.mark.e2e, pytest.mark.slow]


@dataclass(frozen=True)
class Act:
    """An action, with what a person types, the database's table that it writes to, and how often it was done."""

    path: str
    typed: dict[str, str]
    lock: str
    count: Callable[[Table], int]


def count_jobs(table: Table) -> int:
    return len(table._context.metastore.list_jobs([table.uuid]))


def count_rollbacks(table: Table) -> int:
    (found,) = table._context.metastore.list_latest([table.uuid])
    return found.snapshot_id - 3


ACTS = {
    "tag": Act(
        "tables/shop/orders/act/tag?snapshot=2", {"tag": "release"}, "tag", lambda table: table.tags.list().num_rows
    ),
    "roll back": Act(
        "tables/shop/orders/act/roll-back?to=1",
        {"confirmed_name": "shop.orders"},
        "snapshot",
        count_rollbacks,
    ),
    "compact": Act("tables/shop/orders/act/compact?full=yes", {"full": "yes"}, "job", count_jobs),
}


class Site:
    """A stack with a console that offers actions, and its database."""

    def __init__(self, stack: ForkedStack, port: int) -> None:
        self.stack = stack
        self.url = f"http://127.0.0.1:{port}"
        self.database_url = stack.database_url.replace("+psycopg", "")

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}/{path}", timeout=60) as answer:
            return str(answer.read().decode())

    def post(self, path: str, form: dict[str, str]) -> tuple[int, str]:
        """The status and the page after redirects; (0, "") if the console died."""
        request = urllib.request.Request(
            f"{self.url}/{path.partition('?')[0]}",
            urlencode(form).encode(),
            {"Origin": self.url},
        )
        try:
            with urllib.request.build_opener(_Stay).open(request, timeout=60) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    @contextmanager
    def holding(self, table: str) -> Iterator[psycopg.Connection[Any]]:
        """Lets no one write to a table of the database."""
        with psycopg.connect(self.database_url) as connection:
            connection.execute(f"LOCK TABLE {table} IN SHARE MODE")
            yield connection
            connection.rollback()

    def wait_for(self, waiting: bool) -> None:
        """Until an action waits for the lock, or none does."""
        query = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' "
            "AND application_name = 'lakelog-metastore'"
        )
        deadline_s = time.monotonic() + 30
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            while bool(connection.execute(query).fetchone() != (0,)) != waiting:
                assert time.monotonic() < deadline_s
                time.sleep(0.02)


class _Stay(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it is the answer of an action that was done."""

    def redirect_request(self, *_: Any) -> None:
        return None


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder: Path = tmp_path_factory.mktemp("acts")
    port = free_port()
    listen = f"127.0.0.1:{port}"
    with forked_stack(folder) as stack:
        stack.add_service(
            "console",
            ["serve", "--listen", listen, "--insecure-dev", "--actions"],
            environment={"LAKELOG_TARGET": stack.target},
            is_ready=lambda: is_listening(listen),
        )
        yield Site(stack, port)


@pytest.fixture(scope="module")
def catalog(site: Site) -> Iterator[Catalog]:
    with lakelog.connect(site.stack.target) as found:
        found.create_database("shop")
        yield found


@pytest.fixture
def table(catalog: Catalog) -> Iterator[Table]:
    """Three snapshots, in one bucket."""
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    made = catalog.create_table("shop.orders", schema, primary_key=["id"], options={"bucket": "1"})
    for number in range(3):
        made.upsert(pa.table({"id": [number]}))
    yield catalog.table("shop.orders")
    catalog.drop_table("shop.orders")


@contextmanager
def sent(site: Site, act: Act) -> Iterator[tuple[dict[str, str], Future[tuple[int, str]]]]:
    """The form of an action, and its answer; the action waits in the database."""
    fields = dict(re.findall(r'<input[^>]*name="([^"]+)" value="([^"]*)"', site.get(act.path)))
    form = fields | act.typed
    with ThreadPoolExecutor(1) as threads:
        yield form, threads.submit(site.post, act.path, form)


def check_honest(status: int, page: str, done: int) -> None:
    assert status in (303, 503, 504), page
    if status == 303:
        assert done == 1
    if status == 503:
        assert "Nothing was done" in page
        assert done == 0
    if status == 504:
        assert "it is not known whether this was done" in page
        assert '<button class="danger">' not in page, "it is looked at before it is repeated"


def repeat(site: Site, act: Act, table: Table, form: dict[str, str]) -> None:
    """As a person does who sends the form twice more: the work is done once, by one of them or before."""
    status, page = site.post(act.path, form)
    assert status in (303, 400), page
    assert act.count(table) == 1
    site.post(act.path, form)
    assert act.count(table) == 1


@pytest.mark.parametrize("name", ACTS)
def test_the_metastore_killed_before_it_has_recorded_the_action(site: Site, table: Table, name: str) -> None:
    act = ACTS[name]
    with site.holding(act.lock) as lock, sent(site, act) as (form, answer):
        site.wait_for(True)
        site.stack.kill("metastore")
        lock.rollback()
        # What was sent whole, Postgres does for the dead one.
        site.wait_for(False)
        site.stack.restart("metastore")
        status, page = answer.result(60)
    check_honest(status, page, act.count(table))
    repeat(site, act, table, form)


@pytest.mark.parametrize("name", ACTS)
def test_the_metastore_killed_between_the_record_and_the_answer(site: Site, table: Table, name: str) -> None:
    act = ACTS[name]
    with site.holding(act.lock) as lock, sent(site, act) as (form, answer):
        site.wait_for(True)
        site.stack.pause("metastore")
        lock.rollback()
        site.wait_for(False)
        site.stack.kill("metastore")
        site.stack.restart("metastore")
        status, page = answer.result(60)
    check_honest(status, page, act.count(table))
    repeat(site, act, table, form)


@pytest.mark.parametrize("name", ACTS)
def test_the_console_killed_while_the_action_is_done(site: Site, table: Table, name: str) -> None:
    act = ACTS[name]
    with site.holding(act.lock) as lock, sent(site, act) as (form, answer):
        site.wait_for(True)
        site.stack.kill("console")
        assert answer.result(60) == (0, ""), "the browser says that its connection was cut"
        lock.rollback()
        site.wait_for(False)
    site.stack.restart("console")
    repeat(site, act, table, form)


def test_a_retry_of_a_job_is_no_second_one(site: Site, table: Table) -> None:
    metastore = table._context.metastore
    (job,) = metastore.request_jobs(table.uuid, "compact", ["/0"], {"strategy": "full"})
    leased = metastore.lease_job(["compact"], [table.uuid], "a compactor", duration_ms=60_000)
    assert leased is not None
    metastore.fail_job(leased.job_id, leased.epoch, "the disk is full", final=True)
    act = Act(f"jobs/{job.job_id}/act/retry", {}, "job", count_jobs)
    with site.holding(act.lock) as lock, sent(site, act) as (form, answer):
        site.wait_for(True)
        site.stack.kill("metastore")
        lock.rollback()
        site.wait_for(False)
        site.stack.restart("metastore")
        status, page = answer.result(60)
    assert status in (303, 503, 504), page
    site.post(act.path, form)
    (found,) = metastore.list_jobs([table.uuid])
    assert (found.job_id, found.state.value) == (job.job_id, "due")
