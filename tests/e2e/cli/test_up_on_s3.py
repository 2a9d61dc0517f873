"""`lakelog up --warehouse`: new tables on S3 or in another folder; the addresses that it prints."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from lakelog.storage.objects.store import S3Settings
from tests.e2e.cli.up import Up, run_command
from tests.support.s3.seaweedfs import s3_settings

__all__ = ["s3_settings"]


def test_tables_are_kept_on_s3(
    start_up: Callable[..., Up], s3_settings: S3Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {
        "--warehouse": "s3://lake/up",
        "--s3-endpoint": s3_settings.endpoint,
        "--s3-region": s3_settings.region,
        "--s3-access-key-id": s3_settings.access_key_id,
        "--s3-secret-access-key": s3_settings.secret_access_key,
    }
    up = start_up(None, None, *(str(part) for option in given.items() for part in option))
    facts = up.wait_until_ready()
    assert facts["warehouse"] == "s3://lake/up"
    said = up.output.read_text()
    assert "s3://lake/up" in said
    assert str(s3_settings.secret_access_key) not in said, "no secret is shown"
    with psycopg.connect(facts["database_url"]) as connection:
        assert connection.execute("SELECT count(*) FROM catalog_table").fetchone() == (0,)
    assert f"psql '{facts['database_url']}'" in said
    # Others need to sign in, too.
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_settings.endpoint or "")
    monkeypatch.setenv("AWS_REGION", s3_settings.region or "")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_settings.access_key_id or "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_settings.secret_access_key or "")
    assert up.run("database", "create", "shop").returncode == 0
    assert up.run("table", "create", "shop.t", "--schema", "id BIGINT").returncode == 0
    done = up.run("sql", "-e", "INSERT INTO shop.t VALUES (1), (2)")
    assert done.returncode == 0, done.stderr
    assert up.rows("scan", "shop.t") == [{"id": 1}, {"id": 2}]
    assert up.json("table", "describe", "shop.t")["location"].startswith("s3://lake/up/")
    assert not (up.data / "warehouse").exists()


@pytest.mark.parametrize("warehouse", ["http://lake/up", "file://host/folder", "s3:/lake/up", "s3:lake"])
def test_a_warehouse_of_another_kind_is_refused(warehouse: str, tmp_path: Path) -> None:
    done: subprocess.CompletedProcess[str] = run_command("up", "--data", str(tmp_path), "--warehouse", warehouse)
    assert done.returncode == 2
    assert f"--warehouse {warehouse}: give s3://bucket/prefix, or a folder of this machine." in done.stderr
