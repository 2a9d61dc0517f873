"""Calls of a distant store that end in time, also when the store does not answer."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakelog.storage.objects import calls
from lakelog.storage.objects.calls import Calls, NoAnswerError


def test_results_and_errors_come_back() -> None:
    made = Calls()
    assert made.run(lambda: 7, 10) == 7
    with pytest.raises(OSError, match="broken"):
        made.run(lambda: (_ for _ in ()).throw(OSError("broken")), 10)
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda n: made.run(lambda: n * n, 10), range(500))) == [n * n for n in range(500)]
    assert made.left == 0


@pytest.mark.parametrize("is_bounded", [True, False], ids=["protected", "control"])
def test_a_caller_leaves_at_its_deadline_and_few_calls_are_left(
    monkeypatch: pytest.MonkeyPatch, is_bounded: bool
) -> None:
    monkeypatch.setattr(calls, "MOST_LEFT", 2 if is_bounded else 1 << 40)
    made, answer = Calls(), threading.Event()
    for _ in range(2):
        with pytest.raises(NoAnswerError, match="no answer within 0 s"):
            made.run(lambda: answer.wait(60), 0.05)
    if is_bounded:
        with pytest.raises(NoAnswerError, match="earlier calls"):
            made.run(lambda: True, 10)
    else:
        for _ in range(8):
            with pytest.raises(NoAnswerError, match="no answer"):
                made.run(lambda: answer.wait(60), 0.01)
        assert made.left == 10
    answer.set()
    end = time.monotonic() + 30
    while made.left and time.monotonic() < end:
        time.sleep(0.01)
    assert made.run(lambda: True, 10)


def test_control_without_a_deadline_a_caller_waits_for_the_answer() -> None:
    made, answer = Calls(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(made.run, lambda: answer.wait(60), threading.TIMEOUT_MAX)
        time.sleep(0.2)
        assert not waiting.done()
        answer.set()
        assert waiting.result()


def test_an_interrupt_ends_all_waits_and_later_calls_work() -> None:
    made, answer, began = Calls(), threading.Event(), threading.Semaphore(0)

    def wait() -> None:
        began.release()
        answer.wait(60)

    with ThreadPoolExecutor(3) as pool:
        waiting = [pool.submit(made.run, wait, 60) for _ in range(3)]
        for _ in waiting:
            began.acquire()
        made.interrupt()
        for each in waiting:
            with pytest.raises(NoAnswerError, match="interrupted"):
                each.result()
    answer.set()
    assert made.run(lambda: True, 10)


def test_a_child_process_has_threads_of_its_own() -> None:
    made = Calls()
    made.run(lambda: None, 10)
    child = os.fork()
    if not child:
        # An idle thread of the parent does not exist here.
        os._exit(made.run(lambda: 5, 10))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
