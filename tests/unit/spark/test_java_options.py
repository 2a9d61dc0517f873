"""What Spark's Java is told: a log configuration and classes of ours, unless the user has said something of that."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from lakelog.spark import class_archive
from lakelog.spark.session import class_files, gateway, java_options
from lakelog.spark.session.java_options import spark_submit_options


@pytest.fixture(autouse=True)
def archive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java_options, "archive_options", lambda _: ["-XX:SharedArchiveFile=/a b/c.jsa"])


def test_both_come_before_what_the_environment_says(tmp_path: Path) -> None:
    log, archive, own = shlex.split(spark_submit_options({"SPARK_SUBMIT_OPTS": "-Dx=1"}, {}, tmp_path))
    configuration = log.removeprefix("-Dlog4j2.configurationFile=file://")
    assert "logger.hadoop.level = error" in Path(configuration).read_text()
    assert (archive, own) == ("-XX:SharedArchiveFile=/a b/c.jsa", "-Dx=1")


@pytest.mark.parametrize("place", ["environment", "settings", "folder"])
def test_a_log_configuration_of_the_user_wins(tmp_path: Path, place: str) -> None:
    option = "-Dlog4j2.configurationFile=/mine"
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "log4j2.xml").touch()
    environment = {"environment": {"SPARK_SUBMIT_OPTS": option}, "folder": {"SPARK_CONF_DIR": str(tmp_path / "conf")}}
    conf = {"spark.driver.extraJavaOptions": option} if place == "settings" else {}
    assert "log4j2.properties" not in spark_submit_options(environment.get(place, {}), conf, Path("/spark"))


def test_classes_of_the_user_win(tmp_path: Path) -> None:
    assert "/a b/" not in spark_submit_options({}, {"spark.driver.extraJavaOptions": "-Xshare:off"}, tmp_path)


def test_what_is_being_made_or_has_failed_is_not_begun_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    begun: list[list[str]] = []
    monkeypatch.setattr("subprocess.Popen", lambda command, **_: begun.append(command))
    class_files.make_in_background(tmp_path)
    class_files.archive_folder(tmp_path).mkdir(parents=True)
    class_files.make_in_background(tmp_path)
    assert len(begun) == 1


def test_a_few_folders_of_other_javas_stay(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).mkdir()
    class_archive._clear(tmp_path / "new")
    assert len(list(tmp_path.iterdir())) == class_archive._RETAINED


def test_classes_are_found_through_a_link_to_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Java compares the paths of jars as text, so each way to the same folder must give the same path."""
    (tmp_path / "real" / "jars").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "real")
    found = []
    for name in ("real", "link"):
        monkeypatch.setenv("SPARK_HOME", str(tmp_path / name))
        found.append(gateway.find_spark_home())
    assert found == [tmp_path / "real"] * 2
