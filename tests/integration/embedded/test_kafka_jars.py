from __future__ import annotations

import hashlib
import shutil
import threading
from pathlib import Path

import pytest

from lakelog.embedded.kafka import jars as kafka_jars
from lakelog.embedded.kafka.jars import KAFKA_VERSION, Jar, find_kafka_jars, list_kafka_jars
from lakelog.errors import DataCorrupted, NotFound, Unavailable

CONTENT = b"a jar"
JARS = [Jar("org.example", name, "1.2", hashlib.sha256(CONTENT).hexdigest()) for name in ("first", "second")]

# What of Maven is relied on: it is run with a project and brings the jars that the project names.
MAVEN = """#!/bin/sh
echo run >> {runs}
for word in "$@"; do case "$word" in -DoutputDirectory=*) out=${{word#-DoutputDirectory=}};; esac; done
mkdir -p "$out"
for name in $(grep -o '<dependency><groupId>org.example</groupId><artifactId>[a-z]*' pom.xml | sed 's/.*>//'); do
  printf '{content}' > "$out/$name-1.2.jar"
done
{then}
"""


class Machine:
    """A machine with this Maven and without PySpark."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.bin.mkdir()
        self.cache = folder / "cache"
        self.runs = folder / "runs"
        # None of this machine's own programs: one of them may be a Maven.
        for name in ("grep", "mkdir", "rm", "sed", "sh", "sleep"):
            (self.bin / name).symlink_to(shutil.which(name) or f"/bin/{name}")
        self.environment = {"PATH": str(self.bin), "XDG_CACHE_HOME": str(self.cache)}

    def put_maven(self, *, content: str = CONTENT.decode(), then: str = "") -> None:
        program = self.bin / "mvn"
        program.write_text(MAVEN.format(runs=self.runs, content=content, then=then))
        program.chmod(0o755)

    @property
    def jars(self) -> Path:
        return self.cache / "lakelog" / f"kafka-{KAFKA_VERSION}"

    def count_runs(self) -> int:
        return len(self.runs.read_text().splitlines()) if self.runs.exists() else 0

    def find(self) -> list[Path]:
        return find_kafka_jars(self.environment, jars=JARS)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    def no_spark() -> Path:
        raise NotFound("PySpark, which brings it, is not installed.")

    monkeypatch.setattr(kafka_jars, "_find_ivy", no_spark)
    return Machine(tmp_path)


def test_the_list_is_one_of_a_kafka() -> None:
    jars = list_kafka_jars()
    assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in jars)
    assert len({jar.file_name for jar in jars}) == len(jars)
    (broker,) = (jar for jar in jars if jar.artifact == "kafka_2.13")
    assert (broker.group, broker.version) == ("org.apache.kafka", KAFKA_VERSION)


def test_jars_are_fetched_once(machine: Machine) -> None:
    machine.put_maven()
    found = machine.find()
    assert found == [machine.jars / "first-1.2.jar", machine.jars / "second-1.2.jar"]
    assert [file.read_bytes() for file in found] == [CONTENT, CONTENT]
    assert machine.find() == found
    assert machine.count_runs() == 1
    # Nothing of the fetching stays.
    assert {file.name for file in machine.jars.iterdir()} == {"first-1.2.jar", "second-1.2.jar", "fetching.lock"}


def test_only_what_is_missing_is_fetched(machine: Machine) -> None:
    machine.put_maven()
    first, second = machine.find()
    kept = first.stat().st_ino
    second.unlink()
    machine.find()
    assert second.read_bytes() == CONTENT
    assert first.stat().st_ino == kept


def test_a_changed_jar_is_refused_and_stays_for_anyone_who_looks(machine: Machine) -> None:
    machine.put_maven()
    _, second = machine.find()
    second.write_bytes(b"something else")
    with pytest.raises(DataCorrupted, match=r"second-1\.2\.jar is not org\.example:second:1\.2 .* Delete") as caught:
        machine.find()
    assert caught.value.reason == "KAFKA_JAR_CHANGED"
    assert second.read_bytes() == b"something else"


def test_a_mirrors_other_jar_is_never_kept(machine: Machine) -> None:
    machine.put_maven(content="a jar with more in it")
    with pytest.raises(DataCorrupted, match="It came by mvn and was not kept"):
        machine.find()
    assert [file.name for file in machine.jars.iterdir()] == ["fetching.lock"]


def test_without_maven_pyspark_and_network_the_error_says_what_to_do(machine: Machine) -> None:
    with pytest.raises(
        Unavailable, match=r"2 of the jars .*mvn: it is not on the search path\. Ivy: PySpark"
    ) as caught:
        machine.find()
    assert caught.value.reason == "KAFKA_JARS_MISSING"
    machine.put_maven(then=f"rm -r {machine.jars}/unfinished.*/jars; echo '[ERROR] no route to host'; exit 1")
    with pytest.raises(Unavailable, match=r"mvn: it ended with exit code 1 .*\[ERROR\] no route to host\."):
        machine.find()


def test_what_a_killed_process_left_is_removed(machine: Machine) -> None:
    machine.put_maven()
    left_over = machine.jars / "unfinished.old" / "jars"
    left_over.mkdir(parents=True)
    (left_over / "first-1.2.jar").write_bytes(b"half of")
    assert machine.find()[0].read_bytes() == CONTENT
    assert not left_over.exists()


def test_of_two_at_once_one_fetches(machine: Machine) -> None:
    machine.put_maven(then="sleep 0.5")
    found: list[list[Path]] = []
    threads = [threading.Thread(target=lambda: found.append(machine.find())) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found[0] == found[1]
    assert machine.count_runs() == 1
