"""Brokers that ask for passwords or certificates: wrong ones, right ones, others while the publisher runs.

And nothing that lakelog says or writes down holds a secret.
"""

from __future__ import annotations

import os
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

import lakelog
from lakelog.embedded.ports import free_port
from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import InvalidArgument, LakelogError, PermissionDenied
from lakelog.sdk.catalog import Catalog
from lakelog.sdk.tables.table import Table
from tests.support.certificates import TestAuthority
from tests.support.command import Command
from tests.support.forked_stack import ForkedStack
from tests.support.log.kafka_broker import require_kafka
from tests.support.log.secured_kafka import SecuredKafka

pytestmark = pytest.mark.e2e

SCHEMA = pa.schema([pa.field("k", pa.int64(), nullable=False), ("v", pa.string())])
PASSWORDS = {name: f"hunter2-{name}" for name in ("first", "second", "other", "wrong")}
WAIT_S = 40.0


@dataclass
class Lab:
    """A stack whose services know secrets by files, and all that anybody was told."""

    folder: Path
    kafka: SecuredKafka
    stack: EmbeddedStack
    metrics_port: int
    said: list[str] = field(default_factory=list)

    def keep_secret(self, name: str, value: str) -> None:
        (self.folder / "secrets" / name).write_text(value + "\n")

    def sasl(self, user: str = "lakelog", password: str = "password", **more: str) -> dict[str, str]:
        """Options of a table by their names behind `kafka.`, with underscores."""
        given = {
            "bootstrap_servers": self.kafka.sasl_servers,
            "security_protocol": "sasl_ssl",
            "sasl_mechanism": "scram-sha-512",
            "sasl_username": user,
            "sasl_password": f"secret:{password}",
            "ssl_ca_pem": "secret:ca",
            **more,
        }
        return to_options(given)

    def refuse(self, catalog: Catalog, options: dict[str, str], kind: type[LakelogError], *words: str) -> None:
        """A table is refused with these words, and nothing is left of it."""
        with pytest.raises(kind) as caught:
            catalog.create_table("shop.refused", SCHEMA, options=options)
        self.said.append(f"{caught.value!r} {caught.value} {caught.value.metadata}")
        for word in words:
            assert word in caught.value.message
        assert "refused" not in catalog.metastore.list_tables("shop")

    def read(self, table: Table, count: int) -> list[str]:
        """The values of so many records, as a consumer without credentials sees them."""
        topic = table._context.metastore.get_log(table.uuid).topic
        settings: dict[str, Any] = {"bootstrap.servers": self.kafka.bootstrap_servers, "group.id": "plain"}
        consumer = Consumer({**settings, "isolation.level": "read_committed"})
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
        found: list[str] = []
        give_up_s = time.monotonic() + WAIT_S
        while len(found) < count:
            assert time.monotonic() < give_up_s, f"{found}; {table._context.metastore.get_publish_state(table.uuid)}"
            message = consumer.poll(0.1)
            if message is not None and message.error() is None:
                found.append((message.value() or b"").decode())
        consumer.close()
        return found

    def wait_for_problem(self, table: Table) -> str:
        give_up_s = time.monotonic() + WAIT_S
        while not (problem := table._context.metastore.get_publish_state(table.uuid).problem):
            assert time.monotonic() < give_up_s, "nobody was told"
            time.sleep(0.05)
        return problem

    def find_secrets(self) -> list[str]:
        """Where a secret stands but in its file: in what was said, logs, metrics, the database, any other file."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.metrics_port}/metrics", timeout=10) as page:
            self.said.append(page.read().decode())
        with urllib.request.urlopen(f"http://127.0.0.1:{self.stack.metrics_port}/metrics", timeout=10) as page:
            self.said.append(page.read().decode())
        assert len(self.said) > 8
        secrets = [path.read_bytes().strip() for path in (self.folder / "secrets").iterdir()]
        secrets += [password.encode() for password in PASSWORDS.values()]
        # Of what has several lines one is enough.
        words = {max(secret.splitlines(), key=len) for secret in secrets}
        found = [text for text in self.said if any(word.decode() in text for word in words)]
        for path in (self.folder / "stack").rglob("*"):
            if path.is_file():
                content = path.read_bytes()
                found += [str(path) for word in words if word in content]
        return found


def to_options(given: dict[str, str]) -> dict[str, str]:
    return {"log.system": "kafka", **{f"kafka.{name.replace('_', '.')}": value for name, value in given.items()}}


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    require_kafka()
    with tempfile.TemporaryDirectory(prefix="ll-sec-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        authority = TestAuthority(folder / "authority")
        (folder / "secrets").mkdir()
        with SecuredKafka(folder, authority) as kafka:
            environment = {
                **os.environ,
                "LAKELOG_SECRETS_DIR": str(folder / "secrets"),
                "LAKELOG_KAFKA_BROKERS": kafka.ssl_servers,
            }
            stack = ForkedStack(folder / "stack", kafka_bootstrap_servers=kafka.sasl_servers, environment=environment)
            with stack:
                port = free_port()
                stack.add_publisher(arguments=["--metrics-port", str(port), "--log-level", "debug"])
                lab = Lab(folder, kafka, stack, port)
                lab.keep_secret("ca", authority.ca.certificate.read_text())
                lab.keep_secret("other-ca", TestAuthority(folder / "stranger").ca.certificate.read_text())
                client = authority.issue("lakelog")
                lab.keep_secret("certificate", client.certificate.read_text())
                lab.keep_secret("key", client.key.read_text())
                for name in ("wrong", "other"):
                    lab.keep_secret(name, PASSWORDS[name])
                lab.keep_secret("password", PASSWORDS["first"])
                kafka.set_password("lakelog", PASSWORDS["first"])
                kafka.set_password("someone", PASSWORDS["other"])
                yield lab


@pytest.fixture(scope="module")
def catalog(lab: Lab) -> Iterator[Catalog]:
    with lakelog.connect(lab.stack.target) as catalog:
        catalog.create_database("shop")
        yield catalog


def write(table: Table, value: str) -> None:
    table.append(pa.table({"k": [1], "v": [value]}, schema=SCHEMA))


def test_passwords(lab: Lab, catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> None:
    lab.refuse(catalog, lab.sasl(password="wrong"), PermissionDenied, "refuse", "Check credentials")
    lab.refuse(catalog, lab.sasl(user="nobody"), PermissionDenied, "refuse")
    lab.refuse(catalog, lab.sasl(ssl_ca_pem="secret:other-ca"), PermissionDenied, "certificate")
    lab.refuse(catalog, lab.sasl(password="unheard-of"), InvalidArgument, "secret:unheard-of", "LAKELOG_SECRET_")
    lab.refuse(catalog, {**lab.sasl(), "kafka.sasl.password": PASSWORDS["first"]}, InvalidArgument, "secret:NAME")
    lab.refuse(catalog, lab.sasl(ssl_ca_pem="secret:password"), InvalidArgument, "ssl.ca.pem", "secrets that they name")
    no_one = {name: value for name, value in lab.sasl().items() if name != "kafka.sasl.username"}
    lab.refuse(catalog, no_one, InvalidArgument, "username")
    table = catalog.create_table("shop.orders", SCHEMA, options=lab.sasl())
    write(table, "one")
    assert len(lab.read(table, 1)) == 1
    # The brokers know the new password first: connections that are open go on.
    lab.kafka.set_password("lakelog", PASSWORDS["second"])
    write(table, "two")
    assert len(lab.read(table, 2)) == 2
    # One that is lost is not opened again, which is told; nothing but the file needs to be replaced.
    lab.kafka.proxy.cut()
    write(table, "three")
    problem = lab.wait_for_problem(table)
    assert "Check credentials" in problem
    lab.said.append(problem)
    command = Command(catalog, capsys)
    for words in (
        ["log", "status"],
        ["log", "status", "-o", "json"],
        ["table", "describe", "shop.orders"],
        ["table", "show-create", "shop.orders"],
    ):
        code, *said = command(*words)
        assert code == 0
        lab.said += said
    lab.keep_secret("password", PASSWORDS["second"])
    assert len(lab.read(table, 3)) == 3
    assert catalog.metastore.get_publish_state(table.uuid).problem == ""
    # Another user: refused unless the brokers let it in, and used from the next connection on.
    with pytest.raises(PermissionDenied) as caught:
        table.alter(set={"kafka.sasl.username": "someone", "kafka.sasl.password": "secret:wrong"})
    lab.said.append(f"{caught.value!r} {caught.value}")
    table.alter(set={"kafka.sasl.username": "someone", "kafka.sasl.password": "secret:other"})
    lab.kafka.set_password("lakelog", "nobody has this one")
    lab.kafka.proxy.cut()
    write(table, "four")
    assert [value[-5:-2] for value in lab.read(table, 4)]
    assert "killed" not in (lab.stack.logs["publisher"]).read_text()
    assert lab.stack.is_running
    # Whoever verifies needs the secrets, too.
    code, *said = command("log", "verify", "shop.orders")
    assert code != 0
    assert "secret:" in said[1]
    lab.said += said


def test_certificates(lab: Lab, catalog: Catalog) -> None:
    given = {
        "bootstrap_servers": lab.kafka.ssl_servers,
        "security_protocol": "ssl",
        "ssl_ca_pem": "secret:ca",
        "ssl_certificate_pem": "secret:certificate",
        "ssl_key_pem": "secret:key",
    }
    without = {name: value for name, value in given.items() if name not in ("ssl_certificate_pem", "ssl_key_pem")}
    lab.refuse(catalog, to_options(without), PermissionDenied, "refuse")
    table = catalog.create_table("shop.certified", SCHEMA, options=to_options(given))
    write(table, "one")
    assert len(lab.read(table, 1)) == 1


def test_nothing_holds_a_secret(lab: Lab) -> None:
    """Last: of all that was said and written down by those before."""
    assert lab.find_secrets() == []
    lab.said.append(f"The password is {PASSWORDS['second']}.")
    assert lab.find_secrets() == lab.said[-3:-2], "the control: one that was said is not found"
