from __future__ import annotations

import pytest
from sqlalchemy import Column, Integer, MetaData, Table

from dev.check import ROOT
from dev.checks import migrations
from metastore.postgres.schema.all_tables import metadata


def test_a_table_without_a_migration_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    assert migrations.find_problems(ROOT) == []
    declared = MetaData()
    for table in metadata.sorted_tables:
        table.to_metadata(declared)
    Table("forgotten", declared, Column("id", Integer, primary_key=True))
    monkeypatch.setattr("metastore.postgres.schema.migration.metadata", declared)
    (problem,) = migrations.find_problems(ROOT)
    assert "add_table" in problem
    assert "forgotten" in problem
