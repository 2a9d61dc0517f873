"""What is in the wheel, and that it works where there is no clone."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

import dev

ROOT = Path(dev.__file__).resolve().parents[1]
SERVICES = [name for name in ("metastore", "writer", "reader", "compactor") if (ROOT / name / "__init__.py").exists()]

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
