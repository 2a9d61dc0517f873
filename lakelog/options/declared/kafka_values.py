"""The types of the values of `kafka.*`: brokers, topic names, references to secrets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

from lakelog.options.value_types import ValueType

SECRET_PREFIX: Final = "secret:"
MAX_TOPIC_LENGTH: Final = 249
"""Brokers keep a topic in folders that have its name."""

_SECRET_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}", re.ASCII)
_TOPIC: Final = re.compile(r"[A-Za-z0-9._-]{1,249}", re.ASCII)
_HOST: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?|\[[0-9A-Fa-f:.]{2,45}\]", re.ASCII)
_MAX_BROKERS: Final = 64


@dataclass(frozen=True)
class Brokers(ValueType[tuple[str, ...]]):
    """Addresses of one cluster's brokers; read as `host:port` each, hosts in lower case, none twice."""

    description: str = "`host:port`, several separated by commas"

    def parse(self, text: str) -> tuple[str, ...]:
        brokers = tuple(broker.strip() for broker in text.split(","))
        if len(brokers) > _MAX_BROKERS:
            raise ValueError(f"Give at most {_MAX_BROKERS} brokers; a few are enough to find the others")
        for broker in brokers:
            host, _, port = broker.rpartition(":")
            if not (_HOST.fullmatch(host) and port.isascii() and port.isdigit() and 0 < int(port[:6]) < 65536):
                raise ValueError("Give 'host:port', several separated by commas, for instance 'kafka-1:9092'")
        return tuple(dict.fromkeys(broker.lower() for broker in brokers))

    def format(self, value: Any) -> str:
        return ",".join(value)


@dataclass(frozen=True)
class BrokerText(ValueType[str]):
    """A text about us that brokers write into their logs; it must not forge a line there."""

    description: str = "text"
    last_length: int = 256

    def parse(self, text: str) -> str:
        if not text.strip() or len(text) > self.last_length or not text.isprintable():
            raise ValueError(f"Give a text of 1 to {self.last_length} characters, without line ends and other controls")
        return text


@dataclass(frozen=True)
class TopicName(ValueType[str]):
    """The name of a topic, as Kafka accepts it."""

    description: str = "the name of a topic"

    def parse(self, text: str) -> str:
        if not _TOPIC.fullmatch(text) or text in (".", ".."):
            raise ValueError(f"Give 1 to {MAX_TOPIC_LENGTH} letters, digits, '.', '_' and '-'")
        if text.startswith("__"):
            raise ValueError("Names that begin with '__' are those of Kafka's own topics. Give another name")
        return text


@dataclass(frozen=True)
class SecretReference(ValueType[str]):
    """A secret, by the name under which each service finds it; the secret itself is never an option's value.

    A wrong value is never repeated in a message: it is probably the secret.
    """

    description: str = "`secret:NAME`"

    def parse(self, text: str) -> str:
        """Reads a value, and returns the name; ValueError says what to give instead."""
        name = text.removeprefix(SECRET_PREFIX)
        if not text.startswith(SECRET_PREFIX) or not _SECRET_NAME.fullmatch(name):
            raise ValueError(
                "Secrets are never written down in options: give 'secret:NAME', and give the services the secret as "
                "the variable LAKELOG_SECRET_NAME, or as the file NAME in their folder LAKELOG_SECRETS_DIR. A NAME has "
                "letters, digits, '_', '-' and '.'"
            )
        return name

    def format(self, value: Any) -> str:
        return f"{SECRET_PREFIX}{value}"
