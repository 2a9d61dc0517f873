"""Each check finds what it is there to find, and nothing in a tree without it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import dev.check
from dev.aio_classes import generate as generate_aio_classes
from dev.checks import (
    aio_classes,
    documentation,
    file_contents,
    file_names,
    file_sizes,
    formatting,
    generated_pages,
    import_circles,
    import_rules,
    imports_of_tests,
    lint,
    lock_file,
    protos,
    shell,
    static_types,
    stubs,
    words,
)
from dev.rename import rename


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@t.example", *arguments],
        cwd=folder,
        check=True,
        capture_output=True,
    )


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    return tmp_path


def write(tree: Path, path: str, text: str) -> None:
    (tree / path).parent.mkdir(parents=True, exist_ok=True)
    (tree / path).write_text(text)


def test_file_sizes(tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tree, "just.py", "x = 1\n" * 600)
    write(tree, "lakelog/rpc/v1/big_pb2.py", "x = 1\n" * 900)
    assert file_sizes.find_problems(tree) == []
    write(tree, "long.py", "x = 1\n" * 601)
    assert file_sizes.find_problems(tree) == ["long.py has 601 lines"]
    monkeypatch.setattr(file_sizes, "ALLOWED", {"long.py": "because", "just.py": "was longer"})
    assert file_sizes.find_problems(tree) == ["just.py does not need its exception any more"]


@pytest.mark.parametrize(
    "path",
    ["a/utils.py", "common/x.py", "lakelog/lease_manager.py", "tests/base.py", "a/test-helpers.md", "file:/a/b.txt"],
)
def test_file_names(tree: Path, path: str) -> None:
    write(tree, "database/baseline.py", "")
    write(tree, "k8s/base/x.yaml", "")
    assert file_names.find_problems(tree) == []
    write(tree, path, "")
    assert file_names.find_problems(tree) == [path]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("see https://py" + "pi.org/x", "a package registry's host"),
        ("--extra-" + "index-url http://x", "a package registry's host"),
        ("open('/ro" + "ot/x')", "a path of one machine"),
        ("cd /wo" + "rk/main", "a path of one machine"),
        ("as DESIGN." + "md says", "a page that is not in the repository"),
        ("# TO" + "DO later", "something to be done without a reason"),
    ],
)
def test_file_contents(tree: Path, line: str, what: str) -> None:
    write(tree, "good.md", "the /network/root/x of a worker, artwork/y, https://example.com/simple-things\n")
    (tree / "picture.png").write_bytes(b"\x89PNG\xff\xfe")
    assert file_contents.find_problems(tree) == []
    write(tree, "bad.md", f"fine\n{line}\n")
    assert file_contents.find_problems(tree) == [f"bad.md:2: {what}"]


def test_shell(tree: Path) -> None:
    write(tree, "good", "#!/usr/bin/env bash\ntrue\n")
    write(tree, "notes", "if then (\n")
    assert shell.find_problems(tree) == []
    write(tree, "bad", "#!/bin/sh\nif true; then\n")
    assert any("bad: line" in problem for problem in shell.find_problems(tree))


def test_formatting_and_lint(tree: Path) -> None:
    shutil.copy(dev.check.ROOT / "pyproject.toml", tree)
    write(tree, "dev/good.py", '"""A module."""\n')
    assert formatting.find_problems(tree) == []
    assert lint.find_problems(tree) == []
    write(tree, "dev/bad.py", '"""A module."""\nimport   os\n')
    assert any("bad.py" in problem for problem in formatting.find_problems(tree))
    assert any("bad.py:2" in problem and "F401" in problem for problem in lint.find_problems(tree))


def test_static_types(tree: Path) -> None:
    shutil.copy(dev.check.ROOT / "pyproject.toml", tree)
    write(tree, "dev/good.py", "def double(number: int) -> int:\n    return 2 * number\n")
    assert static_types.find_problems(tree) == []
    write(tree, "dev/bad.py", "def double(number):\n    return 2 * number\n")
    assert any("dev/bad.py:1" in problem for problem in static_types.find_problems(tree))


@pytest.mark.parametrize(
    ("module", "line"),
    [
        ("lakelog/format/commit/request.py", "import lakelog.client.channel"),
        ("lakelog/client/channel.py", "import lakelog.storage"),
        ("lakelog/client/channel.py", "import pyspark"),
        ("lakelog/client/channel.py", "import sqlalchemy"),
        ("lakelog/client/channel.py", "import jwt"),
        ("metastore/__init__.py", "import cryptography"),
        ("lakelog/client/channel.py", "import lakelog.embedded"),
        ("lakelog/storage/__init__.py", "import confluent_kafka"),
        ("lakelog/client/channel.py", "import metastore"),
        ("metastore/__init__.py", "import writer"),
    ],
)
def test_import_rules(tree: Path, module: str, line: str) -> None:
    write_rooms(tree)
    assert import_rules.find_problems(tree) == []
    with (tree / module).open("a") as file:
        file.write(f"{line}\n")
    assert any("BROKEN" in problem for problem in import_rules.find_problems(tree))


def test_an_exception_that_nothing_needs_any_more_is_reported(tree: Path) -> None:
    write_rooms(tree)
    write(tree, "lakelog/sdk/catalog.py", "")
    assert any("lakelog.sdk.catalog -> lakelog.sql" in problem for problem in import_rules.find_problems(tree))


@pytest.mark.parametrize("tree_of", ["lakelog", "metastore", "writer", "reader", "compactor"])
def test_a_module_at_the_root_stands_in_a_layer(tree: Path, tree_of: str) -> None:
    write_rooms(tree)
    write(tree, f"{tree_of}/__init__.py", "")
    assert not [problem for problem in import_rules.find_problems(tree) if "new_room" in problem]
    write(tree, f"{tree_of}/new_room.py", "")
    assert any(f"{tree_of}.new_room" in problem for problem in import_rules.find_problems(tree))


@pytest.mark.parametrize(
    "line",
    [
        "import lakelog.sdk.catalog",
        "from lakelog.sdk import catalog",
        "from lakelog.sdk.catalog import Catalog",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from lakelog.sdk.catalog import Catalog",
        "def find():\n    from lakelog.sdk.catalog import Catalog",
        "from ..sdk.catalog import Catalog",
    ],
)
def test_import_circles(tree: Path, line: str) -> None:
    write(tree, "lakelog/__init__.py", "")
    write(tree, "lakelog/sdk/__init__.py", "")
    write(tree, "lakelog/sdk/catalog.py", "import lakelog.sdk.table\nclass Catalog: ...\n")
    write(tree, "lakelog/sdk/table.py", "from lakelog.reads.scan import Scan\n")
    write(tree, "lakelog/reads/scan.py", "import lakelog.errors\nclass Scan: ...\n")
    write(tree, "lakelog/errors.py", "import logging\n")
    assert import_circles.find_problems(tree) == []
    write(tree, "lakelog/reads/scan.py", f"import lakelog.errors\n{line}\nclass Scan: ...\n")
    (problem,) = import_circles.find_problems(tree)
    loop = "lakelog.reads.scan -> lakelog.sdk.catalog -> lakelog.sdk.table -> lakelog.reads.scan"
    assert problem == f"3 modules import each other in a loop: {loop}"


@pytest.mark.parametrize(
    ("line", "imported"),
    [
        ("from tests.unit.test_orders import ORDERS", "tests.unit.test_orders"),
        ("from .test_orders import test_one", "tests.unit.test_orders"),
        ("from tests.unit import test_orders", "tests.unit.test_orders"),
        ("from . import test_orders as orders", "tests.unit.test_orders"),
        ("import tests.unit.test_orders", "tests.unit.test_orders"),
        ("def test_two():\n    from tests.unit.test_orders import ORDERS", "tests.unit.test_orders"),
        ("from tests.conftest import ROOT", "tests.conftest"),
        ("from ..conftest import ROOT", "tests.conftest"),
    ],
)
@pytest.mark.parametrize("path", ["tests/unit/test_sales.py", "tests/unit/conftest.py", "tests/unit/selling.py"])
def test_imports_of_tests(tree: Path, path: str, line: str, imported: str) -> None:
    write(tree, "tests/conftest.py", "from tests.support.repository import ROOT\n")
    write(tree, "tests/support/repository.py", "ROOT = 1\n")
    write(tree, "tests/unit/test_orders.py", "from .making import test_names\nORDERS = 1\ndef test_one(): ...\n")
    write(tree, "tests/unit/making.py", "from tests.support import repository\ntest_names = []\n")
    write(tree, path, "from tests.unit.making import test_names\n")
    assert imports_of_tests.find_problems(tree) == []
    write(tree, path, f"{line}\n")
    assert imports_of_tests.find_problems(tree) == [f"{path} imports {imported}"]


def write_rooms(tree: Path) -> None:
    """Rooms that keep the rules, with every import that the rules except."""
    shutil.copy(dev.check.ROOT / "pyproject.toml", tree)
    rooms = (
        "format",
        "client",
        "storage",
        "spark",
        "sql",
        "sdk",
        "spark/session",
        "format/commit",
        "embedded",
        "log",
        "testing",
        "demo",
        "demo/kafka_consumers",
    )
    for package in rooms:
        write(tree, f"lakelog/{package}/__init__.py", "")
    write(tree, "lakelog/spark/executor_check.py", "import lakelog\n")
    write(tree, "lakelog/log/kafka/__init__.py", "")
    write(tree, "lakelog/log/kafka/log.py", "import confluent_kafka\n")
    write(tree, "lakelog/demo/kafka_consumers/delays.py", "import confluent_kafka\n")
    write(tree, "lakelog/testing/plain_consumer.py", "import confluent_kafka\n")
    write(tree, "lakelog/serving/streams/leased_stream.py", "import pyspark\n")
    write(tree, "lakelog/serving/__init__.py", "")
    write(tree, "lakelog/serving/streams/__init__.py", "")
    for room, body in (("signed_tokens", "import cryptography\nimport jwt\n"), ("rotation", "import cryptography\n")):
        write(tree, f"lakelog/serving/{room}/__init__.py", "")
        write(tree, f"lakelog/serving/{room}/keys.py", body)
    write(tree, "lakelog/__init__.py", "")
    write(tree, "metastore/__init__.py", "import lakelog.format.commit.request\nimport sqlalchemy\n")
    write(tree, "writer/__init__.py", "import lakelog.client.channel\nimport pyspark\n")
    write(tree, "lakelog/sdk/catalog.py", "import lakelog.sql\n")
    write(tree, "lakelog/embedded/java.py", "")
    write(tree, "lakelog/spark/session/session.py", "import pyspark\nimport lakelog.embedded.java\n")
    write(tree, "lakelog/spark/class_archive.py", "import lakelog.embedded.java\n")
    write(tree, "lakelog/spark/session/class_files.py", "import lakelog.embedded.java\n")
    write(tree, "lakelog/format/commit/request.py", "")
    write(tree, "lakelog/client/channel.py", "import lakelog.format.commit.request\n")


PROTO = """syntax = "proto3";

// A test.
package lakelog.rpc.v1;

// A thing.
message Thing {
  // Its name; never empty.
  string name = 1;
}
"""


def test_protos_and_stubs(tree: Path) -> None:
    assert protos.find_problems(tree) == stubs.find_problems(tree) == []
    shutil.copy(dev.check.ROOT / "buf.yaml", tree)
    write(tree, "proto/lakelog/rpc/v1/thing.proto", PROTO)
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "first")
    assert protos.find_problems(tree) == []
    assert "lakelog/rpc/v1/thing_pb2.py is not current" in stubs.find_problems(tree)

    write(tree, "proto/lakelog/rpc/v1/thing.proto", PROTO.replace("  // Its name; never empty.\n", ""))
    assert any("comment" in problem for problem in protos.find_problems(tree))
    write(tree, "proto/lakelog/rpc/v1/thing.proto", PROTO.replace("name = 1", "name = 2"))
    assert any(problem.startswith("against ") and "name" in problem for problem in protos.find_problems(tree))
    # Committed, it is still compared with what was there before it.
    git(tree, "commit", "-qam", "second")
    assert any(problem.startswith("against ") for problem in protos.find_problems(tree))


SERVED = """// Things.
syntax = "proto3";

package lakelog.rpc.v1;

// Serves things.
service ThingService {
  // Gets a thing.
  rpc GetThing(GetThingRequest) returns (GetThingResponse);
  // Lists things.
  rpc ListThings(ListThingsRequest) returns (ListThingsResponse);
}

// What a thing is.
enum ThingKind {
  // Not given.
  THING_KIND_UNSPECIFIED = 0;
  // Large.
  THING_KIND_LARGE = 1;
}

// Names it.
message GetThingRequest {
  // Its name.
  string name = 1;
  // Its kind.
  ThingKind kind = 2;
}

// Has it.
message GetThingResponse {
  // Its size.
  int64 size = 1;
}

// Asks for all.
message ListThingsRequest {}

// Has all.
message ListThingsResponse {
  // Their names.
  repeated string names = 1;
}
"""
_KIND = "  // Its kind.\n  ThingKind kind = 2;\n"
_LIST = "  // Lists things.\n  rpc ListThings(ListThingsRequest) returns (ListThingsResponse);\n"


@pytest.mark.parametrize(
    ("old", "new", "is_fine"),
    [
        (_KIND, _KIND + "  // Its age.\n  int64 age = 3;\n", True),
        ("LARGE = 1;\n", "LARGE = 1;\n  // Small.\n  THING_KIND_SMALL = 2;\n", True),
        (_KIND, "", False),
        (_KIND, '  reserved 2;\n  reserved "kind";\n', True),
        ("kind = 2", "kind = 3", False),
        ("string name", "int64 name", False),
        ("string name", "repeated string name", False),
        ("  // Large.\n  THING_KIND_LARGE = 1;\n", "", False),
        ("LARGE = 1", "LARGE = 2", False),
        (_LIST, "", False),
        ("rpc ListThings(ListThingsRequest)", "rpc ListThings(GetThingRequest)", False),
        ("returns (ListThingsResponse)", "returns (stream ListThingsResponse)", False),
    ],
    ids=[
        "a new field",
        "a new value",
        "a removed field",
        "a reserved field",
        "another number",
        "another type",
        "repeated now",
        "a removed value",
        "another value",
        "a removed method",
        "another request",
        "a stream now",
    ],
)
def test_changes_of_protos_that_older_clients_and_servers_bear(tree: Path, old: str, new: str, is_fine: bool) -> None:
    shutil.copy(dev.check.ROOT / "buf.yaml", tree)
    write(tree, "proto/lakelog/rpc/v1/things.proto", SERVED)
    git(tree, "add", "-A")
    git(tree, "commit", "-qm", "first")
    changed = SERVED.replace(old, new)
    assert changed != SERVED
    write(tree, "proto/lakelog/rpc/v1/things.proto", changed)
    found = [problem for problem in protos.find_problems(tree) if problem.startswith("against ")]
    assert (not found) == is_fine, found


def test_words(tree: Path) -> None:
    write(tree, "dev/words.toml", "[words]\ntold = 'emitted'\n[names]\nToldFile = 'BaselineFile'\n")
    write(tree, "a.py", "TOLD_BY_OTHERS = 'as told in a text'  # Whoever was told.\n")
    write(tree, "a.proto", "// Told.\nmessage File {}\n")
    assert words.find_problems(tree) == []
    write(tree, "b.py", "class ToldFile: ...\n")
    write(tree, "b.proto", "message A {\n  string told_file = 1;\n}\n")
    assert words.find_problems(tree) == [
        "b.proto:2: told_file: for 'told' the field says: emitted",
        "b.py:1: ToldFile: for 'told' the field says: emitted",
    ]
    assert [str(path) for path in rename(tree)] == ["b.py"]
    assert (tree / "b.py").read_text() == "class BaselineFile: ...\n"
    assert rename(tree) == []


def test_generated_pages(tree: Path) -> None:
    write(tree, "dev/__init__.py", "")
    write(tree, "dev/one_page.py", "")
    assert generated_pages.find_problems(tree) == []
    write(tree, "dev/two_page.py", "import sys\nsys.exit('two.md is not current' if '--check' in sys.argv else 0)\n")
    assert generated_pages.find_problems(tree) == ["two.md is not current"]


def test_documentation(tree: Path) -> None:
    write(tree, "mkdocs.yml", "site_name: x\nnav: [index.md]\nvalidation: {nav: {omitted_files: warn}}\n")
    write(tree, "docs/index.md", "# x\n")
    assert documentation.find_problems(tree) == []
    write(tree, "docs/forgotten.md", "# y\n")
    assert any("forgotten.md" in problem for problem in documentation.find_problems(tree))


def test_lock_file(tree: Path) -> None:
    root = dev.check.ROOT
    lock = (root / "requirements.lock").read_text()
    shutil.copy(root / "pyproject.toml", tree)
    write(tree, "requirements.lock", lock)
    assert lock_file.find_problems(tree) == []
    write(tree, "requirements.lock", "--index-" + "url https://x\n" + lock)
    with pytest.raises(ValueError, match="--index"):
        lock_file.find_problems(tree)
    before, entry, after = lock.partition("\nclick==")
    write(tree, "requirements.lock", before + "\n" + after.split("\n", after.split("\n\n")[0].count("--hash") + 1)[-1])
    assert any("click" in problem and "not in the lock" in problem for problem in lock_file.find_problems(tree))
    version = after.split(" ")[0]
    write(tree, "requirements.lock", lock.replace(f"click=={version}", "click==8.0.0"))
    assert any("click 8.0.0 in the lock is not click>=" in problem for problem in lock_file.find_problems(tree))
    assert entry


def test_the_command_ends_with_what_failed(tmp_path: Path) -> None:
    listed = subprocess.run(
        [sys.executable, "-m", "dev.check", "--list"], cwd=dev.check.ROOT, capture_output=True, text=True, check=True
    )
    assert len(listed.stdout.splitlines()) == len(dev.check.check_names())
    unknown = subprocess.run(
        [sys.executable, "-m", "dev.check", "nothing"], cwd=dev.check.ROOT, capture_output=True, text=True
    )
    assert unknown.returncode == 2
    assert "no check 'nothing'" in unknown.stderr


def test_a_check_that_breaks_has_failed(tmp_path: Path) -> None:
    result = dev.check.run_check("lock_file", tmp_path)
    assert "FileNotFoundError" in result.problems[-1]


def test_aio_classes(tree: Path) -> None:
    assert aio_classes.find_problems(tree) == []
    for path, text in generate_aio_classes(tree).items():
        (tree / path).parent.mkdir(parents=True, exist_ok=True)
        (tree / path).write_text(text)
    assert aio_classes.find_problems(tree) == []
    (tree / "lakelog/aio/sdk/table.py").write_text("class Table: ...\n")
    (tree / "lakelog/aio/sdk/more.py").write_text("")
    assert aio_classes.find_problems(tree) == [
        "lakelog/aio/sdk/more.py is not current",
        "lakelog/aio/sdk/table.py is not current",
    ]
