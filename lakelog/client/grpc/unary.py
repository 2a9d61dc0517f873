"""Methods of the client that only translate, call and translate: each is one line that says whether it is repeated."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, Protocol

from lakelog.client.connection.calls import Calls
from lakelog.client.connection.retry import RetryPolicy
from lakelog.client.metastore.metastore import Metastore
from lakelog.errors import LakelogError
from lakelog.rpc.unary import UnaryMethod

Limit = Callable[[float, Mapping[str, Any]], float]
"""The limit of all tries of a call in seconds, from that of `RetryPolicy.total_s` and the call's arguments."""

_NOTICE_TOTAL_S: Final = 5.0
"""For calls that only shorten the waiting of others: the caller has other work to do, or is about to end."""


def as_long_as_the_lease(total_s: float, arguments: Mapping[str, Any]) -> float:
    """Not for longer than the lease lasts that the call renews."""
    return min(total_s, max(int(arguments["duration_ms"]), 1) / 1000)


def as_long_as_a_notice(total_s: float, _arguments: Mapping[str, Any]) -> float:
    """Not for long, since the call is no loss if it fails."""
    return min(total_s, _NOTICE_TOTAL_S)


# Both return Any: a type checker cannot see that `_Method` puts a function in its place, with the protocol's signature.
def read(*, within_s: float | None = None) -> Any:
    """A method without an effect; every failure of the transport is repeated.

    Args:
        within_s: The limit of one try and of all tries, in place of those that other calls have.
    """
    return _Method(
        lambda calls, _retries, _arguments: functools.partial(calls.read, deadline_s=within_s, total_s=within_s)
    )


def mutation(
    *,
    repeat_unknown: bool = True,
    no_proof: tuple[type[LakelogError], ...] = (),
    total_s: Limit | None = None,
    within_s: float | None = None,
) -> Any:
    """A method with an effect.

    Args:
        repeat_unknown: Whether it may be repeated after an unknown outcome.
        no_proof: Kinds of errors that prove nothing after an unknown outcome.
        total_s: The limit of all tries; None: `RetryPolicy.total_s`.
        within_s: The limit of one try and of all tries, in place of those that other calls have.
    """

    def choose(calls: Calls, retries: RetryPolicy, arguments: Mapping[str, Any]) -> Callable[..., Any]:
        return functools.partial(
            calls.mutate,
            repeat_unknown=repeat_unknown,
            no_proof=no_proof,
            deadline_s=within_s,
            total_s=within_s if total_s is None else total_s(retries.total_s, arguments),
        )

    return _Method(choose)


class _Caller(Protocol):
    _calls: Calls
    _retries: RetryPolicy


class _Method:
    """Replaces itself by a function: the method of its name, with the protocol's signature and docstring."""

    def __init__(self, choose: Callable[[Calls, RetryPolicy, Mapping[str, Any]], Callable[..., Any]]) -> None:
        self._choose = choose

    def __set_name__(self, owner: type, name: str) -> None:
        promised, choose = getattr(Metastore, name), self._choose
        signature = inspect.signature(promised)
        parameters = [each for each in signature.parameters.values() if each.name != "self"]
        by_position = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
        defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
        method = UnaryMethod(name.title().replace("_", ""), [each.name for each in parameters])
        rpc = attrgetter(f"methods.{method.name}")

        @functools.wraps(promised)
        def call(self: _Caller, *args: Any, **kwargs: Any) -> Any:
            arguments = {**defaults, **dict(zip(by_position, args, strict=False)), **kwargs}
            if len(arguments) != len(parameters) or len(args) > len(by_position):
                signature.bind(self, *args, **kwargs)  # It raises, and says what is wrong.
            send = choose(self._calls, self._retries, arguments)
            return method.from_response(send(method.name, rpc, method.to_request(arguments)))

        setattr(owner, name, call)
