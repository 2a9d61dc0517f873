"""A metastore starts while the token service of its store is away, and vends no keys."""

from __future__ import annotations

import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog.client.connection.retry import RetryPolicy
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import NotFound, Unavailable
from lakelog.format.tables.table import TableName
from lakelog.storage.objects.store import S3Settings
from tests.integration.server.metastore_process import Process, run
from tests.support.s3.seaweedfs import VEND_ROLE, s3_settings

__all__ = ["s3_settings"]

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False)])


def test_a_metastore_starts_without_the_token_service(
    s3_settings: S3Settings, migrated_url: str, tmp_path: Path
) -> None:
    warehouse = f"s3://lake/{uuid.uuid4().hex}"
    arguments = ("--vend-role", VEND_ROLE, "--vend-endpoint", "http://127.0.0.1:1")
    variables = {
        "LAKELOG_S3_ENDPOINT": str(s3_settings.endpoint),
        "LAKELOG_S3_REGION": str(s3_settings.region),
        "LAKELOG_S3_ACCESS_KEY_ID": str(s3_settings.access_key_id),
        "LAKELOG_S3_SECRET_ACCESS_KEY": str(s3_settings.secret_access_key),
    }
    metastore = Process(migrated_url, warehouse, *arguments, log=tmp_path / "metastore.log", **variables)
    client = GrpcMetastore(metastore.target, retries=RetryPolicy(total_s=1))
    try:
        with pytest.raises(NotFound):
            client.vend_read_credentials("0" * 32)
        client.create_database("shop")
        table = client.create_table(TableName("shop", "t"), SCHEMA)[0]
        with pytest.raises(Unavailable, match="vends no keys yet"):
            client.vend_read_credentials(table.table_uuid)
        assert "no keys are vended; the store is checked again" in metastore.log.read_text()
    finally:
        client.close()
        metastore.end()
    # The control: the command that only checks fails, and says what is wrong.
    checked = run(
        "check", "--insecure-dev", "--database-url", migrated_url, "--warehouse", warehouse, *arguments, **variables
    )
    assert checked.returncode == 2
    assert "The store's token service http://127.0.0.1:1 cannot be used" in checked.stderr
