from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from lakelog.embedded.kafka.broker import EmbeddedKafka
from lakelog.embedded.kafka.protocol import find_cluster
from lakelog.embedded.ports import free_port
from lakelog.errors import AlreadyExists, Unavailable
from tests.support.log.kafka_broker import require_kafka


@pytest.fixture(scope="module", autouse=True)
def _kafka() -> None:
    require_kafka()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a folder"


@pytest.fixture
def packaged_java() -> dict[str, str]:
    """An environment in which no Java but the wheel's is found, and which gives it options."""
    kept = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PATH")}
    return {**kept, "KAFKA_OPTS": f"{os.environ['KAFKA_OPTS']} -Dof=tests"}


def make_topic(servers: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for future in admin.create_topics([NewTopic(name, 2)]).values():
        future.result(30)


def send(servers: str, topic: str, *values: str) -> None:
    producer = Producer({"bootstrap.servers": servers, "log_level": 0, "transactional.id": f"of-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    for value in values:
        producer.produce(topic, value.encode(), partition=0)
    producer.commit_transaction(30)


def read(servers: str, topic: str, count: int) -> list[str]:
    settings = {"bootstrap.servers": servers, "group.id": "any", "isolation.level": "read_committed", "log_level": 0}
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(topic, 0, 0)])
    try:
        return [(message.value() or b"").decode() for message in consumer.consume(count, 30)]
    finally:
        consumer.close()


@pytest.mark.slow
def test_a_broker_survives_what_happens_to_it(folder: Path, packaged_java: dict[str, str]) -> None:
    """On the wheel's Java, which the tests of this machine's Java would else never see."""
    with EmbeddedKafka(folder, environment=packaged_java) as kafka:
        servers = kafka.bootstrap_servers
        assert "-Dof=tests" in Path(f"/proc/{kafka.pid}/cmdline").read_text().split("\0")
        make_topic(servers, "orders")
        send(servers, "orders", "a", "b")

        kafka.kill()
        assert kafka.was_killed
        assert not kafka.is_running
        assert find_cluster("127.0.0.1", kafka.port) is None
        kafka.start()
        # Else it would be kept out for the session of the crashed one, and now and then lose the end of a transaction.
        assert kafka._inactive_at_s is None
        assert read(servers, "orders", 2) == ["a", "b"]

        kafka.pause()
        # The signal takes its time to reach all threads.
        assert any(find_cluster("127.0.0.1", kafka.port, timeout_s=0.3) is None for _ in range(20))
        kafka.resume()
        send(servers, "orders", "c")

        with pytest.raises(AlreadyExists, match=f"in use by the running process {os.getpid()}"):
            EmbeddedKafka(folder).start()
        said = "\n".join(kafka.last_log_lines(200))
        # Quiet: the settings alone are 350 lines at the level that Kafka's own scripts take.
        assert "KafkaConfig values" not in said.partition("Formatting")[2]
    assert not kafka.is_running
    # At the same address again, but with another port for its controller.
    with EmbeddedKafka(folder) as again:
        assert again.bootstrap_servers == servers
        assert read(servers, "orders", 3) == ["a", "b", "c"]


def test_a_broker_does_not_outlive_its_parent(folder: Path) -> None:
    program = """
        import os, signal, sys
        from pathlib import Path
        from lakelog.embedded.kafka.broker import EmbeddedKafka
        kafka = EmbeddedKafka(Path(sys.argv[1]))
        kafka.start()
        print(kafka.pid, flush=True)
        kafka.pause()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    command = [sys.executable, "-c", textwrap.dedent(program), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=Path(__file__).parents[3])
    assert done.returncode == -signal.SIGKILL, done.stderr
    deadline_s = time.monotonic() + 20
    while Path(f"/proc/{int(done.stdout)}").exists():
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    # What it left does not block the folder.
    assert (folder / "data").exists()
    with EmbeddedKafka(folder) as kafka:
        make_topic(kafka.bootstrap_servers, "orders")


def test_a_taken_port_is_reported_with_the_brokers_last_words(folder: Path, kafka_broker: str) -> None:
    taken = int(kafka_broker.rpartition(":")[2])
    with pytest.raises(Unavailable, match=r"Kafka ended with exit code 1 before it was ready(.|\n)*in use"):
        EmbeddedKafka(folder, taken).start()
    # Nothing holds the folder afterwards.
    other = EmbeddedKafka(folder, free_port())
    other._acquire_lock()
    other._release_lock()


def test_one_broker_for_the_run(kafka_broker: str) -> None:
    host, _, port = kafka_broker.rpartition(":")
    assert find_cluster(host, int(port)) is not None
