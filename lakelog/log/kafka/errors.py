"""Translates librdkafka's errors into ours, for all of `lakelog.log.kafka`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from confluent_kafka import KafkaError, KafkaException

from lakelog.errors import (
    AlreadyExists,
    Fenced,
    InvalidArgument,
    LakelogError,
    NotFound,
    PermissionDenied,
    Unavailable,
)

Answer = TypeVar("Answer")
FENCED_CODES: Final = frozenset((KafkaError._FENCED, KafkaError.PRODUCER_FENCED, KafkaError.INVALID_PRODUCER_EPOCH))
_DENIED_CODES: Final = frozenset(
    (
        KafkaError._AUTHENTICATION,
        KafkaError._SSL,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.ILLEGAL_SASL_STATE,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    )
)
_TLS_ALERT: Final = "SSL alert number"
_UNVERIFIED: Final = "certificate verify failed"
NO_TOPIC_CODES: Final = frozenset(
    (
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
    )
)
_TOO_LARGE_CODES: Final = frozenset(
    (KafkaError.MSG_SIZE_TOO_LARGE, KafkaError.RECORD_LIST_TOO_LARGE, KafkaError.INVALID_MSG_SIZE)
)
_INVALID_CODES: Final = frozenset(
    (
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.INVALID_REQUEST,
        KafkaError.INVALID_TRANSACTION_TIMEOUT,
        KafkaError.POLICY_VIOLATION,
        KafkaError.TOPIC_EXCEPTION,
        KafkaError._INVALID_ARG,
    )
)


def to_lakelog_error(error: KafkaError | KafkaException, doing: str, servers: str) -> LakelogError:
    """The error that our callers get for a failure.

    Args:
        error: The failure.
        doing: What was tried, as the beginning of a sentence: `Topic x could not be made`.
        servers: The brokers, for the message.
    """
    cause = get_cause(error)
    code, text = cause.code(), f"{cause.str()} ({cause.name()})"
    metadata = {"kafka_error": cause.name(), "servers": servers}
    if code in FENCED_CODES:
        return Fenced(
            f"{doing}: a newer producer has the same transactional id. Start afresh and read the position again; this"
            f" says nothing about what was committed.",
            metadata=metadata,
        )
    if is_denied(cause):
        if _UNVERIFIED in text:
            return PermissionDenied(
                f"{doing}: the certificate of the brokers {servers} could not be verified. Name the authority that "
                "signed it by 'ssl.ca.pem' (of a table 'kafka.ssl.ca.pem'), and look whether it is valid still and of "
                "this host.",
                metadata=metadata,
            )
        return PermissionDenied(
            f"{doing}: the brokers {servers} refuse: {text}. Check credentials and access rights.", metadata=metadata
        )
    if code in _TOO_LARGE_CODES:
        return InvalidArgument(
            f"{doing}: a record is larger than the topic takes: {text}. Raise the topic's max.message.bytes, or write"
            f" smaller rows.",
            reason="RECORD_TOO_LARGE",
            metadata=metadata,
        )
    if code in NO_TOPIC_CODES:
        return NotFound(f"{doing}: there is no such topic or partition: {text}.", metadata=metadata)
    if code == KafkaError.TOPIC_ALREADY_EXISTS:
        return AlreadyExists(f"{doing}: there is a topic of this name.", metadata=metadata)
    if code in _INVALID_CODES:
        return InvalidArgument(f"{doing}: {text}.", metadata=metadata)
    return Unavailable(
        f"{doing}: {text}. Brokers: {servers}. Look whether they run, can be reached from the service, and are "
        "asked by the security.protocol of their port.",
        metadata=metadata,
    )


def is_denied(error: KafkaError) -> bool:
    """Whether brokers refuse us, so that another try does not help. Pure."""
    # A refused or missing certificate shows as a broken connection, whose text has the broker's last word.
    return error.code() in _DENIED_CODES or (error.code() == KafkaError._TRANSPORT and _TLS_ALERT in error.str())


def make_client(make: Callable[[dict[str, Any]], Answer], config: dict[str, Any]) -> Answer:
    """Makes a client of the library, which checks some settings only then.

    Raises:
        InvalidArgument: A setting is not valid, such as a file that is no certificate.
    """
    try:
        return make(config)
    except KafkaException as e:
        servers = str(config.get("bootstrap.servers", ""))
        # The message names the setting and never its value.
        raise InvalidArgument(
            f"The brokers {servers} cannot be reached with these settings: {get_cause(e).str().strip()}. Check the "
            "'kafka.*' options of the table, and the secrets that they name, at each service.",
            reason="INVALID_BROKER_SETTINGS",
            metadata={"servers": servers},
        ) from None


def call_client(call: Callable[[], Answer]) -> Answer:
    """Makes a call during which the library serves callbacks.

    SUBTLE: for a fatal error, confluent-kafka sets an exception inside a callback and goes on to the next callback.
    Python then stops that one with a `SystemError` caused by the exception. This function raises the exception itself.

    Raises:
        KafkaException: The call failed.
    """
    try:
        return call()
    except SystemError as e:
        cause: BaseException | None = e
        while cause is not None and not isinstance(cause, KafkaException):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise KafkaException(get_cause(cause)) from e


def get_cause(error: KafkaError | KafkaException) -> KafkaError:
    """The error itself; confluent-kafka wraps it in an exception."""
    if isinstance(error, KafkaException):
        cause: KafkaError = error.args[0]
        return cause
    return error
