"""The options of one subscription. Names and meaning follow Apache Paimon (semantics 5)."""

from __future__ import annotations

from typing import Final

from lakelog.options.option import Option, Scope
from lakelog.options.value_types import Choice, Flag, Text, Time, Whole

_LAST: Final = 10**18 - 1

SCAN_MODE: Final = Option[str](
    "scan.mode",
    Choice(
        (
            "default",
            "latest-full",
            "latest",
            "compacted-full",
            "from-timestamp",
            "from-snapshot",
            "from-snapshot-full",
            "from-file-creation-time",
        ),
        synonyms={"full": "latest-full"},
        refused={"incremental": "it is a read with an end: give 'incremental-between' to scan(), or use changes()"},
    ),
    "default",
    "Where a subscription begins. `latest-full`: with the present rows, then each change. `latest`: with the next "
    "change. `compacted-full`: with the newest full compaction, or as `latest-full` where there is none. "
    "`from-timestamp`, `from-snapshot`, `from-snapshot-full`, `from-file-creation-time`: where their option says. "
    "`default`: as the given options say, else `latest-full`.",
    Scope.STREAM,
)
STREAM_SNAPSHOT_ID: Final = Option[int | None](
    "scan.snapshot-id",
    Whole(0, _LAST),
    None,
    "`from-snapshot`: begin with the changes of this snapshot. `from-snapshot-full`: with the table's rows at it. 0 "
    "is the beginning. For a snapshot that is no longer kept, the earliest kept one is used, unless "
    "'scan.expired-position' = 'fail' is given as well.",
    Scope.STREAM,
)
STREAM_TIMESTAMP_MILLIS: Final = Option[int | None](
    "scan.timestamp-millis",
    Time(_LAST),
    None,
    "`from-timestamp`: begin with the first snapshot that was committed at or after this time, in milliseconds since "
    "1970-01-01 UTC. From the log: with the first snapshot that has a record appended then. The stream waits for a "
    "time in the future.",
    Scope.STREAM,
)
STREAM_FILE_CREATION_TIME_MILLIS: Final = Option[int | None](
    "scan.file-creation-time-millis",
    Time(_LAST),
    None,
    "`from-file-creation-time`: begin with the rows of files committed at or after this time, in milliseconds since "
    "1970-01-01 UTC.",
    Scope.STREAM,
)
CONSUMER_ID: Final = Option[str | None](
    "consumer-id",
    Text(last_length=256),
    None,
    "Store the position in the metastore under this name, and go on from it; a stored position wins over the other "
    "options for the start.",
    Scope.STREAM,
)
EXPIRED_POSITION: Final = Option[str](
    "scan.expired-position",
    Choice(("fail", "earliest", "full")),
    "fail",
    "What happens when the next change of a consumer, a checkpoint or a running stream is no longer kept. `fail`: the "
    "stream ends with an error. `earliest`: it goes on with the earliest change that is kept. `full`: it goes on with "
    "all present rows. If `fail` is given explicitly, it also holds for the start of a stream, which otherwise begins "
    "with the earliest.",
    Scope.STREAM,
)
SCAN_BOUNDED_WATERMARK: Final = Option[int | None](
    "scan.bounded.watermark",
    Whole(-_LAST, _LAST),
    None,
    "End before the first snapshot whose watermark, in milliseconds since 1970-01-01 UTC, is greater than this.",
    Scope.STREAM,
)
SCAN_REMOVE_NORMALIZE: Final = Option[bool](
    "scan.remove-normalize",
    Flag(),
    False,
    "Show the rows of a table without a changelog producer as they were written, without looking up old ones.",
    Scope.STREAM,
)
STREAM_READ_OVERWRITE: Final = Option[bool | None](
    "streaming-read-overwrite",
    Flag(),
    None,
    "Also show the changes of overwrites: in a table with a primary key the difference between the rows before and "
    "after, in others the new rows.",
    Scope.STREAM,
    default_text="as the table's option of this name says",
)
