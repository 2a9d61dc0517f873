"""Changes whose rows, or whose old rows, do not fit into memory at once: a few keys at a time, the same result."""

from __future__ import annotations

import random

import pytest

from lakelog.reads import changes
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from lakelog.storage.lookup import bucket_changelog, bucket_changes
from lakelog.storage.lookup.bucket_changes import BucketChanges
from metastore.testing import InProcessMetastore
from tests.support.tables.attaching import attach_all
from tests.support.tables.keyed import emitted, make, replayed, rows, shown

COMMITS = 8


def write(table: Table, seed: int, commits: int = COMMITS) -> None:
    dice = random.Random(seed)
    for commit in range(commits):
        keys = dice.sample(range(40), 20)
        kinds = ["-D" if dice.random() < 0.2 else "+U" for _ in keys]
        table.write(rows(*(f"{kind} 1|{key}|{commit * 100 + key}" for kind, key in zip(kinds, keys, strict=True))))


def hold_little(monkeypatch: pytest.MonkeyPatch, size_bytes: int) -> None:
    for module in (bucket_changes, bucket_changelog, changes):
        monkeypatch.setattr(module, "HELD_BYTES", size_bytes)


@pytest.mark.parametrize("size_bytes", [1, 200])
@pytest.mark.parametrize("options", [{}, {"sequence__field": "v"}], ids=["arrival", "sequence"])
@pytest.mark.parametrize("way", ["none", "lookup", "late"])
def test_changes_are_the_same_however_little_is_held(
    metastore: InProcessMetastore,
    catalog: Catalog,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    options: dict[str, str],
    size_bytes: int,
) -> None:
    more = {**options, **({"lookup_wait": "false"} if way == "late" else {})}
    tables = [
        make(catalog, "none" if way == "none" else "lookup", f"shop.{name}", **more) for name in ("whole", "parts")
    ]
    write(tables[0], 5)
    attach_all(metastore)
    whole = emitted(tables[0], 0)
    hold_little(monkeypatch, size_bytes)
    lookups: list[int] = []
    original = BucketChanges._fold_one

    def count(self: BucketChanges, *arguments: object) -> object:
        part = original(self, *arguments)  # type: ignore[arg-type]
        lookups.append(part.changes.num_rows)
        return part

    monkeypatch.setattr(BucketChanges, "_fold_one", count)
    write(tables[1], 5)
    attach_all(metastore)
    assert emitted(tables[1], 0) == whole
    assert emitted(tables[1], 3, 6) == emitted(tables[0], 3, 6)
    assert replayed(tables[1]) == shown(tables[1]) == shown(tables[0])
    # Otherwise nothing was split.
    assert len(lookups) > COMMITS
