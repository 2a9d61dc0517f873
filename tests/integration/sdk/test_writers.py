"""Writers' names taken over from the SDK: reliability C3."""

from __future__ import annotations

import pickle
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import Fenced
from lakelog.sdk.catalog import Catalog
from lakelog.storage.objects.stores import LocationStores
from metastore.testing import InProcessMetastore
from tests.support.tables.data_files import data_files

KEYED = pa.schema([("id", pa.int64()), ("v", pa.string())])


def test_a_writer_whose_name_was_taken_over_is_fenced(metastore: InProcessMetastore, warehouse: Path) -> None:
    """C3, from the SDK: who registered last may commit, and nobody else under that name."""
    zombie, successor = Catalog(metastore, LocationStores()), Catalog(metastore, LocationStores())
    zombie.create_database("shop")
    zombie.create_table("shop.t", KEYED)
    rows = pa.table({"id": [1], "v": ["a"]}, schema=KEYED)
    assert zombie.last_identifier("w", "shop.t") is None
    first = zombie.register_writer("w")
    zombie.table("shop.t").append(rows, writer="w", identifier=1)
    begun = zombie.transaction(writer="w", identifier=2)
    begun.table("shop.t").append(rows)

    second = successor.register_writer("w")
    assert second > first
    assert successor.last_identifier("w", "shop.t") == 1
    files = data_files(warehouse)
    fenced = f"commits with epoch {first}, but a newer instance took the name over and has epoch {second}"
    with pytest.raises(Fenced, match=fenced):
        begun.commit()
    assert data_files(warehouse) == files, "what the fenced one wrote is gone"
    with pytest.raises(Fenced):
        zombie.table("shop.t").append(rows, writer="w", identifier=2)
    with pytest.raises(Fenced, match="commits with epoch 0"):
        Catalog(metastore, LocationStores()).table("shop.t").append(rows, writer="w", identifier=2)
    # A repeat of what was done is answered all the same, and other names are free.
    assert zombie.table("shop.t").append(rows, writer="w", identifier=1).already_applied
    zombie.table("shop.t").append(rows, writer="other", identifier=1)
    # A transaction begun before its own catalog registered is of the time before.
    early = successor.transaction(writer="w", identifier=2)
    early.table("shop.t").append(rows)
    assert successor.register_writer("w") > second
    with pytest.raises(Fenced):
        early.commit()
    successor.table("shop.t").append(rows, writer="w", identifier=2)
    assert successor.table("shop.t").snapshots().column("writer").to_pylist() == ["w", "other", "w"]


def test_a_pickled_catalog_is_the_same_instance() -> None:
    catalog = Catalog(GrpcMetastore("localhost:1"), LocationStores(), writer_epochs={"w": 7})
    copy = pickle.loads(pickle.dumps(catalog))
    assert (copy.writer_epoch("w"), copy.writer_epoch("other")) == (7, 0)
