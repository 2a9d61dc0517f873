"""New files of services are their owner's alone, unless `LAKELOG_UMASK` says otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakelog.embedded.services import service_command, service_environment
from lakelog.errors import InvalidArgument
from lakelog.privacy.umask import UMASK_VARIABLE, restrict_new_files
from lakelog.storage.objects.local import LocalStore

SERVICES = {
    "metastore": ["check", "--warehouse", "/nowhere/at/all"],
    "writer": ["check", "--file-only", "no-such-file.yaml"],
    "compactor": ["run", "--target", "not a target"],
    "reader": ["serve", "--target", "not a target"],
}
"""Commands that end at once."""


@pytest.fixture(autouse=True)
def open_to_all() -> Iterator[None]:
    """The umask of most machines; and the tests' own one afterwards."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> set[str]:
    return {oct(path.stat().st_mode & 0o777) for path in folder.rglob("*")}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, {"0o700", "0o600"}),
        ({UMASK_VARIABLE: ""}, {"0o700", "0o600"}),
        ({UMASK_VARIABLE: "027"}, {"0o750", "0o640"}),
    ],
)
def test_files_of_a_table_have_the_modes_of_the_umask(
    tmp_path: Path, environment: dict[str, str], expected: set[str]
) -> None:
    restrict_new_files(environment)
    LocalStore(str(tmp_path / "table")).create("data/a/x.parquet").commit()
    assert modes(tmp_path) == expected


def test_control_without_it_everyone_reads_them(tmp_path: Path) -> None:
    LocalStore(str(tmp_path / "table")).create("data/a/x.parquet").commit()
    assert modes(tmp_path) == {"0o755", "0o644"}


@pytest.mark.parametrize("wrong", ["99", "rwx", "0o77", "777", "177", "7777777", "-1", " 077"])
def test_other_values_are_refused_with_the_remedy(wrong: str) -> None:
    with pytest.raises(InvalidArgument, match=r"LAKELOG_UMASK is .*: give three octal digits"):
        restrict_new_files({UMASK_VARIABLE: wrong})
    assert os.umask(0o022) == 0o022, "nothing was changed"


@pytest.mark.parametrize("service", list(SERVICES))
def test_every_service_sets_it_before_anything_else(service: str, tmp_path: Path) -> None:
    environment = service_environment(service, os.environ | {UMASK_VARIABLE: "nonsense"})
    command = service_command(service, SERVICES[service])
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, cwd=tmp_path, check=False)
    assert ended.returncode == 2
    assert f"{UMASK_VARIABLE} is 'nonsense'" in ended.stderr


def test_the_stacks_folder_is_private_whatever_the_umask_is(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from lakelog.embedded.stack import EmbeddedStack\n"
        "stack = EmbeddedStack(Path(sys.argv[1]), services=[], database_url='postgresql://nowhere/x')\n"
        "stack.start(); stack.stop()"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "stack")], check=True)
    assert (tmp_path / "stack").stat().st_mode & 0o777 == 0o700
