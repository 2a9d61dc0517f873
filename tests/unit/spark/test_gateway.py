"""Starting Java: no code of other libraries runs between fork and exec, and what goes wrong is said."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from lakelog.client.connection import channels
from lakelog.errors import InternalError
from lakelog.spark import installing
from lakelog.spark.installing import install
from lakelog.spark.session import gateway
from lakelog.spark.session.gateway import (
    PORT_VARIABLE,
    StartingJava,
    java_for_spark,
    start_java,
    was_forked_beside_channels,
)

SUBMIT = r"""#!/bin/sh
printf '%s\n' "$@" > "$SPARK_HOME/arguments"
grep SigIgn /proc/$$/status > "$SPARK_HOME/ignored"
printf '\000\000\060\071\000\000\000\003abc' > "$_PYSPARK_DRIVER_CONN_INFO_PATH.new"
mv "$_PYSPARK_DRIVER_CONN_INFO_PATH.new" "$_PYSPARK_DRIVER_CONN_INFO_PATH"
exec cat
"""

forks: list[int] = []
# Whoever forks runs this, as gRPC's handlers are run, which crash some of the children.
os.register_at_fork(before=lambda: forks.append(1))


@pytest.fixture
def spark_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    submit = tmp_path / "bin" / "spark-submit"
    submit.parent.mkdir()
    submit.write_text(SUBMIT)
    submit.chmod(0o755)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.delenv("PYSPARK_SUBMIT_ARGS", raising=False)
    # Other tests of this process may have a Spark session, whose Java must live on.
    monkeypatch.setattr(SparkContext, "_gateway", None)
    started: list[subprocess.Popen[bytes]] = []
    monkeypatch.setattr(gateway, "running", started)
    yield tmp_path
    for process in started:
        process.communicate()


def test_java_is_started_without_running_fork_handlers(spark_home: Path) -> None:
    before = len(forks)
    java = start_java({"spark.driver.memory": "2g"})
    assert len(forks) == before
    assert (java.port, java.secret) == (12345, "abc")
    assert (spark_home / "arguments").read_text().split() == ["--conf", "spark.driver.memory=2g", "pyspark-shell"]
    ignored = int((spark_home / "ignored").read_text().split()[1], 16)
    assert ignored & (1 << (signal.SIGINT - 1)), "Ctrl-C would end Java before Python"
    assert ignored & (1 << (signal.SIGTERM - 1)), "so would a stop of the whole process group"
    assert java.process.poll() is None, "it ends with the input that we hold"
    java.process.communicate()
    assert java.process.returncode == 0


def test_no_secret_is_among_the_arguments_of_java(spark_home: Path) -> None:
    secrets = ("spark.hadoop.fs.s3a.secret.key", "spark.hadoop.fs.s3a.access.key", "spark.authenticate.secret")
    more = ("spark.ssl.keyPassword", "spark.hadoop.fs.s3a.session.token")
    java = start_java({"spark.driver.memory": "2g", **dict.fromkeys((*secrets, *more), "canary")})
    assert (spark_home / "arguments").read_text().split() == ["--conf", "spark.driver.memory=2g", "pyspark-shell"]
    java.process.communicate()


def test_control_a_start_with_a_function_before_exec_runs_them() -> None:
    # In a process of its own: in one with gRPC or Spark at work, such a child may hang in their handlers.
    program = """
import os, subprocess
forks = []
os.register_at_fork(before=lambda: forks.append(1))
subprocess.Popen(["/bin/true"]).wait()
subprocess.Popen(["/bin/true"], preexec_fn=lambda: None).wait()
print(len(forks))
"""
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"1\n"


def test_pyspark_is_configured_for_the_length_of_the_block_only(spark_home: Path) -> None:
    assert PORT_VARIABLE not in os.environ
    with java_for_spark({}):
        assert os.environ[PORT_VARIABLE] == "12345"
    assert PORT_VARIABLE not in os.environ


def test_java_that_ends_at_once_is_an_error_and_no_hang(spark_home: Path) -> None:
    (spark_home / "bin" / "spark-submit").write_text("#!/bin/sh\nexit 7\n")
    began_s = time.monotonic()
    with pytest.raises(InternalError, match=r"ended with exit code 7 before it was ready.*JAVA_HOME"):
        start_java({})
    assert time.monotonic() - began_s < 10


def test_what_java_says_goes_to_the_file_and_its_last_words_into_the_error(
    spark_home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    says = "#!/bin/sh\necho WARNING: Using incubator modules\necho Invalid maximum heap size: -Xmx1 >&2\nexit 1\n"
    (spark_home / "bin" / "spark-submit").write_text(says)
    log_file = tmp_path / "spark.log"
    with pytest.raises(InternalError, match=r"was: Invalid maximum heap size: -Xmx1 \(all of it is in"):
        StartingJava({}, log_file).wait()
    assert "incubator" in log_file.read_text()
    assert capfd.readouterr() == ("", "")


def test_the_end_of_java_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[InternalError] = []
    came = threading.Event()

    def note(error: InternalError) -> None:
        ended.append(error)
        came.set()

    with subprocess.Popen(["sleep", "60"]) as java:
        monkeypatch.setattr(gateway, "running", [java])
        gateway.watch_java(note)
        assert not came.wait(0.1)
        java.kill()
        assert came.wait(10)
    assert "ended with exit code -9" in ended[0].message


def test_a_java_of_another_program_is_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway, "running", [])
    gateway.watch_java(lambda error: pytest.fail(error.message))


def test_java_starts_beside_what_is_done_meanwhile_and_is_ended_where_no_one_wants_it(spark_home: Path) -> None:
    (spark_home / "bin" / "spark-submit").write_text(SUBMIT.replace("#!/bin/sh", "#!/bin/sh\nsleep 0.3"))
    began_s = time.monotonic()
    wanted, unwanted = StartingJava({}), StartingJava({})
    assert time.monotonic() - began_s < 0.3
    unwanted.discard()
    assert unwanted._process.poll() is not None
    assert not unwanted._folder.exists()
    assert wanted.wait().port == 12345
    assert not wanted._folder.exists()


@pytest.mark.parametrize("opened", ["before", "after", "never"])
def test_java_that_was_forked_beside_an_open_channel_is_reported(opened: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "first_opened_s", None)
    if opened == "before":
        channels.note_opened()
        time.sleep(0.05)
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as java:
        if opened == "after":
            time.sleep(0.05)
            channels.note_opened()
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=java))
        assert was_forked_beside_channels() is (opened == "before")
        # One that lakelog has started has no process of PySpark's.
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace())
        assert not was_forked_beside_channels()


@pytest.mark.parametrize("dangerous", [True, False])
def test_installing_says_where_java_was_forked_beside_an_open_channel(
    dangerous: bool, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setattr(installing, "was_forked_beside_channels", lambda: dangerous)
    for name in ("_check_session", "_install_source", "register_data_source", "mark_streams"):
        monkeypatch.setattr(installing, name, lambda *args: None)
    install(cast(SparkSession, SimpleNamespace(conf=SimpleNamespace(set=lambda key, value: None))), "localhost:1")
    said = [str(warning.message) for warning in recwarn if "JAVA_GATEWAY_EXITED" in str(warning.message)]
    assert len(said) == dangerous
    assert all("lakelog.spark.build_session" in each for each in said)
