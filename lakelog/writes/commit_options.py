"""The keyword arguments that all writes take, declared once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, TypedDict

from lakelog.annotations import TimeLike
from lakelog.arguments import MAX_NUMBER
from lakelog.errors import InvalidArgument
from lakelog.options.declared.reads_and_writes import IF_SNAPSHOT, IF_UNCHANGED
from lakelog.options.values import WriteOptions
from lakelog.writes.commit_metadata import CommitIdentity, CommitMetadata, make_commit_metadata


class TransactionOptions(TypedDict, total=False):
    """The keyword arguments of transactions and all writes; all of them are optional.

    Args:
        writer: The writer's name. With `identifier` the commit is applied once, however often and late it is repeated.
        identifier: The writer's own number of this commit.
        previous_identifier: The required identifier of the writer's last commit; otherwise the commit is refused. -1:
            none.
        watermark: A point in time, as `timestamp` of `Table.scan`. A table's watermark never falls.
        properties: Texts by name, stored with the snapshot.
        allow_empty: Make a snapshot even without rows.
    """

    writer: str | None
    identifier: int | None
    previous_identifier: int | None
    watermark: TimeLike | None
    properties: Mapping[str, str] | None
    allow_empty: bool


class CommitOptions(TransactionOptions, total=False):
    """The keyword arguments of every write, besides `TransactionOptions`. Several guards are all checked.

    A refused write raises CommitConflict, which names the other commit, and leaves no file. Read the rows again and
    write again. Compactions change no row and refuse no write. (writer, identifier) comes first: a commit that was
    applied already returns its first result.

    Args:
        if_snapshot: Refuse the write if any row of the table was written since this snapshot: `scan.snapshot_id` of the
            scan that the rows come from. 0: the table had no snapshot.
        if_unchanged: Refuse the write if rows were written since this snapshot to the buckets (partitions, if the table
            has no buckets) that it writes to or replaces.
    """

    if_snapshot: int | None
    if_unchanged: int | None


@dataclass(frozen=True)
class Guards:
    """The snapshots since which nothing may have changed for a write to one table; see `CommitOptions`.

    Raises:
        InvalidArgument: One is not a snapshot's id.
    """

    if_snapshot: int | None = None
    if_unchanged: int | None = None

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            is_number = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (is_number and 0 <= value <= MAX_NUMBER):
                raise InvalidArgument(
                    f"{name}={value!r:.80} is no snapshot: give the id of the one that was read, as scan.snapshot_id "
                    "has it; 0 for a table that had none.",
                    metadata={"field": name},
                )

    def meet(self, other: Guards) -> Guards:
        """Combines two guards: a table that is unchanged since a snapshot is so since each later one."""
        return Guards(
            _lower(self.if_snapshot, other.if_snapshot),
            _lower(self.if_unchanged, other.if_unchanged),
        )


NO_GUARDS: Final = Guards()


def read_guards(options: WriteOptions) -> Guards:
    """Returns the guards among the options of a write. Pure."""
    return Guards(options.get(IF_SNAPSHOT), options.get(IF_UNCHANGED))


def read_commit_options(call: str, given: CommitOptions) -> tuple[CommitIdentity, CommitMetadata, Guards]:
    """Returns the identity of a commit to one table, what it says besides its rows, and its guards. Pure.

    Args:
        call: The function that was called, for messages.
        given: Its keyword arguments.

    Raises:
        TypeError: There is no such argument; raised as by any Python function.
        InvalidArgument: A value is not possible.
    """
    _check_names(call, given, CommitOptions.__optional_keys__)
    return *_read(given), Guards(given.get("if_snapshot"), given.get("if_unchanged"))


def read_transaction_options(call: str, given: TransactionOptions) -> tuple[CommitIdentity, CommitMetadata]:
    """Works as `read_commit_options`, for several tables, each of which has its own guards. Pure."""
    guard = next((name for name in ("if_snapshot", "if_unchanged") if name in given), None)
    if guard is not None:
        raise InvalidArgument(
            f"{guard}= is of one table, and a transaction may have several. Give it with the table: "
            f"tx.table('shop.orders', {guard}=7).",
            metadata={"field": guard},
        )
    _check_names(call, given, TransactionOptions.__optional_keys__)
    return _read(given)


def _check_names(call: str, given: Mapping[str, Any], known: frozenset[str]) -> None:
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise TypeError(f"{call}() got an unexpected keyword argument '{unknown}'")


def _read(given: TransactionOptions | CommitOptions) -> tuple[CommitIdentity, CommitMetadata]:
    identity = CommitIdentity(given.get("writer"), given.get("identifier"), given.get("previous_identifier"))
    return identity, make_commit_metadata(
        given.get("watermark"), given.get("properties"), given.get("allow_empty", False)
    )


def _lower(one: int | None, other: int | None) -> int | None:
    given = [each for each in (one, other) if each is not None]
    return min(given, default=None)
