"""A small exhaustive model checker: breadth first over all interleavings of a few actors.

A model is an initial state (hashable, immutable) and a function that lists each step possible in a state with a label.
The explorer visits every reachable state once and reports the shortest way to one that breaks an invariant.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


@dataclass(frozen=True)
class Exploration(Generic[S]):
    """How many states there are, and the shortest counterexample, if any: labels, and what is wrong at its end."""

    states: int
    trace: tuple[str, ...] | None
    violation: str | None


def explore(
    initial: S,
    steps: Callable[[S], Iterable[tuple[str, S]]],
    check: Callable[[S], str | None],
    max_states: int = 2_000_000,
) -> Exploration[S]:
    """Visits all reachable states breadth first.

    Args:
        initial: Where to begin.
        steps: All steps from a state: label and next state. A state without steps is an end.
        check: What is wrong with a state, or None.
        max_states: More than these is an error of the model, not a finding.

    Returns:
        The number of states, with the shortest counterexample when there is one.

    Raises:
        AssertionError: There are more than `max_states` states.
    """
    parents: dict[S, tuple[S, str] | None] = {initial: None}
    queue = deque([initial])
    while queue:
        state = queue.popleft()
        wrong = check(state)
        if wrong is not None:
            return Exploration(len(parents), _trace(parents, state), wrong)
        for label, following in steps(state):
            if following not in parents:
                assert len(parents) < max_states, "the model is larger than its bound"
                parents[following] = (state, label)
                queue.append(following)
    return Exploration(len(parents), None, None)


def _trace(parents: dict[S, tuple[S, str] | None], state: S) -> tuple[str, ...]:
    labels: list[str] = []
    step = parents[state]
    while step is not None:
        state, label = step
        labels.append(label)
        step = parents[state]
    return tuple(reversed(labels))
