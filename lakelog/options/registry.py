"""All options by key, and the check that given options contain no others."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from lakelog.errors import InvalidArgument
from lakelog.options.declared import kafka as kafka_options
from lakelog.options.declared import log as log_options
from lakelog.options.declared import partitions as partition_options
from lakelog.options.declared import reads_and_writes as read_and_write_options
from lakelog.options.declared import retention as retention_options
from lakelog.options.declared import spark_streams as spark_options
from lakelog.options.declared import streams as stream_options
from lakelog.options.declared import tables as table_options
from lakelog.options.declared.refused import REFUSED_OPTIONS, find_refusal
from lakelog.options.option import MAX_SHOWN_LENGTH, Option, Scope

ALL_OPTIONS: Final[tuple[Option[Any], ...]] = tuple(
    value
    for module in (
        table_options,
        retention_options,
        partition_options,
        log_options,
        kafka_options,
        read_and_write_options,
        stream_options,
        spark_options,
    )
    for value in vars(module).values()
    if isinstance(value, Option)
)
"""Every option, in the order of the declarations."""

_BY_SCOPE: Final[dict[Scope, dict[str, Option[Any]]]] = {
    scope: {option.key: option for option in ALL_OPTIONS if option.scope is scope} for scope in Scope
}

_SLIP: Final = 0.93
"""How similar, from 0 to 1, a key must be to one of our options to count as a typing error of it, and not as another
option: two letters of a long name."""
_LIKE: Final = 0.8
"""How similar a key must be for a suggestion if a whole family of options is refused, as with 'log.retension'."""

_WHERE: Final[dict[Scope, str]] = {
    Scope.TABLE: "an option of tables: give it when the table is made, or with ALTER TABLE",
    Scope.SCAN: "an option of reads: give it with the read",
    Scope.STREAM: "an option of subscriptions: give it to subscribe(), or in Spark to readStream",
    Scope.SPARK_STREAM: "an option of Spark's streams: give it to readStream",
    Scope.WRITE: "an option of writes: give it with the write",
}


def list_options(scope: Scope) -> tuple[Option[Any], ...]:
    """The options of one scope, in the order of the declarations. Pure."""
    return tuple(_BY_SCOPE[scope].values())


def find_option(key: str, scope: Scope) -> Option[Any]:
    """The option `key` of this scope. Pure.

    Raises:
        InvalidArgument: There is none. The message says whether it belongs elsewhere, why this version does not have
            it, or which options have similar names. It does not repeat the value, which may be a secret.
    """
    option = _BY_SCOPE[scope].get(key)
    if option is not None:
        return option
    raise unknown_option(key, scope)


def unknown_option(key: str, scope: Scope, also: Sequence[str] = ()) -> InvalidArgument:
    """The error for a key that is no option of this scope. Pure.

    Args:
        key: The key as it was given, or in lower case, as Spark passes it.
        scope: Where it was given.
        also: Further keys that are allowed there.
    """
    shown = key if len(key) <= MAX_SHOWN_LENGTH else key[: MAX_SHOWN_LENGTH - 3] + "..."
    metadata = {"option": shown}
    elsewhere = next((option for option in ALL_OPTIONS if key in (option.key, option.key.lower())), None)
    if elsewhere is not None:
        return InvalidArgument(
            f"Option '{elsewhere.key}' cannot be given here. It is {_WHERE[elsewhere.scope]}.",
            reason="MISPLACED_OPTION",
            metadata={"option": elsewhere.key},
        )
    keys = {known.lower(): known for known in (*(option.key for option in list_options(scope)), *also)}
    refusal = find_refusal(key)
    wanted = key[:MAX_SHOWN_LENGTH].lower()
    # The pattern of a refused family of options also matches a misspelt option of ours.
    is_slip = wanted not in REFUSED_OPTIONS and difflib.get_close_matches(wanted, keys, n=1, cutoff=_SLIP)
    if refusal is not None and not is_slip:
        near = [] if wanted in REFUSED_OPTIONS else difflib.get_close_matches(wanted, keys, n=2, cutoff=_LIKE)
        remedy = (
            f"Leave it out, or did you mean {quote_names(keys[each] for each in near)}?" if near else "Leave it out."
        )
        return InvalidArgument(
            f"Option '{shown}' is not in this version: {refusal}. {remedy}",
            reason="REFUSED_OPTION",
            metadata=metadata,
        )
    nearest = difflib.get_close_matches(wanted, keys, n=3, cutoff=_SLIP if is_slip else 0.6)
    if nearest:
        remedy = f"Did you mean {quote_names(keys[each] for each in nearest)}?"
    else:
        remedy = f"Known options are {quote_names(keys.values())}."
    if scope is Scope.TABLE:
        remedy += " If a newer version of lakelog set it, use that version."
    return InvalidArgument(f"Option '{shown}' is unknown. {remedy}", reason="UNKNOWN_OPTION", metadata=metadata)


def check_options(options: Mapping[str, str], scope: Scope) -> None:
    """Check that every key is an option of this scope and every value is valid; defaults are not checked.

    Raises:
        InvalidArgument: Names the first wrong key, in sorted order.
    """
    for key in sorted(options):
        value = options[key]
        if not isinstance(key, str) or not isinstance(value, str):
            raise InvalidArgument(
                f"Option {str(key)[:MAX_SHOWN_LENGTH]!r} has a value of type {type(value).__name__}. "
                "Give keys and values as text, for instance {'bucket': '4'}."
            )
        find_option(key, scope).parse(value)


def renew_values(options: Mapping[str, str]) -> dict[str, str]:
    """A table's options in the form for a new table, sorted by key: durations have their units. Pure."""
    known = _BY_SCOPE[Scope.TABLE]
    return {key: known[key].renew(text) if key in known else text for key, text in sorted(options.items())}


def quote_names(names: Iterable[str]) -> str:
    """The names in quotes, separated by commas, with `or` before the last one. Pure."""
    quoted = [f"'{name}'" for name in names]
    return quoted[0] if len(quoted) == 1 else ", ".join(quoted[:-1]) + f" or {quoted[-1]}"
