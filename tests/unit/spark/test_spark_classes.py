"""What tests tell Spark's Java of classes that may not be there."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lakelog.embedded.java import java_home
from tests.support.spark.spark_classes import options_with_classes


def test_java_starts_without_the_file_and_says_nothing_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    options = options_with_classes().split()
    assert any(str(tmp_path) in option for option in options)
    java = str(java_home(os.environ) / "bin" / "java")
    done = subprocess.run([java, *options, "-version"], capture_output=True, text=True, check=True)
    # Java writes its warnings to the standard output.
    assert done.stdout == ""
    assert "jsa" not in done.stderr
