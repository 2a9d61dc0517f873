"""Sends extreme requests to running services, and checks rules for each answer and after each round.

1. Every answer is a result or an explained error: never INTERNAL or UNKNOWN, never an error without details.
2. Every answer comes in time, and the services stay up.
3. After each round an honest client can use every existing table: stage, commit, plan, list and expire. It can also
   make tables of its own, write, read and expire them.

A round is a seed: the same seed sends the same requests again. A failure names the seed, the method and the request.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
from google.protobuf.message import Message

import lakelog
from bench.requests.generator import Generator, Target
from bench.requests.honest import ROWS, use_all_tables, use_own_tables
from bench.requests.methods import METASTORE_METHODS, READER_METHODS, make_message
from bench.requests.values import SCHEMA, Known
from lakelog.client.connection.status import DETAILS_KEY, from_proto_status
from lakelog.errors import InternalError, LakelogError, OutcomeUnknown
from lakelog.rpc.messages import parse
from lakelog.rpc.v1 import snapshots_pb2, types_pb2

_DEADLINE_S: Final = 30.0
_WAITING: Final = ("Watch", "LeaseJob", "Subscribe")
"""Methods that can send nothing for a long time."""

_WAIT_S: Final = 0.3
_ANSWERS: Final = 5
"""How many messages of a stream are read."""


class RequestLabError(Exception):
    """A rule did not hold; the message names the seed and the request."""


@dataclass
class RequestReport:
    """Counts of the requests and their results.

    Args:
        rounds: Rounds that ended well.
        calls: Requests sent.
        outcomes: How many had which outcome: `OK` or the reason of the error.
        tables: Tables that honest clients used after rounds.
    """

    rounds: int = 0
    calls: int = 0
    tables: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)


class RequestLab:
    """One metastore, and perhaps a reader, that must survive.

    Args:
        target: The metastore's address.
        reader_target: The reader's; None: there is none.
        logs: The logs of the services. An internal error there counts, even if the client got another error.
    """

    def __init__(self, target: str, reader_target: str | None = None, logs: Sequence[Path] = ()) -> None:
        self._target = target
        self._logs = dict.fromkeys(logs, 0)
        options = [("grpc.max_receive_message_length", -1)]
        # The types expect each method's own serializers; here all methods take bytes.
        self._channels: list[Any] = [grpc.insecure_channel(target, options=options)]
        self._methods = dict.fromkeys(METASTORE_METHODS, self._channels[0])
        if reader_target is not None:
            self._channels.append(grpc.insecure_channel(reader_target, options=options))
            self._methods.update(dict.fromkeys(READER_METHODS, self._channels[1]))

    def close(self) -> None:
        """Closes the connections."""
        for channel in self._channels:
            channel.close()

    def run_round(self, seed: int, calls: int, report: RequestReport, only: str = "/") -> None:
        """Sends some requests, then acts as an honest client.

        Args:
            seed: The seed of the round.
            calls: How many requests to send.
            report: Gets the counts.
            only: A part of the names of the methods that are called.

        Raises:
            RequestLabError: A rule did not hold.
        """
        dice = random.Random(seed)
        known = Known(dice)
        generator = Generator(known, self._stage)
        self._prepare(seed, known, generator)
        methods = sorted(method for method in self._methods if only in method)
        # The methods with the most effects come more often.
        weights = [8 if method.endswith(("/Commit", "/CommitStream", "/Plan")) else 2 for method in methods]
        for number in range(calls):
            (method,) = dice.choices(methods, weights)
            try:
                request = generator.request(method)
            except LakelogError as error:
                raise self._failure(seed, number, "StageAttempt", "", f"an honest request failed: {error}") from error
            try:
                outcome = self._call(method, request, known)
            except AssertionError as error:
                raise self._failure(seed, number, method, request, str(error)) from error
            report.outcomes[outcome] += 1
            report.calls += 1
        try:
            report.tables += use_all_tables(self._target)
            use_own_tables(self._target, f"honest_{seed}")
        except LakelogError as error:
            raise self._failure(seed, calls, "honest client", "", f"{error.reason}: {error.message}") from error
        for log, read in self._logs.items():
            lines = log.read_text(errors="replace").splitlines()
            self._logs[log] = len(lines)
            bad = [line for line in lines[read:] if _is_defect(line)]
            if bad:
                raise self._failure(seed, calls, str(log), "", bad[0])
        report.rounds += 1

    def _prepare(self, seed: int, known: Known, generator: Generator) -> None:
        """Makes the tables that the requests use."""
        with lakelog.connect(self._target) as catalog:
            database = f"fuzz_{seed}"
            catalog.drop_database(database, if_exists=True, cascade=True)
            catalog.create_database(database)
            known.add("database", database)
            generator.database = database
            for name, partitioned, buckets in (("parts", True, 2), ("keyed", False, 4), ("log", False, 0)):
                table = catalog.create_table(
                    f"{database}.{name}",
                    SCHEMA,
                    primary_key=["day", "id"] if partitioned else (["id"] if buckets else []),
                    partition_by=["day"] if partitioned else [],
                    options={"bucket": str(buckets)} if buckets else {},
                )
                if buckets:
                    table.upsert(ROWS)
                else:
                    table.append(ROWS)
                known.add("name", name)
                known.add("table_uuid", table.uuid)
                known.main_tables.append(table.uuid)
                generator.targets.append(Target(table.uuid, partitioned, buckets or -1, 0))
                for snapshot in catalog.metastore.list_snapshots(table.uuid).snapshots:
                    known.add("snapshot_uuid", snapshot.snapshot_uuid)
            known.add("snapshot_id", 1)
            for file_id in range(1, 6):
                known.add("file_id", file_id)

    def _stage(self, table_uuid: str) -> str:
        request = snapshots_pb2.StageAttemptRequest(table_uuids=[table_uuid], writer="w")
        answer = self._ask("/lakelog.rpc.v1.SnapshotService/StageAttempt", request)
        if answer is None:
            # An extreme request has dropped the table.
            return "0" * 32
        return parse(snapshots_pb2.StageAttemptResponse, answer).attempt_id

    def _ask(self, method: str, request: Message) -> bytes | None:
        """The answer to an honest call; None: the thing does not exist (any more)."""
        try:
            answer: bytes = self._methods[method].unary_unary(method)(request.SerializeToString(), timeout=_DEADLINE_S)
            return answer
        except grpc.RpcError as error:
            found = _read(error)
            if found is not None and type(found).__name__ == "NotFound":
                return None
            raise found or RequestLabError(f"{method}: {error}") from error

    def _call(self, name: str, request: Message, known: Known) -> str:
        """Sends a request and checks the answer; returns the outcome. AssertionError: the answer breaks a rule."""
        method = METASTORE_METHODS.get(name) or READER_METHODS.get(name)
        assert method is not None, "every method has a descriptor"
        waits = name.endswith(_WAITING)
        timeout_s = _WAIT_S if waits else _DEADLINE_S
        data = request.SerializeToString()
        channel = self._methods[name]
        stream: Any
        answers: list[bytes] = []
        try:
            if method.client_streaming:
                stream = channel.stream_stream(name)(iter([data]), timeout=timeout_s)
            elif method.server_streaming:
                stream = channel.unary_stream(name)(data, timeout=timeout_s)
            else:
                stream = [channel.unary_unary(name)(data, timeout=timeout_s)]
            for answer in stream:
                answers.append(answer)
                if len(answers) == _ANSWERS:
                    stream.cancel()
                    break
        except grpc.RpcError as error:
            code = error.code()
            if waits and code is grpc.StatusCode.DEADLINE_EXCEEDED:
                return "WAITED"
            found = _read(error)
            if found is None:
                raise AssertionError(f"failed without details: {code} {error.details()}") from error
            _check_error(found)
            return found.reason
        for answer in answers:
            message = make_message(method.output_type)
            message.ParseFromString(answer)
            if isinstance(message, snapshots_pb2.CommitStreamResponse) and message.HasField("failed"):
                failed = from_proto_status(message.failed)
                assert failed is not None, "a failed commit has a status"
                _check_error(failed)
                return failed.reason
            known.harvest(message)
        return "OK"

    @staticmethod
    def _failure(seed: int, number: int, method: str, request: object, problem: str) -> RequestLabError:
        return RequestLabError(f"seed {seed}, request {number} ({method}): {problem[:3000]}\n{str(request)[:3000]}")


def _check_error(error: LakelogError) -> None:
    assert not isinstance(error, InternalError | OutcomeUnknown), f"{error.reason}: {error.message}"
    assert len(error.message) > 15, f"the message says too little: {error.message!r}"


def _read(error: Any) -> LakelogError | None:
    details = dict(error.trailing_metadata() or ()).get(DETAILS_KEY)
    return None if details is None else from_proto_status(parse(types_pb2.Status, details))


def _is_defect(line: str) -> bool:
    return "Traceback" in line or '"internal error"' in line
