from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lakelog.embedded.java import java_home
from lakelog.errors import NotFound


def make_java(home: Path, version: str) -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").write_text("#!/bin/sh\nexit 0\n")
    (home / "bin" / "java").chmod(0o755)
    (home / "release").write_text(f'IMPLEMENTOR="Test"\nJAVA_VERSION="{version}"\n')
    return home


def run(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # An empty environment: every other Java of the machine is hidden.
    return subprocess.run([str(home / "bin" / "java"), *arguments], capture_output=True, text=True, env={}, check=False)


def test_java_home_comes_first(tmp_path: Path) -> None:
    named, other = make_java(tmp_path / "named", "17.0.1"), make_java(tmp_path / "other", "21")
    assert java_home({"JAVA_HOME": str(named), "PATH": str(other / "bin")}) == named


def test_the_search_path_is_followed_through_links(tmp_path: Path) -> None:
    home = make_java(tmp_path / "jvm", "21.0.2")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java_home({}, search_path=str(tmp_path / "bin")) == home


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.22", "16"])
def test_an_old_java_is_passed_over(tmp_path: Path, version: str) -> None:
    old = make_java(tmp_path / "old", version)
    found = java_home({"JAVA_HOME": str(old)}, search_path=str(old / "bin"), shim_folder=tmp_path / "shim")
    assert found == tmp_path / "shim"


def test_a_java_home_that_is_not_there_is_passed_over(tmp_path: Path) -> None:
    good = make_java(tmp_path / "good", "17")
    assert java_home({"JAVA_HOME": str(tmp_path / "gone"), "PATH": str(good / "bin")}) == good


def test_the_wheels_java_runs_with_sparks_arguments(tmp_path: Path) -> None:
    home = java_home({}, search_path="", shim_folder=tmp_path / "shim")
    spark_asks = "--add-modules=jdk.incubator.vector"
    answer = run(home, spark_asks, "-Da=b c", "-XshowSettings:properties", "-version")
    assert answer.returncode == 0, answer.stderr
    assert "openjdk version" in answer.stderr
    # Without the shim the same arguments fail: if they ever do not, the shim can go.
    assert run((home / "lib").resolve().parent, spark_asks, "-version").returncode != 0


def test_the_shim_uses_the_machines_trust_store(tmp_path: Path) -> None:
    store = tmp_path / "ca certs"
    store.touch()
    home = java_home({}, search_path="", shim_folder=tmp_path / "shim", trust_stores=(tmp_path / "none", store))
    shown = run(home, "-XshowSettings:properties", "-version").stderr
    assert f"javax.net.ssl.trustStore = {store}" in shown


def test_the_shim_is_made_once_and_mended_when_it_changes(tmp_path: Path) -> None:
    shim = java_home({}, search_path="", shim_folder=tmp_path / "shim") / "bin" / "java"
    made = os.stat(shim).st_ino
    java_home({}, search_path="", shim_folder=tmp_path / "shim")
    assert os.stat(shim).st_ino == made
    shim.write_text("#!/bin/sh\nexit 3\n")
    assert run(java_home({}, search_path="", shim_folder=tmp_path / "shim"), "-version").returncode == 0


def test_the_cache_folder_is_the_users(tmp_path: Path) -> None:
    assert java_home({"XDG_CACHE_HOME": str(tmp_path)}, search_path="") == tmp_path / "lakelog" / "java"


def test_no_java_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = make_java(tmp_path / "old", "11.0.1")
    monkeypatch.setattr("lakelog.embedded.java._packaged_home", lambda: None)
    with pytest.raises(NotFound, match=r"Java 17 or newer: .*old \(JAVA_HOME\) is Java 11.*Set JAVA_HOME") as caught:
        java_home({"JAVA_HOME": str(old)}, search_path="")
    assert caught.value.reason == "JAVA_NOT_FOUND"
