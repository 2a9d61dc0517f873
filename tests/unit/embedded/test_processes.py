"""Child processes: what a stop asks of whom."""

from __future__ import annotations

from pathlib import Path

from lakelog.embedded.processes import ManagedProcess

# A service with a child, as the writer has its JVM: it needs the child until it has finished what is in hand.
SERVICE = """
sh -c 'trap "echo the child was told; exit" TERM; while :; do sleep 0.05; done' &
child=$!
trap 'sleep 0.3; kill -0 $child && echo finished with its child; exit 0' TERM
echo ready
while :; do sleep 0.05; done
"""


def test_a_stop_asks_the_program_and_not_its_children(tmp_path: Path) -> None:
    log = tmp_path / "service.log"
    process = ManagedProcess(
        "service", ["sh", "-c", SERVICE], log=log, is_ready=lambda: "ready" in log.read_text(), stop_within_s=10
    )
    process.start()
    process.stop()
    assert process.exit_code == 0
    assert log.read_text().splitlines() == ["ready", "finished with its child"]


def test_how_it_ended_is_reported_in_words(tmp_path: Path) -> None:
    process = ManagedProcess("p", ["sh", "-c", "kill -9 $$"], log=tmp_path / "log", waiting_codes={8: "make it"})
    process.start()
    process.wait(10)
    assert (process.exit_reason, process.was_killed) == ("was killed by signal 9 (SIGKILL)", True)
    other = ManagedProcess("p", ["sh", "-c", "exit 8"], log=tmp_path / "log", waiting_codes={8: "make it"})
    other.start()
    other.wait(10)
    assert (other.exit_reason, other.was_killed, other.waiting_words) == ("ended with exit code 8", False, "make it")
