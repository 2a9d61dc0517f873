"""A subscription to several tables of which one has its changelog made after the commit (semantics 3.5, 5.3)."""

from __future__ import annotations

import threading
import time

from lakelog.sdk.catalog import Catalog
from metastore.testing import InProcessMetastore
from tests.support.tables.attaching import attach_all
from tests.support.tables.keyed import SCHEMA, make, rows


def test_a_commit_to_several_tables_is_shown_whole_once_its_changelogs_are_attached(
    metastore: InProcessMetastore, catalog: Catalog
) -> None:
    late = make(catalog, "lookup", lookup_wait="false")
    plain = catalog.create_table("shop.plain", SCHEMA, primary_key=["pt", "k"])
    seen: list[tuple[str, int]] = []
    with catalog.subscribe(["shop.t", "shop.plain"], "latest") as stream:

        def read() -> None:
            seen.extend((batch.table, batch.snapshot_id) for batch in stream)

        reader = threading.Thread(target=read)
        reader.start()
        with catalog.transaction() as tx:
            tx.table("shop.t").write(rows("+I 1|1|1"))
            tx.table("shop.plain").write(rows("+I 1|1|1"))
        late.write(rows("+U 1|1|2"))
        time.sleep(0.5)
        # Half of a commit is never shown.
        assert seen == []
        attach_all(metastore)
        give_up = time.monotonic() + 10
        while len(seen) < 3 and time.monotonic() < give_up:
            time.sleep(0.02)
        stream.close()
        reader.join(5)
    assert sorted(seen[:2]) == [("shop.plain", 1), ("shop.t", 1)]
    assert seen[2:] == [("shop.t", 2)]
    assert plain.changes().count() == 1
