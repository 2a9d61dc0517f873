"""Doctor, bundle and watching against a real metastore: rights, planted secrets, and a metastore that goes away."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import pty
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from lakelog.cli.app import run
from lakelog.cli.commands.health import doctor
from lakelog.cli.commands.health.watching import Watcher
from lakelog.cli.doctor import surroundings
from lakelog.cli.doctor.check import run_checks
from lakelog.cli.invocation import Invocation
from lakelog.client.grpc.metastore import GrpcMetastore
from lakelog.format.jobs.work import Pipeline
from lakelog.privacy import redaction
from lakelog.serving.access import Access, Caller, Role, TokenEntry
from tests.support.metastore.making import append, make_table
from tests.support.metastore.serving import serving

CANARY = "cAnArY9f3b"

KEY = f"-----BEGIN PRIVATE KEY-----\nMII{CANARY}\n-----END PRIVATE KEY-----\n"

VARIABLES = {
    "LAKELOG_S3_ACCESS_KEY_ID": f"{CANARY}-id",
    "LAKELOG_S3_SECRET_ACCESS_KEY": f"{CANARY}-s3",
    "AWS_SESSION_TOKEN": f"{CANARY}-aws",
    "LAKELOG_SECRET_kafka": f"{CANARY}-sasl",
    "PGPASSWORD": f"{CANARY}-pg",
    "SOMETHING_ELSE": f"{CANARY}-foreign",
}


@pytest.fixture(autouse=True)
def forgetful(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_known", set())
    monkeypatch.setattr(redaction, "_pattern", None)
    for name in os.environ:
        if name.startswith(("LAKELOG_", "AWS_")):
            monkeypatch.delenv(name)


def token_of(role: Role) -> str:
    return f"{CANARY}-token-of-{role.name}"


@pytest.fixture
def target(migrated_url: str) -> Iterator[str]:
    tokens = tuple(
        TokenEntry(Caller(role.name.lower(), role), hashlib.sha256(token_of(role).encode()).digest()) for role in Role
    )
    with serving(migrated_url, access=Access(tokens=tokens)) as address:
        yield address


def examine(target: str, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, dict[str, Any]]:
    run(["-t", target, "doctor", "--output", "json", *arguments])
    # The metastore of this process has its lines there, too.
    said = capsys.readouterr().out
    document, _ = json.JSONDecoder().raw_decode(said, said.index("{\n"))
    return {each["name"]: each for each in document["checks"]}


@pytest.mark.parametrize("role", list(Role))
def test_what_a_token_may_is_said(target: str, capsys: pytest.CaptureFixture[str], role: Role) -> None:
    found = examine(
        target, capsys, "--token", token_of(role), "--only", "token", "--only", "clock", "--only", "problems"
    )
    if role is Role.USER:
        assert found["token"]["result"] == "warning"
        assert found["clock"]["result"] == "skipped"
    else:
        assert f"has the role {role.name.lower()}" in found["token"]["summary"]
        assert found["clock"]["result"] == "ok"
    assert found["problems"]["result"] in ("ok", "warning")


def test_a_wrong_token_fails_and_is_not_shown(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = examine(target, capsys, "--token", f"{CANARY}-wrong-token", "--only", "token", "--only", "services")
    assert found["token"]["result"] == "failed"
    assert found["services"]["result"] == "skipped"
    assert CANARY not in json.dumps(found)


def test_a_database_of_ones_own(
    migrated_url: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A busy machine starts no program within seconds.
    monkeypatch.setattr(surroundings, "_WITHIN_S", 60.0)
    monkeypatch.setattr(doctor, "run_checks", partial(run_checks, limit_s=60.0))
    url = migrated_url.replace("+psycopg", "")
    found = examine("127.0.0.1:1", capsys, "--only", "postgres", "--database-url", url)
    assert found["postgres"]["result"] == "ok", found
    wrong = examine(
        "127.0.0.1:1", capsys, "--only", "postgres", "--database-url", f"postgresql://u:{CANARY}@127.0.0.1:1/x"
    )
    assert wrong["postgres"]["result"] == "failed"
    assert CANARY not in json.dumps(wrong)


def test_a_real_broker(kafka_broker: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = examine("127.0.0.1:1", capsys, "--only", "kafka", "--kafka", kafka_broker)
    assert found["kafka"]["result"] == "ok", found
    assert "transactions are possible" in found["kafka"]["summary"]


def plant(folder: Path) -> None:
    logs = folder / "logs"
    logs.mkdir(parents=True)
    lines = [
        f"connecting to postgresql://ann:{CANARY}@db/lake",
        json.dumps({"event": "x", "authorization": f"Bearer {CANARY}abcdef"}),
        f"sasl.password={CANARY} sasl.jaas.config='x password=\"{CANARY}\"'",
        f"eyJhbGciOiJSUzI1NiJ9.{CANARY}.{CANARY}",
        KEY,
        f"known {CANARY}-s3 in the middle",
        "a line that helps",
    ]
    (logs / "metastore.log").write_text("\n".join(lines))
    (logs / "large.log").write_text(f"password={CANARY}\n" + "filler\n" * 500_000 + "the end\n")


def read_bundle(file: Path) -> dict[str, str]:
    assert CANARY.encode() not in gzip.decompress(file.read_bytes())
    with tarfile.open(file) as tar:
        return {each.name.partition("/")[2]: tar.extractfile(each).read().decode() for each in tar}  # type: ignore[union-attr]


@pytest.mark.parametrize("is_away", [False, True])
def test_a_bundle_has_no_secret(
    target: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, is_away: bool
) -> None:
    token, key = tmp_path / "token", tmp_path / "key.pem"
    token.write_text(token_of(Role.ADMIN))
    key.write_text(KEY)
    for name, value in VARIABLES.items():
        monkeypatch.setenv(name, value)
    plant(tmp_path / "data")
    with closing(GrpcMetastore(target, token=token_of(Role.ADMIN))) as metastore:
        table = make_table(metastore, options={"bucket": "4"})
        append(metastore, table, 1)
        lease = metastore.acquire_lease("pipeline/p", "h", 60_000)
        source = f"kafka://u:{CANARY}@h/topic"
        failed = Pipeline("p", str(table.name), source, "failed", None, "", None, 0, 0, f"password={CANARY}")
        metastore.report_pipeline(failed, lease.epoch)
    file = tmp_path / "b.tar.gz"
    words = ["-t", "127.0.0.1:1" if is_away else target, "--token-file", str(token)]
    words += ["support-bundle", "-o", str(file), "--data", str(tmp_path / "data"), "--output", "json"]
    assert run(words) == 0, capsys.readouterr().err
    said = capsys.readouterr().out
    assert CANARY not in said
    assert file.stat().st_mode & 0o077 == 0
    found = read_bundle(file)
    manifest = json.loads(found["manifest.json"])
    assert {each["name"] for each in manifest["files"]} | {"manifest.json"} == set(found)
    assert "a line that helps" in found["logs/metastore.log"]
    assert found["logs/large.log"].endswith("the end\n")
    assert len(found["logs/large.log"]) <= 2 << 20
    assert "SOMETHING_ELSE" not in found["configuration.json"]
    left_out = {each["name"] for each in manifest["left_out"]}
    if is_away:
        assert left_out == {"tables.json", "jobs.json", "pipelines.json", "overview.json"}
    else:
        assert not left_out
        (described,) = json.loads(found["tables.json"])["tables"]
        assert (described["name"], described["options"]) == (str(table.name), {"bucket": "4"})
        assert len(described["newest_snapshots"]) == 1
    assert run(words) == 4, "it is there already"


def test_control_without_masks_the_bundle_has_secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(tmp_path / "data")
    monkeypatch.setattr("lakelog.cli.bundle.writing.mask", lambda text: text)
    file = tmp_path / "b.tar.gz"
    assert run(["-t", "127.0.0.1:1", "support-bundle", "-o", str(file), "--data", str(tmp_path / "data")]) == 0
    assert CANARY.encode() in gzip.decompress(file.read_bytes())


def test_a_metastore_that_goes_away_is_shown_until_it_is_back(migrated_url: str) -> None:
    with serving(migrated_url) as target:
        watcher = Watcher(Invocation(target=target, target_given=True))
        first = watcher.look()
        assert not first.is_away
    away = watcher.look()
    assert away.is_away
    assert away.health is not None, "what was known last stays"
    assert away.seen_ms == first.seen_ms
    with serving(migrated_url) as target:
        watcher._invocation = Invocation(target=target, target_given=True)
        assert not watcher.look().is_away


@pytest.mark.parametrize("no_color", [False, True])
def test_a_full_screen_ends_by_a_key_and_leaves_the_terminal_as_it_was(migrated_url: str, no_color: bool) -> None:
    with serving(migrated_url) as target:
        screen, end = pty.openpty()
        environment = os.environ | {"TERM": "xterm", **({"NO_COLOR": "1"} if no_color else {})}
        command = [sys.executable, "-m", "lakelog", "-t", target, "status", "--watch"]
        process = subprocess.Popen(command, stdin=end, stdout=end, stderr=end, env=environment, close_fds=True)
        os.close(end)
        shown = _read_until(screen, lambda text: "SERVING" in text and "Nothing is wrong" in text)
        os.write(screen, b"q")
        shown += _read_until(screen, lambda text: "\x1b[?1049l" in text)
        assert process.wait(20) == 0
        os.close(screen)
    assert ("\x1b[32m" in shown) != no_color


def _read_until(screen: int, is_there: Callable[[str], bool]) -> str:
    text, give_up_s = "", time.monotonic() + 30
    while not is_there(text):
        assert time.monotonic() < give_up_s, text
        text += os.read(screen, 65536).decode(errors="replace")
    return text
