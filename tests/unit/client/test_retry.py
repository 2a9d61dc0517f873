"""When calls are repeated, for how long, and what is known afterwards."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakelog import errors
from lakelog.client.connection.retry import CLOSED, NOT_CONNECTED, Deadlines, RetryPolicy, call_repeatedly


class VirtualClock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept_s: list[float] = []

    def now_ms(self) -> int:
        return int(self.now_s * 1000)

    def monotonic_s(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.now_s += seconds


class Script:
    """Raises one error after the other, then answers."""

    def __init__(self, *failures: errors.LakelogError) -> None:
        self.failures = list(failures)
        self.left_s: list[float] = []

    def __call__(self, left_s: float) -> str:
        self.left_s.append(left_s)
        if self.failures:
            raise self.failures.pop(0)
        return "done"


def repeat(
    attempt: Callable[[float], str],
    clock: VirtualClock | None = None,
    *,
    repeat_unknown: bool = True,
    no_proof: tuple[type[errors.LakelogError], ...] = (),
) -> str:
    return call_repeatedly(
        attempt,
        policy=RetryPolicy(first_backoff_s=1, max_backoff_s=4),
        total_s=20,
        clock=clock or VirtualClock(),
        rng=lambda: 1.0,
        repeat_unknown=repeat_unknown,
        no_proof=no_proof,
    )


def test_waits_grow_up_to_their_bound() -> None:
    clock = VirtualClock()
    assert repeat(Script(*[errors.Unavailable("x")] * 5), clock) == "done"
    assert clock.slept_s == [1, 2, 4, 4, 4]


def test_a_try_receives_what_is_left() -> None:
    script = Script(*[errors.Unavailable("x")] * 2)
    repeat(script)
    assert script.left_s == [20, 19, 17]


def test_jitter_is_full() -> None:
    policy = RetryPolicy(first_backoff_s=1, max_backoff_s=4)
    assert [policy.backoff_s(3, draw) for draw in (0.0, 0.25, 0.999)] == [0, 1, pytest.approx(3.996)]
    assert policy.backoff_s(10_000, 1.0) == 4


def test_the_time_is_up() -> None:
    clock = VirtualClock()
    with pytest.raises(errors.Unavailable, match="x"):
        repeat(Script(*[errors.Unavailable("x")] * 100), clock)
    assert clock.now_s <= 120


def test_one_unknown_try_makes_the_whole_unknown() -> None:
    failures = [errors.OutcomeUnknown("lost"), *[errors.Unavailable("x")] * 100]
    with pytest.raises(errors.OutcomeUnknown, match="lost"):
        repeat(Script(*failures))


def test_an_unknown_try_is_settled_by_repeating() -> None:
    assert repeat(Script(errors.OutcomeUnknown("lost"), errors.Unavailable("x"))) == "done"


def test_what_is_not_idempotent_is_repeated_only_while_it_certainly_did_not_happen() -> None:
    assert repeat(Script(errors.Unavailable("x")), repeat_unknown=False) == "done"
    script = Script(errors.OutcomeUnknown("lost"))
    with pytest.raises(errors.OutcomeUnknown):
        repeat(script, repeat_unknown=False)
    assert len(script.left_s) == 1


def test_a_server_that_never_answered_is_not_tried_again_here() -> None:
    script = Script(errors.Unavailable("x", reason=NOT_CONNECTED))
    with pytest.raises(errors.Unavailable):
        repeat(script)
    assert len(script.left_s) == 1
    assert repeat(Script(errors.OutcomeUnknown("lost"), errors.Unavailable("x", reason=NOT_CONNECTED))) == "done"


def test_what_became_of_the_call_is_not_hidden_by_no_one_answering_afterwards() -> None:
    late = errors.Unavailable("Not within 30 s.", metadata={"status": "DEADLINE_EXCEEDED"})
    with pytest.raises(errors.Unavailable, match=r"^Not within 30 s\. Asking again: Nobody answers\.$") as error:
        repeat(Script(late, errors.Unavailable("Nobody answers.", reason=NOT_CONNECTED)))
    assert error.value.reason == late.reason
    assert error.value.metadata == late.metadata


def test_for_how_long_it_was_tried_is_reported() -> None:
    away = [errors.Unavailable("The database is away.", reason="DATABASE_AWAY") for _ in range(9)]
    with pytest.raises(errors.Unavailable, match=r"^The database is away\. Tried 7 times in 19 s\.$") as error:
        repeat(Script(*away))
    assert error.value.reason == "DATABASE_AWAY"


@pytest.mark.parametrize(
    "kind", [errors.PermissionDenied, errors.ResourceExhausted, errors.InternalError, errors.NotFound]
)
def test_what_a_repetition_got_before_the_gate_proves_nothing(kind: type[errors.LakelogError]) -> None:
    with pytest.raises(errors.OutcomeUnknown, match=r"lost.*Repeating it brought: no"):
        repeat(Script(errors.OutcomeUnknown("lost."), kind("no")))
    with pytest.raises(kind):
        repeat(Script(errors.Unavailable("certain"), kind("no")))


@pytest.mark.parametrize("kind", [errors.CommitConflict, errors.Fenced, errors.InvalidArgument])
def test_what_the_gate_decided_settles_it(kind: type[errors.LakelogError]) -> None:
    with pytest.raises(kind):
        repeat(Script(errors.OutcomeUnknown("lost."), kind("no")))


def test_a_name_that_is_taken_may_be_our_own_doing() -> None:
    with pytest.raises(errors.OutcomeUnknown, match="taken"):
        repeat(Script(errors.OutcomeUnknown("lost."), errors.AlreadyExists("taken")), no_proof=(errors.AlreadyExists,))
    with pytest.raises(errors.AlreadyExists):
        repeat(Script(errors.AlreadyExists("taken")), no_proof=(errors.AlreadyExists,))


def test_closing_the_client_meanwhile_settles_nothing() -> None:
    closed = errors.InvalidArgument("closed", reason=CLOSED)
    with pytest.raises(errors.OutcomeUnknown, match="closed"):
        repeat(Script(errors.OutcomeUnknown("lost."), closed))
    with pytest.raises(errors.InvalidArgument):
        repeat(Script(closed))


def test_a_defect_is_not_met_again() -> None:
    script = Script(errors.OutcomeUnknown("defect", reason="INTERNAL"))
    with pytest.raises(errors.OutcomeUnknown):
        repeat(script)
    assert len(script.left_s) == 1


@pytest.mark.parametrize("make", [lambda: Deadlines(connect_s=0), lambda: RetryPolicy(total_s=-1)])
def test_times_are_positive(make: Callable[[], object]) -> None:
    with pytest.raises(errors.InvalidArgument, match=r"is (0|-1): it must be"):
        make()
