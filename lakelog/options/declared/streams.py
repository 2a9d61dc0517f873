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
    "Where a subscription begins. `latest-full`: with the rows there are, then each change. `latest`: with the next "
    "change. `compacted-full`: with the newest full compaction, or as `latest-full` where there is none. "
    "`from-timestamp`, `from-snapshot`, `from-snapshot-full`, `from-file-creation-time`: where their option says. "
    "`default`: what the options given ask for, else `latest-full`.",
    Scope.STREAM,
)
STREAM_SNAPSHOT_ID: Final = Option[int | None](
    "scan.snapshot-id",
    Whole(0, _LAST),
    None,
    "`from-snapshot`: begin with what this snapshot changed. `from-snapshot-full`: with the rows at it. 0 is the "
    "beginning. One that is no longer kept stands for the earliest that is, unless 'scan.expired-position' = 'fail' is "
    "given with it.",
    Scope.STREAM,
)
STREAM_TIMESTAMP_MILLIS: Final = Option[int | None](
    "scan.timestamp-millis",
    Time(_LAST),
    None,
    "`from-timestamp`: begin with the first snapshot that was committed at or after this time, in milliseconds since "
    "1970-01-01 UTC, or, from the log, of which a record was appended then; one in the future is waited for.",
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
    "Keep the position in the metastore under this name, and go on from it; it wins over where to begin.",
    Scope.STREAM,
)
EXPIRED_POSITION: Final = Option[str](
    "scan.expired-position",
    Choice(("fail", "earliest", "full")),
    "fail",
    "What happens when the next change of a consumer, a checkpoint or a running stream is no longer kept: `fail` with "
    "an error, go on with the `earliest` one that is, or with the rows there are in `full`. Given by hand, `fail` also "
    "holds for where a stream begins, which else begins with the earliest.",
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
    "Show what overwrites changed, too: in a table with a primary key the difference of the rows before and after, in "
    "others the new rows.",
    Scope.STREAM,
    default_text="as the table's option of this name says",
)
