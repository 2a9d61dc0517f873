"""Finds out whether brokers answer and take part in transactions, without a topic and without a record."""

from __future__ import annotations

import secrets as random_names
from collections.abc import Mapping
from typing import Final

from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient

from lakelog.log.kafka.errors import call_client, make_client, to_lakelog_error
from lakelog.log.kafka.sending.duplicate_check import DuplicateSendCheck
from lakelog.log.kafka.settings import to_admin_config, to_settings, to_transactional_config
from lakelog.log.secrets import Secrets

_STEP: Final = 2
"""The time is for two steps."""


def probe_brokers(options: Mapping[str, str], secrets: Secrets, within_s: float) -> int:
    """Lists the brokers, then begins a transaction under a new transactional id and aborts it. Blocks.

    Args:
        options: `kafka.*` options, as of a table's log.
        secrets: What they refer to.
        within_s: The time limit.

    Returns:
        The number of brokers.

    Raises:
        InvalidArgument: A secret is not known here, or the options do not fit.
        PermissionDenied: The brokers refuse us, or refuse transactions.
        Unavailable: They do not answer.
    """
    settings = to_settings(options, secrets)
    found = DuplicateSendCheck()
    admin = make_client(AdminClient, {**to_admin_config(settings), "error_cb": found.on_error})
    try:
        brokers = admin.list_topics(timeout=within_s / _STEP).brokers
    except KafkaException as e:
        admin.poll(0)
        raise to_lakelog_error(found.last_error or e, "The brokers do not answer", settings.servers) from e
    name = f"lakelog-doctor-{random_names.token_hex(8)}"
    producer = make_client(Producer, {**to_transactional_config(settings, name), "error_cb": found.on_error})
    try:
        call_client(lambda: producer.init_transactions(within_s / _STEP))
        producer.begin_transaction()
        producer.abort_transaction(within_s / _STEP)
    except KafkaException as e:
        doing = "The brokers answer, but a transaction is not possible"
        raise to_lakelog_error(e, doing, settings.servers) from e
    return len(brokers)
