"""Neither the metastore's log nor its answers, metrics and audit lines repeat what a caller has sent as a secret."""

from __future__ import annotations

import urllib.request
from collections.abc import Callable
from pathlib import Path

import grpc
import pyarrow as pa
import pytest

from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.errors import LakelogError, PermissionDenied
from lakelog.format.tables.table import TableName
from tests.integration.server.metastore_process import Process
from tests.integration.server.running_server import failure_of

CANARY = "cAnArY9f3b0123456789"

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False)])

SENT = (
    ("authorization", f"Bearer {CANARY}"),
    ("authorization", CANARY),
    ("authorization", f"Basic {CANARY}"),
    ("authorization", f"Bearer {CANARY} {CANARY}"),
)

OPTIONS = (
    {"kafka.sasl.password": CANARY},
    {"kafka.sasl.jaas.config": f'x required username="ann" password="{CANARY}";'},
    {"kafka.bootstrap.servers": f"ann:{CANARY}@h:9092"},
    {"kafka.ssl.key.pem": f"-----BEGIN PRIVATE KEY-----{CANARY}"},
    {"kafka.sasl.oauthbearer.client.secret": CANARY},
    {"sasl.password": CANARY},
)


@pytest.fixture
def metastore(serve: Callable[..., Process], tmp_path: Path, postgres_url: str) -> Process:
    tokens = tmp_path / "tokens"
    tokens.write_text("eve admin admin-token-0123456789\n")
    return serve(postgres_url, "--token-file", str(tokens), "--log-level", "debug", "--kafka-brokers", "h:9092")


def test_refused_credentials_are_in_no_line(metastore: Process) -> None:
    for name, value in SENT:
        code, details = failure_of(metastore.target, "CatalogService/ListDatabases", metadata=((name, value),))
        assert code is grpc.StatusCode.UNAUTHENTICATED
        assert CANARY not in details
    client = GrpcMetastore(metastore.target, token=CANARY)
    with pytest.raises(PermissionDenied) as refused:
        client.create_database("shop")
    client.close()
    assert CANARY not in str(refused.value)
    log = metastore.log.read_text()
    assert log.count("refused") >= len(SENT)
    assert CANARY not in log


def test_secrets_in_the_place_of_references_are_in_no_line(metastore: Process) -> None:
    client = GrpcMetastore(metastore.target, token="admin-token-0123456789")
    client.create_database("shop")
    for options in OPTIONS:
        with pytest.raises(LakelogError) as refused:
            client.create_table(TableName("shop", "t"), SCHEMA, options={"log.system": "kafka", **options})
        assert CANARY not in f"{refused.value} {refused.value.metadata}"
    client.close()
    log = metastore.log.read_text()
    assert log.count("CreateTable") >= len(OPTIONS)
    assert CANARY not in log
    assert "admin-token-0123456789" not in log
    with urllib.request.urlopen(f"{metastore.metrics_url}") as metrics:
        text = metrics.read().decode()
    assert "lakelog_metastore" in text
    assert CANARY not in text
    assert "admin-token" not in text
