"""Which topics and secrets owners may name in the options of tables. Pure.

The publisher acts at the brokers by its own rights, not by those of the owner whose table names a topic or a secret. So
without a rule an owner of one database could publish into any topic of the company, or with any secret of the
publisher. Callers with the role `admin` may name all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakelog.errors import InvalidArgument, PermissionDenied
from lakelog.options.declared.kafka import (
    KAFKA_SASL_MECHANISM,
    KAFKA_SASL_USERNAME,
    KAFKA_SECURITY_PROTOCOL,
    KAFKA_SSL_CA,
    KAFKA_TOPIC,
)
from lakelog.options.declared.kafka_values import SECRET_PREFIX

NEEDS_ADMIN: Final = "OPTION_NEEDS_ADMIN"
"""The reason of the refusal."""

_SECURITY: Final = frozenset(
    option.key for option in (KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME, KAFKA_SSL_CA)
)
"""What decides whether a secret is protected on its way, and whom it signs in."""

_DATABASE: Final = "{database}"
# Names of databases have letters, digits and `_`. So what follows one must be another character, or `shop` would also
# stand for `shop2`.
_PATTERN: Final = re.compile(r"[A-Za-z0-9._-]*(?:\{database\}(?:[.-][A-Za-z0-9._-]*)?)?\*?")


@dataclass(frozen=True)
class OwnerRules:
    """What callers below the role `admin` may name; by default nothing.

    Args:
        topics: Patterns of topics; `{database}` stands for the table's database, and `*` at the end for any rest.
        secrets: Patterns of names of secrets, in the same form.
    """

    topics: tuple[str, ...] = ()
    secrets: tuple[str, ...] = ()

    def check(self, options: Mapping[str, str], database: str) -> None:
        """Check the options that an owner wants to set.

        Raises:
            PermissionDenied: One names a topic or a secret that owners may not name.
        """
        for key, value in options.items():
            if key == KAFKA_TOPIC.key:
                _check("topic", key, value, self.topics, "--owner-topics", database)
            elif value.startswith(SECRET_PREFIX):
                _check("secret", key, value.removeprefix(SECRET_PREFIX), self.secrets, "--owner-secrets", database)

    def check_change(
        self, before: Mapping[str, str], set_options: Mapping[str, str], unset_options: Sequence[str], database: str
    ) -> None:
        """Check how an owner wants to change the options of a table.

        Besides what `check` looks at: while a secret stays in force that the owner may not name, the owner may not say
        either how the publisher signs in with it. Over another protocol the secret could be read on its way.

        Raises:
            PermissionDenied: As `check`, or it changes the security of the connection.
        """
        self.check(set_options, database)
        changed = {key for key, value in set_options.items() if before.get(key) != value}
        security = sorted(_SECURITY & (changed | (before.keys() & set(unset_options))))
        if not security:
            return
        for key in sorted(before.keys() - set_options.keys() - set(unset_options)):
            name = before[key].removeprefix(SECRET_PREFIX)
            if name == before[key] or _may_name(self.secrets, name, database):
                continue
            raise PermissionDenied(
                f"Owners of the database {database} may not change '{security[0]}' while the table uses the secret "
                f"{name[:250]!r} ('{key}'), which they may not name: leave it as it is, or ask an admin to change it. "
                "An operator sets which secrets owners may name (--owner-secrets).",
                reason=NEEDS_ADMIN,
                metadata={"option": security[0], "secret": name[:250], "database": database},
            )


def read_patterns(text: str, argument: str) -> tuple[str, ...]:
    """The patterns of a setting, which commas separate.

    Raises:
        InvalidArgument: One is none.
    """
    patterns = tuple(dict.fromkeys(each.strip() for each in text.split(",") if each.strip()))
    for pattern in patterns:
        if not _PATTERN.fullmatch(pattern) or f"{_DATABASE}*" in pattern:
            raise InvalidArgument(
                f"--{argument} has the pattern {pattern[:200]!r}: write letters, digits, '.', '_' and '-', perhaps "
                "{database} with a '.' or '-' after it, and '*' only at the end, for instance '{database}.*'.",
                metadata={"field": argument, "value": pattern[:200]},
            )
    return patterns


def _check(what: str, key: str, name: str, patterns: tuple[str, ...], argument: str, database: str) -> None:
    if _may_name(patterns, name, database):
        return
    allowed = ", ".join(each.replace(_DATABASE, database) for each in patterns)
    remedy = f"name one of {allowed}" if allowed else "leave it out"
    raise PermissionDenied(
        f"Owners of the database {database} may not name the {what} {name[:250]!r} ('{key}'): {remedy}, or ask an "
        f"admin to set it. An operator sets which ones owners may name ({argument}).",
        reason=NEEDS_ADMIN,
        metadata={"option": key, what: name[:250], "database": database},
    )


def _may_name(patterns: tuple[str, ...], name: str, database: str) -> bool:
    return any(_matches(pattern.replace(_DATABASE, database), name) for pattern in patterns)


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
