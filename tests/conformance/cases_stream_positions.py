"""Sections 5.5 and 5.6: how a stream goes on where it stopped, what it does where that has expired, where it ends."""

from __future__ import annotations

from tests.conformance.language import TableSpec, append, overwrite, upsert
from tests.conformance.stream_language import Again, Compact, Forget, StreamCase

KV = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"bucket": "2"})
LOG = TableSpec("k INT, v STRING")
LOOKUP = TableSpec("k INT NOT NULL, v STRING", key=("k",), options={"changelog-producer": "lookup"})

SHOWN = {"streaming-read-overwrite": "true"}

POSITIONS = (
    StreamCase(
        "5.5 the position wins over where to begin",
        KV,
        (upsert("1|a"), upsert("1|b")),
        (upsert("1|c"), Again({"scan.snapshot-id": "1"}), upsert("1|d"), Again({"scan.mode": "latest"}), upsert("1|e")),
        shows={2: ("+I 1|b",), 3: ("-U 1|b", "+U 1|c"), 4: ("-U 1|c", "+U 1|d"), 5: ("-U 1|d", "+U 1|e")},
    ),
    StreamCase(
        "5.5 what comes while it is stopped",
        KV,
        (upsert("1|a"),),
        (Again(meanwhile=(upsert("1|b"), Compact(), upsert("2|c"), overwrite("3|x"), upsert("3|y"))),),
        shows={1: ("+I 1|a",), 2: ("-U 1|a", "+U 1|b"), 4: ("+I 2|c",), 6: ("-U 3|x", "+U 3|y")},
    ),
    StreamCase(
        "5.5 what began with the latest goes on there",
        KV,
        (upsert("1|a"),),
        (Again({"scan.mode": "latest-full"}, meanwhile=(upsert("1|b"),)),),
        {"scan.mode": "latest"},
        shows={2: ("-U 1|a", "+U 1|b")},
    ),
    StreamCase(
        "5.5 what passed over snapshots goes on behind them",
        KV,
        (upsert("1|a"),),
        (upsert("1|b"), Again({"scan.snapshot-id": "1"}, meanwhile=(upsert("1|c"),))),
        {"scan.snapshot-id": "3"},
        shows={3: ("-U 1|b", "+U 1|c")},
    ),
)

_EXPIRED = "is at snapshot 2( of .*)?, but snapshots 4 to 5 are all that is kept.*'scan.expired-position'"


def expired(rule: str, table: TableSpec, policy: str, shows: dict[int, tuple[str, ...]]) -> StreamCase:
    """A stream that comes back when what it had not seen is no longer kept: an error first, then what is asked for."""
    commit = upsert if table.key else append
    again = (
        Again(error=_EXPIRED, meanwhile=(commit("1|c"), commit("2|d"), commit("1|e"), Forget(4))),
        Again({"scan.expired-position": "fail"}, error=_EXPIRED),
        Again({"scan.expired-position": policy}),
        commit("2|f"),
    )
    first = {2: ("+I 1|b",) if table.key else ("1|a", "1|b")}
    return StreamCase(f"5.6 {rule}", table, (commit("1|a"), commit("1|b")), again, shows={**first, **shows})


_OLDEST_IS_OVERWRITE = (upsert("1|b"), overwrite("1|c"), upsert("1|d"), Forget(3))

ENDS = (
    StreamCase(
        "5.6 what the oldest snapshot replaced is not known",
        KV,
        (upsert("1|a"),),
        (
            Again(
                {**SHOWN, "scan.expired-position": "earliest"}, "has expired|are all that is kept", _OLDEST_IS_OVERWRITE
            ),
        ),
        shows={1: ("+I 1|a",)},
    ),
    StreamCase(
        "5.6 what the oldest snapshot replaced is passed over",
        KV,
        (upsert("1|a"),),
        (Again({"scan.expired-position": "earliest"}, meanwhile=_OLDEST_IS_OVERWRITE),),
        shows={1: ("+I 1|a",), 4: ("-U 1|c", "+U 1|d")},
    ),
    expired(
        "expired: the earliest there is",
        KV,
        "earliest",
        {4: ("+I 2|d",), 5: ("-U 1|c", "+U 1|e"), 6: ("-U 2|d", "+U 2|f")},
    ),
    expired("expired: all rows", KV, "full", {5: ("+I 1|e", "+I 2|d"), 6: ("-U 2|d", "+U 2|f")}),
    expired(
        "expired: the earliest there is by lookup",
        LOOKUP,
        "earliest",
        {4: ("+I 2|d",), 5: ("-U 1|c", "+U 1|e"), 6: ("-U 2|d", "+U 2|f")},
    ),
    expired("expired: the earliest of an append table", LOG, "earliest", {4: ("2|d",), 5: ("1|e",), 6: ("2|f",)}),
    expired(
        "expired: all rows of an append table",
        LOG,
        "full",
        {5: ("1|a", "1|b", "1|c", "2|d", "1|e"), 6: ("2|f",)},
    ),
    StreamCase(
        "5.6 it ends before a greater watermark",
        LOG,
        (append("1|a"), append("2|b", watermark=10), append("3|c", watermark=20)),
        (append("4|d", watermark=15), append("5|e", watermark=21), append("6|f")),
        {"scan.snapshot-id": "1", "scan.bounded.watermark": "20"},
        shows={1: ("1|a",), 2: ("2|b",), 3: ("3|c",), 4: ("4|d",)},
    ),
    StreamCase(
        "5.6 a watermark that is behind it",
        LOG,
        (append("1|a"), append("2|b", watermark=10), append("3|c", watermark=21)),
        (append("4|d"),),
        {"scan.snapshot-id": "1", "scan.bounded.watermark": "20"},
        shows={1: ("1|a",), 2: ("2|b",)},
    ),
    StreamCase(
        "5.6 no watermark, no end",
        LOG,
        (append("1|a"),),
        (append("2|b"),),
        {"scan.bounded.watermark": "0"},
        shows={1: ("1|a",), 2: ("2|b",)},
    ),
)

CASES = (*POSITIONS, *ENDS)
