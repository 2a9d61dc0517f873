"""Topics of a real cluster."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Final, TypeVar

from confluent_kafka import IsolationLevel, KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)

from lakelog.errors import InvalidArgument, LakelogError, NotFound, Unavailable
from lakelog.log.kafka.connecting import ANSWER_TIMEOUT_S, request
from lakelog.log.kafka.errors import NO_TOPIC_CODES, get_cause, is_denied, make_client, to_lakelog_error
from lakelog.log.kafka.polling import Poller
from lakelog.log.kafka.sending.duplicate_check import DuplicateSendCheck
from lakelog.log.kafka.settings import KafkaSettings, to_admin_config
from lakelog.log.protocol import TopicAdmin
from lakelog.log.records import TopicSpec, TopicState
from lakelog.log.topic_rules import to_topic_settings

Answer = TypeVar("Answer")
_SETTLE_TIMEOUT_S: Final = 10.0
_LATEST: Final[OffsetSpec] = OffsetSpec.latest()  # type: ignore[no-untyped-call]
_TOO_FEW_CODES: Final = frozenset((KafkaError.INVALID_REPLICATION_FACTOR, KafkaError.NOT_ENOUGH_REPLICAS))


class KafkaTopicAdmin(TopicAdmin):
    """See `lakelog.log.protocol.TopicAdmin`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._duplicate_check = DuplicateSendCheck()
        config: dict[str, Any] = {**to_admin_config(settings), "error_cb": self._duplicate_check.on_error}
        self._client = make_client(AdminClient, config)
        self._poller: Poller | None = Poller(self._client, self._duplicate_check.on_error)

    def create_topic(self, spec: TopicSpec) -> TopicState:
        new = NewTopic(spec.name, spec.partitions, spec.replication, config=to_topic_settings(spec))
        doing = f"The topic {spec.name} could not be made"
        try:
            self._wait(self._client.create_topics([new], **_TIMES)[spec.name])
        except KafkaException as e:
            if get_cause(e).code() in _TOO_FEW_CODES:
                raise Unavailable(
                    f"{doing}: {get_cause(e).str()} Add brokers, or ask for fewer replicas than"
                    f" {spec.replication} (log.system.replication).",
                    reason="TOO_FEW_BROKERS",
                    metadata={"topic": spec.name, "replication": str(spec.replication)},
                ) from e
            raise self._to_error(e, doing) from e
        return self._await_state(spec.name, doing)

    def _await_state(self, name: str, doing: str) -> TopicState:
        # The controller knows it; the broker that answers learns of it a moment later.
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        while (state := self.find_topic(name)) is None or not self._has_leaders(name):
            if time.monotonic() > deadline:
                raise Unavailable(
                    f"{doing}: it was made, but its partitions have no leaders yet.", metadata={"topic": name}
                )
            time.sleep(0.02)
        return state

    def _has_leaders(self, name: str) -> bool:
        found = self._describe(name)
        return found is not None and all(partition.leader is not None for partition in found.partitions)

    def find_topic(self, name: str) -> TopicState | None:
        doing = f"The topic {name} could not be looked up"
        (found,) = self._look_up([name], doing).values()
        if isinstance(found, KafkaException):
            raise self._to_error(found, doing) from found
        return found

    def find_topics(self, names: Sequence[str]) -> dict[str, TopicState | None]:
        found = self._look_up(names, "Topics could not be looked up")
        return {name: state for name, state in found.items() if not isinstance(state, KafkaException)}

    def _look_up(self, names: Sequence[str], doing: str) -> dict[str, TopicState | KafkaException | None]:
        """Topics by name; None: there is none; an error: we may not request it."""
        answers: dict[str, TopicState | KafkaException | None] = {}
        there: dict[ConfigResource, TopicDescription] = {}
        if not names:
            return answers
        described = self._client.describe_topics(TopicCollection(list(names)), request_timeout=ANSWER_TIMEOUT_S)
        for name, answer in described.items():
            found = self._wait_for_topic(answer, doing)
            if found is None or isinstance(found, KafkaException):
                answers[name] = found
            else:
                there[ConfigResource(ResourceType.TOPIC, name)] = found
        if there:
            configs = self._client.describe_configs(list(there), request_timeout=ANSWER_TIMEOUT_S)
            for resource, config in configs.items():
                entries = self._wait_for_topic(config, doing)
                if entries is None or isinstance(entries, KafkaException):
                    answers[resource.name] = entries
                else:
                    answers[resource.name] = _to_state(there[resource], entries)
        return answers

    def _wait_for_topic(self, answer: Future[Answer], doing: str) -> Answer | KafkaException | None:
        """The answer for one topic; None: there is none; an error: we may not request it."""
        try:
            return self._wait(answer)
        except KafkaException as e:
            if get_cause(e).code() in NO_TOPIC_CODES:
                return None
            if get_cause(e).code() == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                return e
            raise self._to_error(e, doing) from e

    def _describe(self, name: str) -> TopicDescription | None:
        doing = f"The topic {name} could not be looked up"
        requested = TopicCollection([name])
        described = self._client.describe_topics(requested, request_timeout=ANSWER_TIMEOUT_S)[name]
        found = self._wait_for_topic(described, doing)
        if isinstance(found, KafkaException):
            raise self._to_error(found, doing) from found
        return found

    def find_ends(self, name: str) -> tuple[int, ...]:
        doing = f"The ends of the topic {name} could not be found"
        found = self._describe(name)
        if found is None:
            raise NotFound(f"{doing}: there is no such topic.", reason="TOPIC_NOT_FOUND", metadata={"topic": name})
        wanted = {TopicPartition(name, each.id): _LATEST for each in found.partitions}

        def request_all() -> dict[int, int]:
            committed = IsolationLevel.READ_COMMITTED
            answers = self._client.list_offsets(wanted, isolation_level=committed, request_timeout=ANSWER_TIMEOUT_S)
            return {each.partition: self._wait(answer).offset for each, answer in answers.items()}

        try:
            # After a topic is created, its leaders answer a moment later.
            ends = request(request_all)
        except KafkaException as e:
            raise self._to_error(e, doing) from e
        return tuple(ends[partition] for partition in sorted(ends))

    def alter_topic(self, name: str, settings: Mapping[str, str | None]) -> None:
        changes = [
            ConfigEntry(
                key,
                value,
                incremental_operation=AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET,
            )
            for key, value in settings.items()
        ]
        if not changes:
            return
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=changes)
        try:
            self._wait(self._client.incremental_alter_configs([resource], request_timeout=ANSWER_TIMEOUT_S)[resource])
        except KafkaException as e:
            raise self._to_error(e, f"Settings of the topic {name} could not be changed") from e
        # As with a new topic, the broker that answers learns of the change a moment later.
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        set_to = {key: value for key, value in settings.items() if value is not None}
        while (state := self.find_topic(name)) is not None and not set_to.items() <= state.settings.items():
            if time.monotonic() > deadline:
                # The broker may write the values in another way.
                return
            time.sleep(0.02)

    def add_partitions(self, name: str, partitions: int) -> None:
        """Does nothing if the topic has so many."""
        doing = f"Partitions could not be added to the topic {name}"
        try:
            self._wait(self._client.create_partitions([NewPartitions(name, partitions)], **_TIMES)[name])
        except KafkaException as e:
            if get_cause(e).code() != KafkaError.INVALID_PARTITIONS:
                raise self._to_error(e, doing) from e
            has = self._await_state(name, doing).partitions
            if has != partitions:
                raise InvalidArgument(
                    f"{doing}: it has {has}, and partitions can only be added, up to what the brokers allow."
                    f" Asked for: {partitions} in all.",
                    metadata={"topic": name, "partitions": str(partitions), "has": str(has)},
                ) from e
            return
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        while self._await_state(name, doing).partitions < partitions and time.monotonic() < deadline:
            time.sleep(0.02)

    def delete_topic(self, name: str) -> bool:
        doing = f"The topic {name} could not be deleted"
        try:
            self._wait(self._client.delete_topics([name], **_TIMES)[name])
        except KafkaException as e:
            if get_cause(e).code() in NO_TOPIC_CODES:
                return False
            raise self._to_error(e, doing) from e
        deadline = time.monotonic() + _SETTLE_TIMEOUT_S
        while self.find_topic(name) is not None and time.monotonic() < deadline:
            time.sleep(0.02)
        return True

    def close(self) -> None:
        poller, self._poller = self._poller, None
        if poller is not None:
            poller.stop()

    def _wait(self, answer: Future[Answer]) -> Answer:
        # A client whose login is refused tries again for ever; waiting does not help.
        while True:
            try:
                return answer.result(timeout=0.1)
            except TimeoutError:
                last = self._duplicate_check.last_error
                if last is not None and is_denied(last):
                    raise KafkaException(last) from None

    def _to_error(self, error: KafkaException, doing: str) -> LakelogError:
        translated = to_lakelog_error(error, doing, self._settings.servers)
        last = self._duplicate_check.last_error
        if isinstance(translated, Unavailable) and last is not None:
            return to_lakelog_error(last, doing, self._settings.servers)
        return translated


_TIMES: Final[dict[str, Any]] = {"request_timeout": ANSWER_TIMEOUT_S, "operation_timeout": ANSWER_TIMEOUT_S}


def _to_state(found: TopicDescription, entries: Mapping[str, ConfigEntry]) -> TopicState:
    return TopicState(
        found.name,
        str(found.topic_id),
        len(found.partitions),
        min(len(partition.replicas) for partition in found.partitions),
        {entry.name: entry.value for entry in entries.values() if entry.value is not None},
    )
