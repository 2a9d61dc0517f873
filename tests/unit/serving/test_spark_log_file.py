"""Where Spark's log goes."""

from __future__ import annotations

from pathlib import Path

from lakelog.serving.streams.spark_log_file import choose_spark_log


def test_a_file_by_name_in_the_users_cache_unless_configured_otherwise(tmp_path: Path) -> None:
    environment = {"XDG_CACHE_HOME": str(tmp_path)}
    file = choose_spark_log(None, "pipeline-p", environment)
    assert file == tmp_path / "lakelog" / "logs" / "pipeline-p.spark.log"
    assert file.exists()
    assert choose_spark_log(str(tmp_path / "a" / "mine.log"), "p", environment) == tmp_path / "a" / "mine.log"
    assert choose_spark_log("-", "p", environment) is None


def test_where_no_file_can_be_made_spark_says_it_on_standard_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert choose_spark_log(None, "p", {"XDG_CACHE_HOME": str(tmp_path / "file")}) is None


def test_a_large_file_becomes_that_of_the_time_before(tmp_path: Path) -> None:
    file = tmp_path / "spark.log"
    with file.open("wb") as log:
        log.truncate((16 << 20) + 1)
    assert choose_spark_log(str(file), "p", {}) == file
    assert file.stat().st_size == 0
    assert (tmp_path / "spark.old").stat().st_size > 16 << 20
