"""Secrets are blotted out of logs, errors and what commands print; representations and pickles have none."""

from __future__ import annotations

import dataclasses
import io
import logging
import os
import pickle
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

import lakelog
from lakelog.cli.failures import describe_error
from lakelog.cli.invocation import Invocation
from lakelog.cli.output.output_format import OutputFormat
from lakelog.client.connection.reader_target import ReaderTarget
from lakelog.client.connection.target import parse_target
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.config import FromEnvironment, read_connect_settings, read_s3_settings
from lakelog.embedded.services import service_command, service_environment
from lakelog.errors import InvalidArgument, LakelogError
from lakelog.log.client_settings import to_client_settings
from lakelog.log.secrets import read_secrets
from lakelog.options.option import Scope
from lakelog.options.registry import find_option
from lakelog.privacy import redaction
from lakelog.privacy.redaction import blot_out, blot_out_forms, remember_secrets
from lakelog.serving.access import parse_token_file
from lakelog.serving.logging_setup import route_logging
from lakelog.spark.connection import make_connection
from lakelog.storage.objects.s3 import S3Store
from lakelog.storage.objects.stores import LocationStores, open_store
from metastore.config import parse_command
from tests.support.log_settings import kept_log_settings

CANARY = "cAnArY9f3b"

SECRETS = {
    "LAKELOG_TOKEN": f"{CANARY}-token",
    "LAKELOG_DATABASE_URL": f"postgresql://ann:{CANARY}%2Fdb@127.0.0.1:1/lake",
    "LAKELOG_S3_ACCESS_KEY_ID": f"{CANARY}-id",
    "LAKELOG_S3_SECRET_ACCESS_KEY": f"{CANARY}-key",
    "LAKELOG_S3_SESSION_TOKEN": f"{CANARY}-session",
    "AWS_SECRET_ACCESS_KEY": f"{CANARY}-aws",
    "LAKELOG_SECRET_kafka": f'{CANARY}-"kafka"',
    "PGPASSWORD": f"{CANARY}-pg",
}
"""A secret in each variable that holds one."""

VALUES = [
    *(value for name, value in SECRETS.items() if name not in ("LAKELOG_DATABASE_URL", "LAKELOG_S3_ACCESS_KEY_ID")),
    f"{CANARY}%2Fdb",
    f"{CANARY}/db",
]


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a test has remembered is forgotten afterwards."""
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_pattern", None)


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    for name in os.environ:
        if name.startswith(("LAKELOG_", "AWS_")):
            monkeypatch.delenv(name)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    return dict(os.environ)


@pytest.fixture
def lines() -> Iterator[Callable[[], str]]:
    """All lines of a service's log."""
    stream = io.StringIO()
    with kept_log_settings():
        route_logging("debug", stream, chatty=())
        yield stream.getvalue


def log_everywhere(secret: str) -> None:
    """As a careless line of ours, a field, something inside it, a traceback, and a line of a library."""
    log = structlog.get_logger()
    log.info(f"connecting with {secret}")
    log.debug("connecting", how=secret, more={"list": [secret, (secret,)]})
    try:
        raise ValueError(f"cannot use {secret}")
    except ValueError as error:
        log.error("failed", exc_info=error)
        logging.getLogger("library").exception("failed with %s", secret)


@pytest.mark.parametrize("secret", VALUES)
def test_no_line_of_a_log_has_a_secret_that_the_process_knows(lines: Callable[[], str], secret: str) -> None:
    remember_secrets(SECRETS)
    log_everywhere(secret)
    assert CANARY not in lines()
    assert lines().count("***") >= 7


def test_control_without_it_a_log_has_all_of_them(lines: Callable[[], str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.serving.logging_setup.blot_out", lambda line: line)
    remember_secrets(SECRETS)
    log_everywhere(VALUES[0])
    assert lines().count(CANARY) >= 7


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("postgresql://ann:pa:ss@h:5/db is away", "postgresql://ann:***@h:5/db is away"),
        ("the target 'user:pass@h:1'", "the target 'user:***@h:1'"),
        ("s3:/id:key@bucket/x", "s3:/id:***@bucket/x"),
        ("authorization: Bearer abc.def", "authorization: Bearer ***"),
        ("'sasl.password': 'abc'", "'sasl.password': '***'"),
        ("host=h password=abc user=u", "host=h password=*** user=u"),
        ("OPTIONS ('kafka.sasl.password' = 'abc')", "OPTIONS ('kafka.sasl.password' = '***')"),
        ("secret_access_key=abc&x=1", "secret_access_key=***&x=1"),
    ],
)
def test_what_looks_like_a_secret_is_blotted_out_without_being_known(text: str, expected: str) -> None:
    assert blot_out_forms(text) == blot_out(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "12:30:45 snapshot 7 of shop.orders",
        "Give 'secret:NAME', and the secret to the service as LAKELOG_SECRET_NAME.",
        "ann@example.com wrote 3 rows at 10:00",
        "file:///warehouse/0a/data, s3://bucket/x, http://h:80/metrics, [::1]:7450",
        "The token must have 1 to 4096 characters.",
    ],
)
def test_other_texts_stay_as_they_are(text: str) -> None:
    shown = {
        "LAKELOG_SECRETS_DIR": "/run/secrets/all",
        "LAKELOG_TOKEN_FILE": "/x/tokens",
        "LAKELOG_SERVER_TOKEN_KEYS": "https://i.test/keys",
        "LAKELOG_SERVER_TOKEN_ISSUER": "https://i.test/",
        "LAKELOG_SERVER_TOKEN_AUDIENCE": "an-audience",
        "LAKELOG_SERVER_TOKEN_ROLE_CLAIM": "lakelog_role",
        "LAKELOG_SERVER_TOKEN_KEYS_CA": "/x/ca.pem",
    }
    remember_secrets({"LAKELOG_TOKEN": "short", **shown})
    assert blot_out(text) == text
    assert blot_out(" and ".join(shown.values())) == " and ".join(shown.values())


def test_a_secret_of_the_folder_is_blotted_out_once_it_was_used(tmp_path: Path) -> None:
    (tmp_path / "kafka").write_text(f"{CANARY}-file\n")
    secrets = read_secrets({"LAKELOG_SECRETS_DIR": str(tmp_path)})
    assert blot_out(secrets.resolve("kafka")) == "***"


# What objects show of themselves, and what they pickle


def make_objects(environment: dict[str, str]) -> dict[str, Any]:
    settings = read_connect_settings(environment, target="localhost:1", tls=False)
    s3 = read_s3_settings(environment)
    catalog = lakelog.connect("localhost:1", tls=False)
    options = {
        "kafka.bootstrap.servers": "h:1",
        "kafka.security.protocol": "sasl_ssl",
        "kafka.sasl.mechanism": "plain",
        "kafka.sasl.username": "ann",
        "kafka.sasl.password": "secret:kafka",
    }
    command = ["serve", "--warehouse", "/w", "--insecure-dev"]
    return {
        "settings": settings,
        "s3": s3,
        "store": S3Store("b", "p", s3),
        "stores": LocationStores(s3),
        "metastore": GrpcMetastore("localhost:1", token=settings.token),
        "reader": ReaderTarget((), None, settings.token),
        "catalog": catalog,
        "context": catalog.context,
        "spark": make_connection("localhost:1", tls=False, tls_ca=None, tls_cert=None, tls_key=None, token=None),
        "spark with a token": make_connection(
            "localhost:1", tls=False, tls_ca=None, tls_cert=None, tls_key=None, token=f"{CANARY}-given"
        ),
        "secrets": read_secrets(environment),
        "kafka": to_client_settings(options, read_secrets(environment)),
        "tokens": parse_token_file(f"ann admin {CANARY}-0123456789\n", "tokens"),
        "invocation": Invocation(token=f"{CANARY}-cli"),
        "metastore's settings": parse_command(command, environment),
    }


KINDS = [
    "settings",
    "s3",
    "store",
    "stores",
    "metastore",
    "reader",
    "catalog",
    "context",
    "spark",
    "spark with a token",
    "secrets",
    "kafka",
    "tokens",
    "invocation",
    "metastore's settings",
]

PICKLED = [
    "settings",
    "s3",
    "store",
    "stores",
    "metastore",
    "reader",
    "catalog",
    "context",
    "spark",
    "spark with a token",
    "secrets",
]
"""What programs, our own tasks in Spark included, send to other processes."""


@pytest.mark.parametrize("kind", KINDS)
def test_no_representation_has_a_secret(environment: dict[str, str], kind: str) -> None:
    shown = make_objects(environment)[kind]
    assert CANARY not in f"{shown!r} {shown}".replace(f"{CANARY}-id", ""), "the id of a key is none"
    if dataclasses.is_dataclass(shown):
        assert CANARY not in repr(shown).replace(f"{CANARY}-id", "")


@pytest.mark.parametrize("kind", PICKLED)
def test_what_is_pickled_has_references_in_place_of_secrets(environment: dict[str, str], kind: str) -> None:
    sent = make_objects(environment)[kind]
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        data = pickle.dumps(sent, protocol=protocol)
        assert CANARY.encode() not in data
    if kind in ("settings", "s3", "store"):
        assert pickle.loads(data) == sent, "here the variables are the same"


def test_control_a_token_that_was_given_without_a_reference_is_sent(environment: dict[str, str]) -> None:
    data = pickle.dumps(GrpcMetastore("localhost:1", token=f"{CANARY}-given"))
    assert CANARY.encode() in data


def test_who_receives_a_reference_needs_the_variable(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = pickle.dumps(read_connect_settings(environment, target="localhost:1", tls=False))
    monkeypatch.setenv("LAKELOG_TOKEN", "another-here")
    token = pickle.loads(data).token
    assert token == "another-here"
    assert isinstance(token, FromEnvironment)
    monkeypatch.delenv("LAKELOG_TOKEN")
    with pytest.raises(InvalidArgument, match="LAKELOG_TOKEN is not set in this process"):
        pickle.loads(data)


# Errors


REFUSED: dict[str, Callable[[], Any]] = {
    "target": lambda: parse_target(f"ann:{CANARY}@h:1"),
    "url": lambda: parse_target(f"http://ann:{CANARY}@h:1"),
    "location": lambda: open_store(f"file://ann:{CANARY}@h/x"),
    "scheme": lambda: open_store(f"gs://ann:{CANARY}@h/x"),
    "endpoint": lambda: S3Store(
        "b", "p", dataclasses.replace(read_s3_settings({}), endpoint=f"ftp://a:{CANARY}@h")
    ).size("x"),
    "brokers": lambda: find_option("kafka.bootstrap.servers", Scope.TABLE).parse(f"ann:{CANARY}@h:1"),
    "password": lambda: find_option("kafka.sasl.password", Scope.TABLE).parse(CANARY),
    "tokens": lambda: parse_token_file(f"{CANARY}0123456789 admin ann\n", "tokens"),
    "roles": lambda: parse_token_file(f"{CANARY}0123456789 ann admin\n", "tokens"),
    "words": lambda: parse_token_file(f"ann admin {CANARY} 0123456789\n", "tokens"),
}


@pytest.mark.parametrize("what", list(REFUSED))
def test_no_refusal_repeats_a_secret(what: str) -> None:
    with pytest.raises(LakelogError) as error:
        REFUSED[what]()
    assert CANARY not in f"{error.value} {error.value.metadata}"


def test_the_command_prints_no_secret_of_an_error() -> None:
    remember_secrets(SECRETS)
    error = InvalidArgument(f"no: {VALUES[0]}", metadata={"value": VALUES[0]})
    for output in OutputFormat:
        assert CANARY not in describe_error(error, output)


# Processes


START: dict[str, tuple[str, list[str]]] = {
    "database": ("metastore", ["check", "--warehouse", "/w", "--insecure-dev"]),
    "warehouse": ("metastore", ["check", "--warehouse", f"s3:/id:{CANARY}@b/x", "--insecure-dev"]),
    "brokers": ("metastore", ["serve", "--warehouse", "/w", "--insecure-dev", "--kafka-brokers", f"u:{CANARY}@h:1"]),
    "token for its file": ("metastore", ["check", "--warehouse", "/w", "--insecure-dev", "--token-file", CANARY]),
    "unknown argument": ("metastore", ["serve", "--tokn", CANARY]),
    "unknown argument with =": ("compactor", ["run", f"--tokn={CANARY}", CANARY]),
    "compactor": ("compactor", ["run", "--target", "far.example:1"]),
    "reader": ("reader", ["serve", "--target", f"http://u:{CANARY}@h:1", "--insecure-dev"]),
    "spark": ("compactor", ["run", "--target", "localhost:1", "--spark-conf", f"spark.secret {CANARY}"]),
    "writer": ("writer", ["check", "--target", f"http://u:{CANARY}@h:1", f"{CANARY}.yaml"]),
}


@pytest.mark.parametrize("what", list(START))
def test_a_service_that_cannot_start_prints_no_secret(what: str, environment: dict[str, str], tmp_path: Path) -> None:
    service, arguments = START[what]
    done = subprocess.run(
        service_command(service, arguments),
        env=service_environment(service, environment),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode
    shown = (done.stdout + done.stderr).replace(f"{CANARY}.yaml", "")
    assert shown.strip()
    assert CANARY not in shown


def test_a_command_prints_no_secret(environment: dict[str, str], tmp_path: Path) -> None:
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    for arguments in (
        ["-t", "localhost:1", "--token", f"{CANARY}-given", "-v", "database", "list"],
        ["-t", f"http://u:{CANARY}@h:1", "status"],
        ["-t", f"u:{CANARY}@h:1", "status"],
        ["-t", "localhost:1", "status"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", "lakelog", *arguments],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode
        assert CANARY not in done.stdout + done.stderr


def test_two_threads_that_remember_at_once_forget_neither(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_pattern", None)
    compile_pattern = re.compile
    others: list[threading.Thread] = []

    def compile_late(pattern: str) -> Any:
        if not others:
            others.append(threading.Thread(target=redaction.remember_secret, args=("secret-of-another",)))
            others[0].start()
            # Time enough to overtake this one, if nothing holds it back.
            others[0].join(0.3)
        return compile_pattern(pattern)

    monkeypatch.setattr(re, "compile", compile_late)
    redaction.remember_secret("secret-of-this-one")
    others[0].join()
    assert blot_out("secret-of-this-one secret-of-another") == "*** ***"
