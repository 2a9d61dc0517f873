"""The checks of `lakelog doctor` one by one, and how they run together: in time, and whatever one of them does."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lakelog.cli.app import run
from lakelog.cli.commands.health import serving
from lakelog.cli.commands.health.doctor import _to_lines, describe_result
from lakelog.cli.commands.health.serving import ServingState
from lakelog.cli.doctor import machine, services, surroundings
from lakelog.cli.doctor.check import Check, Finding, Result, Verdict, fine, run_checks
from lakelog.cli.doctor.checks import CHECKS
from lakelog.cli.doctor.situation import DiskUsage, Situation
from lakelog.cli.invocation import Invocation
from lakelog.embedded.ports import free_port
from lakelog.errors import PermissionDenied, Unavailable
from lakelog.format.jobs.presence import Service, ServiceState

MIB = 1 << 20


def situation(data: Path, environment: Mapping[str, str] | None = None, **changes: Any) -> Situation:
    invocation = Invocation(target=changes.pop("target", f"127.0.0.1:{free_port()}"), target_given=True)
    return Situation(invocation, environment or {}, data, **changes)


def test_all_checks_have_names_and_remedies() -> None:
    assert len({check.name for check in CHECKS}) == len(CHECKS)
    assert all(check.remedy and check.about for check in CHECKS)


def test_an_old_python_and_one_of_32_bits_fail() -> None:
    assert machine.judge_python((3, 11, 2), True, "p").verdict is Verdict.OK
    old, narrow = machine.judge_python((3, 10, 9), True, "p"), machine.judge_python((3, 12, 0), False, "p")
    assert old.verdict is narrow.verdict is Verdict.FAILED
    assert "3.10.9" in old.summary
    assert old.remedy


def test_packages_that_are_missing_or_too_old_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = machine.list_versions()
    assert machine.check_packages(situation(tmp_path)).verdict is Verdict.OK

    def find(without: str, **others: str) -> Finding:
        versions = {name: each for name, each in found.items() if name != without} | others
        monkeypatch.setattr(machine, "_find_version", versions.get)
        return machine.check_packages(situation(tmp_path))

    assert "pyarrow is not installed" in find("pyarrow").summary
    assert find("pyarrow").verdict is Verdict.FAILED
    assert "without the extras sql" in find("duckdb").summary
    monkeypatch.setattr(machine, "_list_requirements", lambda: [("grpcio", "1.80")])
    assert "grpcio 1.9.1, and lakelog needs 1.80" in find("", grpcio="1.9.1").summary


def make_java(folder: Path, version: str, *, runs: bool = True) -> Path:
    (folder / "bin").mkdir(parents=True)
    (folder / "release").write_text(f'JAVA_VERSION="{version}"\n')
    java = folder / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version {version}' >&2\nexit {0 if runs else 1}\n")
    java.chmod(0o755)
    return folder


def test_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakelog.embedded.java._packaged_home", lambda: None)
    new, old = make_java(tmp_path / "new", "21.0.1"), make_java(tmp_path / "old", "1.8.0_402")
    broken = make_java(tmp_path / "broken", "21.0.1", runs=False)

    def check(home: Path, path: str = "") -> Finding:
        return machine.check_java(situation(tmp_path, {"JAVA_HOME": str(home), "PATH": path}))

    assert check(new).verdict is Verdict.OK
    assert "21.0.1" in check(new).summary
    assert check(old).verdict is Verdict.FAILED
    assert "is Java 8" in check(old).summary
    assert check(tmp_path / "none").verdict is Verdict.FAILED
    assert check(broken).verdict is Verdict.FAILED
    other = check(old, str(new / "bin"))
    without_file = make_java(tmp_path / "without", "21.0.1")
    (without_file / "release").unlink()
    lines = ("java.version = 21.0.1", "java.vendor.url.bug = ", "path.separator = :")
    (without_file / "bin" / "java").write_text("#!/bin/sh\n" + "".join(f"echo '    {line}' >&2\n" for line in lines))
    assert check(without_file).verdict is Verdict.OK
    assert other.verdict is Verdict.WARNING
    assert str(old) in other.summary


@pytest.mark.parametrize(
    ("free_bytes", "verdict"),
    [
        (100 * MIB, Verdict.FAILED),
        (500 * MIB, Verdict.WARNING),
        (2_000 * MIB, Verdict.WARNING),
        (50_000 * MIB, Verdict.OK),
    ],
)
def test_a_full_disk(tmp_path: Path, free_bytes: int, verdict: Verdict) -> None:
    found = machine.check_disk(situation(tmp_path, measure_disk=lambda _: DiskUsage(100_000 * MIB, free_bytes)))
    assert found.verdict is verdict
    assert str(tmp_path) in found.details[0]
    assert bool(found.remedy) == (verdict is not Verdict.OK)


def test_files_with_secrets_that_others_can_read(tmp_path: Path) -> None:
    token = tmp_path / "a token"
    token.write_text("x")
    token.chmod(0o644)
    found = machine.check_folders(situation(tmp_path, {"LAKELOG_TOKEN_FILE": str(token)}))
    assert (found.verdict, found.remedy) == (Verdict.WARNING, f"chmod go= '{token}'")
    token.chmod(0o600)
    assert machine.check_folders(situation(tmp_path, {"LAKELOG_TOKEN_FILE": str(token)})).verdict is Verdict.OK


@pytest.mark.parametrize(
    ("theirs_ms", "verdict"),
    [
        (100_000_000, Verdict.OK),
        (100_001_900, Verdict.OK),
        (100_003_000, Verdict.WARNING),
        (99_900_000, Verdict.FAILED),
        (0, Verdict.SKIPPED),
    ],
)
def test_clocks_that_differ(theirs_ms: int, verdict: Verdict) -> None:
    assert services.judge_clock(theirs_ms, 99_999_950, 100_000_050).verdict is verdict


def test_a_slow_answer_is_no_skew() -> None:
    assert services.judge_clock(100_000_000, 99_990_000, 100_000_100).verdict is Verdict.OK


def test_metrics_that_look_wrong() -> None:
    page = """# HELP x y
process_open_fds 900.0
process_max_fds 1024.0
lakelog_metastore_jobs{kind="compact",state="failed"} 3.0
lakelog_metastore_jobs{kind="compact",state="due"} 9.0
lakelog_metastore_log_problems{table="a.b"} 1.0
lakelog_metastore_waiting_work_age_seconds{of=""} 900.0
other_total NaN
"""
    wrong = services.judge_metrics(page)
    for word in ("900 of 1024 files", "3 jobs have failed", 'table="a.b"', "15 min ago", "other_total is no number"):
        assert any(word in line for line in wrong), word
    assert len(wrong) == 5
    assert services.judge_metrics("process_open_fds 9.0\nprocess_max_fds 1024.0\n") == []
    assert services.judge_metrics("<html>") == ["there are no metrics on its page"]


def test_a_check_that_hangs_or_breaks_fails_and_the_others_go_on(tmp_path: Path) -> None:
    never = threading.Event()

    def hang(_: Situation) -> Finding:
        never.wait(30)
        return fine("")

    def raise_(error: Exception) -> Any:
        def check(_: Situation) -> Finding:
            raise error

        return check

    checks = [
        Check("hangs", "", hang, "wake it"),
        Check("away", "", raise_(Unavailable("No answer.")), "start it"),
        Check("refused", "", raise_(PermissionDenied("Not for you.")), ""),
        Check("broken", "", raise_(ZeroDivisionError("by\nzero")), "report it"),
        Check("fine", "", lambda _: fine("good"), ""),
    ]
    found = {each.check.name: each.finding for each in run_checks(checks, situation(tmp_path), limit_s=1.0)}
    never.set()
    assert [found[check.name].verdict for check in checks] == [
        Verdict.FAILED,
        Verdict.FAILED,
        Verdict.SKIPPED,
        Verdict.FAILED,
        Verdict.OK,
    ]
    assert (found["hangs"].summary, found["hangs"].remedy) == ("It did not end within 1 s.", "wake it")
    assert (found["away"].summary, found["away"].remedy) == ("No answer.", "start it")
    assert found["broken"].summary == "The check itself failed with ZeroDivisionError: by zero."


def test_the_warehouse_is_probed_and_left_as_it_was(tmp_path: Path) -> None:
    table = tmp_path / ("a" * 32)
    table.mkdir()
    found = surroundings.check_warehouse(situation(tmp_path, warehouse=str(tmp_path)))
    assert found.verdict is Verdict.OK
    assert list(tmp_path.iterdir()) == [table]
    missing = surroundings.check_warehouse(situation(tmp_path, warehouse=f"file://{tmp_path}/none"))
    assert missing.verdict is Verdict.FAILED


def test_an_endpoint_that_refuses_is_said_in_time(tmp_path: Path) -> None:
    port = free_port()
    checks = [each for each in CHECKS if each.name == "warehouse"]
    where = f"s3://bucket/x?endpoint=http://127.0.0.1:{port}&region=us-east-1"
    (found,) = run_checks(checks, situation(tmp_path, warehouse=where))
    assert found.finding.verdict in (Verdict.FAILED, Verdict.WARNING)
    assert "did not end" not in found.finding.summary


@pytest.fixture
def silent_port() -> Iterator[int]:
    """A port at which something listens and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield listening.getsockname()[1]


def test_a_process_that_hangs_is_not_taken_for_another_program(
    tmp_path: Path, silent_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "_WITHIN_S", 0.5)
    where = situation(tmp_path, target=f"127.0.0.1:{silent_port}")
    found, port = services.check_metastore(where), machine.check_ports(where)
    assert (found.verdict, port.verdict) == (Verdict.FAILED, Verdict.WARNING)
    assert "no answer within 0.5 s" in found.summary
    assert "it is no metastore" not in port.summary


def test_a_service_that_was_started_again_is_a_warning_that_says_so(tmp_path: Path) -> None:
    def service(kind: str, pid: int, silent_ms: int, started_at_ms: int) -> Service:
        state = ServiceState.RUNNING
        return Service(kind, f"{pid:032x}", "h", pid, "1", state, (), "", started_at_ms, silent_ms, 30_000)

    where, now_ms = situation(tmp_path), 1_000_000
    where.__dict__["serving"] = ServingState("SERVING", 1.0, "")
    where.__dict__["has_database"] = True
    where.invocation.__dict__["catalog"] = SimpleNamespace(overview=lambda: SimpleNamespace(now_ms=now_ms))
    dead, again = service("compactor", 1, 60_000, 0), service("compactor", 2, 0, now_ms - 50_000)
    where.__dict__["services"] = [dead, again]
    found = services.check_services(where)
    assert found.verdict is Verdict.WARNING
    assert "compactor 1 on h" in found.summary
    assert "compactor 1 on h: gone, replaced by 2" in found.details
    where = situation(tmp_path)
    where.__dict__.update(services=[dead], successors={})
    assert services.check_services(where).verdict is Verdict.FAILED


def test_a_database_that_hangs_is_named_and_nothing_else_is_blamed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.cli.doctor.situation.DATABASE_WITHIN_S", 0.3)
    never = threading.Event()
    invocation = Invocation(open_catalog=lambda _: SimpleNamespace(overview=never.wait))  # type: ignore[arg-type, return-value]
    where = Situation(invocation, {}, tmp_path)
    where.__dict__["serving"] = ServingState("SERVING", 1.0, "")
    names = ("clock", "kafka", "postgres", "problems")
    found = {each.check.name: each.finding for each in run_checks([c for c in CHECKS if c.name in names], where)}
    never.set()
    assert {name: each.verdict for name, each in found.items()} == dict.fromkeys(names, Verdict.SKIPPED) | {
        "postgres": Verdict.FAILED
    }
    assert all("postgres" in found[name].summary for name in names if name != "postgres")


def test_a_wrong_address_is_wrong_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["-t", "nonsense:xx", "doctor", "--data", str(tmp_path)]) == 2
    assert "Write host:port" in capsys.readouterr().err


def test_the_command_ends_while_a_check_hangs(tmp_path: Path) -> None:
    program = """
import sys, threading
from lakelog.cli.doctor.check import Check, run_checks
from lakelog.cli.interrupts import leave
never = threading.Event()
# As a library that waits for its threads at the end of Python.
threading._register_atexit(never.wait)
run_checks([Check("hangs", "", lambda _: never.wait(), "")], None, limit_s=0.1)
print("said")
leave(1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (1, "said\n"), done.stderr


def test_a_store_that_overwrites_objects_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(surroundings, "_refuses_twice", lambda *_: False)
    found = surroundings.check_warehouse(situation(tmp_path, warehouse=str(tmp_path)))
    assert (found.verdict, not list(tmp_path.iterdir())) == (Verdict.FAILED, True)
    assert "conditional writes" in found.remedy


def test_a_finding_names_no_secret() -> None:
    words = "postgresql://ann:secret-word@db/lake"
    found = Finding(Verdict.FAILED, f"No answer from {words}.", f"psql {words}", (f"tried {words}",))
    check = CHECKS[0]
    record = describe_result(Result(check, found, 1))
    assert "secret-word" not in json.dumps(record)
    assert json.dumps(record).count("ann:***@db") == 3
    assert "secret-word" not in str(_to_lines(Result(check, found, 1), details=True))


def test_everything_away(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKELOG_DATABASE_URL", "")
    port = free_port()
    code = run(
        ["-t", f"127.0.0.1:{port}", "doctor", "-o", "json", "--data", str(tmp_path), "--kafka", f"127.0.0.1:{port}"]
    )
    document = json.loads(capsys.readouterr().out)
    found = {each["name"]: each for each in document["checks"]}
    assert code == 1
    assert document["ok"] is False
    assert set(found) == {check.name for check in CHECKS}
    assert {name for name, each in found.items() if each["result"] == "failed"} == {"metastore", "kafka"}
    assert all(each["remedy"] for each in found.values() if each["result"] in ("failed", "warning"))
    assert {found[name]["result"] for name in ("token", "clock", "services", "postgres", "problems")} == {"skipped"}


def test_only_some_checks_and_none_of_that_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["doctor", "--only", "python", "--only", "disk", "--data", str(tmp_path)]) == 0
    said = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in said[:2]] == ["python", "disk"]
    assert said[-1] == "2 checks: 2 ok."
    assert run(["doctor", "--only", "weather"]) == 2
    assert "weather" in capsys.readouterr().err
