"""From what Python workers are forked, and what they find."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakelog.spark.session.daemon import leave_archives_out
from lakelog.spark.session.session import _choose_daemon


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder with PySpark as pip installs it, and what it needs."""
    folder = tmp_path / "packages"
    for name in ("pyspark/python/lib/pyspark.zip", "pyspark/python/lib/py4j-0.10.9.9-src.zip", "pyspark/jars/core.jar"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    for package in ("pyspark", "py4j"):
        (folder / package).mkdir(exist_ok=True)
        (folder / package / "__init__.py").touch()
    return folder


def to_archives(folder: Path) -> list[str]:
    lib = folder / "pyspark" / "python" / "lib"
    return [str(lib / "pyspark.zip"), str(lib / "py4j-0.10.9.9-src.zip"), str(folder / "pyspark" / "jars" / "core.jar")]


def test_archives_of_what_is_installed_are_left_out(installed: Path) -> None:
    others = ["", "/other.zip", "/other.jar", str(installed)]
    assert leave_archives_out([*to_archives(installed), *others]) == others


def test_archives_are_kept_where_nothing_else_is_found(installed: Path) -> None:
    """As of a Spark that was unpacked somewhere, or of an installation without its parts."""
    archives = to_archives(installed)
    assert leave_archives_out(["", *archives]) == ["", *archives]
    (installed / "py4j" / "__init__.py").unlink()
    assert leave_archives_out([*archives, str(installed)]) == [archives[1], str(installed)]
    (installed / "pyspark" / "__init__.py").unlink()
    assert leave_archives_out([*archives, str(installed)]) == [*archives, str(installed)]


@pytest.mark.parametrize("module", ["daemon", "service_daemon"])
def test_nothing_that_may_start_a_thread_is_imported_before_workers_are_forked(module: str) -> None:
    program = f"import lakelog.spark.session.{module}, os, sys; "
    program += "print(len(os.listdir('/proc/self/task')), 'pyarrow' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]


@pytest.mark.parametrize(
    ("master", "python", "ours"),
    [
        ("local", sys.executable, True),
        ("local[2,2]", sys.executable, True),
        ("local[2]", "/another/python", False),
        ("local-cluster[2,1,1024]", sys.executable, False),
        ("spark://host:7077", sys.executable, False),
    ],
)
def test_workers_elsewhere_are_forked_as_spark_does(master: str, python: str, ours: bool) -> None:
    assert _choose_daemon(master, python, "d") == ({"spark.python.daemon.module": "d"} if ours else {})
