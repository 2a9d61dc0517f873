"""Connections that lose data in one direction, are half open, reset, late or slow: client, metastore, Postgres.

Nothing tells either end: the proxy acknowledges what it swallows, so only our own deadlines can notice. The control for
the metastore is in `tests/contract/metastore/test_postgres_silence.py`. The other pairs of services take longer to
notice, and are in `./run bench NETWORK`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pyarrow as pa
import pytest

from bench.faults.network import SCHEMA, Hub, NetworkFault, run_cell
from lakelog.client.connection.connection import Connection, Session

pytestmark = pytest.mark.e2e

FAULTS = list(NetworkFault)
WITHIN_S = 20.0
"""For the work after a fault; the deadlines in these tests are of a second."""
STUCK_S = 3.0
"""A control must not have succeeded after this time; with the protection the same takes about two seconds."""


def append(table: object, number: int) -> None:
    table.append(pa.table({"v": [number]}, schema=SCHEMA), writer="w", identifier=number)  # type: ignore[attr-defined]


@pytest.mark.parametrize("seed", range(len(FAULTS)), ids=[fault.name.lower() for fault in FAULTS])
def test_a_client_goes_on_when_its_connection_to_the_metastore_fails(hub: Hub, seed: int) -> None:
    table = hub.table()
    with hub.client(try_s=1.0, connect_s=1.0) as catalog:
        opened = catalog.table(table)
        # A watch keeps the connection open, and must not be lost with it.
        cell = run_cell(FAULTS[seed], hub.service, lambda n: append(opened, n), first=1, within_s=WITHIN_S)
    assert cell.noticed or FAULTS[seed] in (NetworkFault.HELD, NetworkFault.SLOW), "the fault did not take effect"
    assert hub.values(table) == [1, 2, 3]
    wait_for(lambda: hub.service.open_links == 0, "all connections of the client are closed")


@pytest.mark.parametrize("seed", range(len(FAULTS)), ids=[fault.name.lower() for fault in FAULTS])
def test_the_metastore_goes_on_when_its_connections_to_postgres_fail(hub: Hub, seed: int) -> None:
    table = hub.table()
    with hub.client(try_s=30.0) as catalog:
        opened = catalog.table(table)
        cell = run_cell(FAULTS[seed], hub.database, lambda n: append(opened, n), first=1, within_s=WITHIN_S)
    assert cell.noticed or FAULTS[seed] in (NetworkFault.HELD, NetworkFault.SLOW), "the fault did not take effect"
    assert hub.values(table) == [1, 2, 3]
    hub.database.heal()
    with hub.client() as catalog:
        append(catalog.table(table), 4)
    assert hub.values(table) == [1, 2, 3, 4]
    # Ten of the pool, one that listens and one of the health check; and no process of Postgres is left over.
    wait_for(lambda: hub.database.open_links <= 12, "lost connections to Postgres are closed")


def test_commits_at_the_moment_of_silence_are_unknown_and_hold_no_locks(hub: Hub) -> None:
    """The worst moment: the answer to COMMIT is lost for ever, while other commits wait for the table."""
    table = hub.table()
    with hub.client(try_s=30.0) as catalog:
        opened = catalog.table(table)
        append(opened, 1)
        hub.database.silence("answers")
        threads = [
            threading.Thread(
                target=lambda n=n: hub.direct.table(table).append(
                    pa.table({"v": [n]}, schema=SCHEMA), writer=f"w{n}", identifier=1
                )
            )
            for n in range(2, 6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(WITHIN_S)
        assert not any(thread.is_alive() for thread in threads), "a commit hangs"
    assert hub.database.swallowed
    assert sorted(hub.values(table)) == [1, 2, 3, 4, 5]


def test_control_without_a_new_channel_a_silent_connection_is_used_on(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    def keep(self: Connection, silent: Session) -> Session:
        return silent

    monkeypatch.setattr(Connection, "_replace", keep)
    table = hub.table()
    with hub.client(try_s=1.0, connect_s=1.0) as catalog:
        opened = catalog.table(table)
        with pytest.raises(TimeoutError, match="not done within"):
            run_cell(NetworkFault.ANSWERS_LOST, hub.service, lambda n: append(opened, n), first=1, within_s=STUCK_S)


def wait_for(condition: Callable[[], bool], what: str, within_s: float = 15.0) -> None:
    give_up_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < give_up_s, f"not within {within_s:g} s: {what}"
        time.sleep(0.05)
