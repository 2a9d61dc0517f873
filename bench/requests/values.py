"""Values for the fields of requests: values that mean something on the server, and extreme ones of the same form."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from bench.requests.methods import INTEGERS, is_map
from lakelog.format.jobs.job import CHANGELOG, CLEAN, COMPACT, EXPIRE, PURGE
from lakelog.format.keys.encoding import encode_key, encode_partition
from lakelog.options.option import Scope
from lakelog.options.registry import list_options
from metastore.store.limits import BOUNDS, MAX_INT32, MAX_INT64

SCHEMA: Final = pa.schema(
    [pa.field("day", pa.string(), False), pa.field("id", pa.int64(), False), pa.field("v", pa.string())]
)
"""The schema of the tables that requests use."""

KEPT: Final = 60
"""How many values of one sort are remembered; later ones replace earlier ones at random."""

_NUMBERS: Final = (
    *(0, 1, -1, 2, 3, 7, 127, 128, 255, 1000, 9_999, 10_000, 10_001, 65_535, 65_536, 2**24, 2**52, 2**53 + 1),
    *(MAX_INT32 - 1, MAX_INT32, -MAX_INT32 - 1, MAX_INT32 + 1, 2**32, 2**62 - 1, 2**62, MAX_INT64 - 1, MAX_INT64),
    *(-MAX_INT64 - 1, -MAX_INT64, -(2**62), 253_402_300_800_000, 9_467_000_000_000_000, -62_135_596_800_001),
)
_TEXTS: Final = (
    *(
        "",
        " ",
        "a",
        "-x",
        "..",
        "../..",
        "/",
        "a/b",
        "a.b",
        "%s",
        "{}",
        "'",
        '"',
        "\\",
        "`",
        ";--",
        "NULL",
        "nan",
        "\x00",
    ),
    *(
        "a\nb",
        "\x1b[31m",
        "\u202etxt",
        "\u2028",
        "\ufeff",
        "e\u0301",
        "\u0130",
        "\u00df",
        "\U0001f600",
        "\ud7ff",
        "\uffff",
    ),
    *("x" * 127, "x" * 128, "x" * 129, "x" * 256, "x" * 257, "\U0001f600" * 256, "x" * 1024, "x" * 4096, "x" * 4097),
    *(
        "x" * 70_000,
        "0" * 32,
        "f" * 32,
        "F" * 32,
        "0" * 31,
        "g" * 32,
        "9" * 400,
        "job/1",
        "job/0",
        "publisher/" + "0" * 32,
    ),
    *(
        "-0",
        "1e400",
        "0x10",
        "\u0661",
        "9223372036854775808",
        "1 d",
        "100 years",
        "true",
        "s3://b/k",
        "file:///etc/passwd",
    ),
)
_PATHS: Final = (
    *(
        "-x.parquet",
        "x" * 862,
        "x" * 863,
        "a/" * 400 + "a",
        "x" * 256,
        ".x",
        "a//b",
        "a/../b",
        "a\\b",
        "a b",
        "A.parquet",
    ),
    *(
        "a%00",
        "a#b?c",
        "a\u0301.parquet",
        "a\n",
        "",
        "/",
        "=x=1/a.parquet",
        "CON",
        "a.parquet/b.parquet",
        "a" * 255 + "/b",
    ),
)
_BYTES: Final = (b"", b"\x00", b"\xff", b"\xff" * 2048, b"\x00" * 2049, b"\x80" * 70_000, b"a\x00b", bytes(range(256)))
_KINDS: Final = (COMPACT, EXPIRE, CLEAN, CHANGELOG, PURGE, "expire-partitions", "deletion-vectors")
_WRITERS: Final = ("w", "writer-2", "\u017c\u00f3\u0142w", "job/1")
_OPTIONS: Final = tuple(
    option.key for option in list_options(Scope.TABLE) if not option.key.startswith(("log.", "kafka."))
)
"""The options that need no Kafka."""

_OPTION_VALUES: Final = (
    *(
        "0",
        "1",
        "-1",
        "2",
        "4",
        "true",
        "false",
        "0 ms",
        "1 ms",
        "1 s",
        "36500 d",
        "36501 d",
        "999999999999999999 d",
        "1 b",
    ),
    *(
        "1 tb",
        "1024 tb",
        "1125899906842625 b",
        "none",
        "lookup",
        "full-compaction",
        "input",
        "v",
        "id",
        "day",
        "v,id",
        "zstd",
    ),
    *(
        "2147483647",
        "2147483648",
        "9223372036854775807",
        "dynamic",
        "deduplicate",
        "first-row",
        "partial-update",
        "9" * 18,
    ),
)


class Known:
    """The things on the server that its answers have named; requests name them again.

    Args:
        dice: Chooses.
    """

    def __init__(self, dice: random.Random) -> None:
        self.dice = dice
        self.main_tables: list[str] = []
        self._texts: defaultdict[str, list[str]] = defaultdict(list)
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, name: str, value: str | int) -> None:
        """Remembers a value of a field of this name."""
        values: list[Any] = self._texts[name] if isinstance(value, str) else self._numbers[name]
        if value in values:
            return
        if len(values) < KEPT:
            values.append(value)
        else:
            values[self.dice.randrange(KEPT)] = value

    def text(self, *names: str) -> str | None:
        """One of the texts of these names; None: none is known."""
        values = [value for name in names for value in self._texts[name]]
        return self.dice.choice(values) if values else None

    def number(self, *names: str) -> int | None:
        """One of the numbers of these names; None: none is known."""
        values = [value for name in names for value in self._numbers[name]]
        return self.dice.choice(values) if values else None

    def harvest(self, message: Message, limit: int = 40) -> None:
        """Remembers the things that an answer names."""
        for field, value in message.ListFields():
            # The writer of commits keeps its epoch.
            if field.name == "writer" or is_map(field) or field.type == FieldDescriptor.TYPE_BYTES:
                continue
            for each in list(value)[:limit] if field.is_repeated else [value]:
                if isinstance(each, Message):
                    self.harvest(each, limit // 2)
                elif isinstance(each, str) and each and len(each) < 300:
                    self.add(field.name.removesuffix("s"), each)
                elif field.cpp_type in INTEGERS:
                    self.add(field.name.removesuffix("s"), int(each))


def sensible(known: Known, message: str, field: FieldDescriptor) -> Any:
    """A value of one element of a scalar field, as an honest client might send it."""
    dice = known.dice
    if field.cpp_type in INTEGERS:
        return _sensible_number(known, message, field)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return dice.random() < 0.3
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        assert field.enum_type is not None, "an enum has a type"
        return dice.choice([value.number for value in field.enum_type.values][1:])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return _sensible_bytes(dice, field.name)
    return _sensible_text(known, message, field.name)


def extreme(known: Known, message: str, field: FieldDescriptor) -> Any:
    """A value of one element of a scalar field that has the right type and may break every other rule."""
    dice = known.dice
    if field.cpp_type in INTEGERS:
        bounds = BOUNDS.get(f"{message}.{field.name}")
        largest = dice.choice((MAX_INT64, MAX_INT64 - 1, MAX_INT64 - 1000, 2**62, -MAX_INT64 - 1))
        numbers = [dice.choice(_NUMBERS), largest, dice.randint(-(2**63), 2**63 - 1)]
        if bounds is not None:
            numbers += 2 * [dice.choice((bounds.lowest - 1, bounds.lowest, bounds.highest, bounds.highest + 1))]
        number = dice.choice(numbers)
        highest = MAX_INT32 if field.cpp_type == FieldDescriptor.CPPTYPE_INT32 else MAX_INT64
        return min(max(number, -highest - 1), highest)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return dice.random() < 0.5
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return dice.choice([0, 1, 2, 3, 4, 5, 6, 7, 8, 99, -1, MAX_INT32])
    if field.type == FieldDescriptor.TYPE_BYTES:
        return dice.choice([*_BYTES, dice.randbytes(dice.randrange(60)), SCHEMA.serialize().to_pybytes()[:-5]])
    if "path" in field.name:
        return _path(known, dice.choice(_PATHS))
    if field.name in ("value", "set_options") and dice.random() < 0.5:
        return dice.choice(_OPTION_VALUES)
    anything = known.text(*_ANY_TEXT)
    return dice.choice([dice.choice(_TEXTS), dice.choice(_TEXTS), anything or "", _random_text(dice)])


_ANY_TEXT: Final = ("table_uuid", "attempt_id", "snapshot_uuid", "name", "path", "consumer_id", "database", "topic")


def option(dice: random.Random) -> tuple[str, str]:
    """An option of tables with a value that is perhaps one of its own."""
    return dice.choice(_OPTIONS), dice.choice(_OPTION_VALUES)


def _sensible_number(known: Known, message: str, field: FieldDescriptor) -> int:
    name = field.name.removesuffix("s")
    bounds = BOUNDS.get(f"{message}.{field.name}")
    lowest = 0 if bounds is None else bounds.lowest
    highest = MAX_INT64 if bounds is None else bounds.highest
    aliases = {
        "after": ("snapshot_id",),
        "until": ("snapshot_id",),
        "if_unchanged": ("snapshot_id",),
        "if_snapshot": ("snapshot_id",),
        "base_snapshot_id": ("snapshot_id",),
    }.get(name, ("file_id",) if "file_id" in name else (name,))
    found = known.number(*aliases)
    dice = known.dice
    if found is None or dice.random() < 0.3:
        found = dice.choice([lowest, lowest + 1, max(lowest, min(1000, highest))])
    return min(max(found, lowest), highest)


def _sensible_bytes(dice: random.Random, name: str) -> bytes:
    if name == "arrow_schema":
        return SCHEMA.serialize().to_pybytes()
    if "partition" in name or name in ("after", "value"):
        return dice.choice([b"", partition("a"), partition("b")])
    return key(dice.choice([-5, 0, 3, 2**40]))


def odd_name(dice: random.Random) -> str:
    """The name of a file that some store may refuse."""
    return dice.choice(_PATHS)


def partition(day: str) -> bytes:
    """The encoded partition of a day."""
    return encode_partition([pa.scalar(day)])


def key(number: int) -> bytes:
    """An encoded key without partition columns."""
    return encode_key([pa.scalar(number)])


def _sensible_text(known: Known, message: str, name: str) -> str:
    dice = known.dice
    single = name.removesuffix("s")
    if "path" in name:
        return _path(known, f"{dice.randrange(5)}.parquet")
    if single.endswith("uuid") and single != "table_uuid":
        return known.text("snapshot_uuid") or ""
    if single == "table_uuid" and known.main_tables and dice.random() < 0.8:
        return dice.choice(known.main_tables)
    if single in ("table_uuid", "attempt_id", "open_id", "instance_id"):
        return known.text("attempt_id" if single == "open_id" else single) or f"{dice.getrandbits(128):032x}"
    choices: Sequence[str] = {
        "kind": _KINDS,
        "scope": ("/0", "/1", f"{partition('a').hex()}/0"),
        "primary_key": ("day", "id"),
        "partition_by": ("day",),
        "state": ("starting", "running", "stopped", "failed"),
        "table": ("fuzz.t", known.text("table") or "fuzz.t"),
        "cursor": ("", "data:0:0", "changelog:0:-1"),
        "column": ("day", "v"),
        "filter": ("id > 3", "v = 'x'", "day IS NULL"),
        "comment": ("", "words"),
        "next_uuid": ("",),
    }.get(single, ())
    if choices:
        return dice.choice(choices)
    if single in ("writer", "holder", "lease", "consumer_id", "host", "version", "source"):
        return known.text(single) if dice.random() < 0.5 and known.text(single) else dice.choice(_WRITERS)  # type: ignore[return-value]
    if single in ("database", "name"):
        return known.text(single, *(("database",) if "Database" in message else ())) or "fuzz"
    return known.text(single) or dice.choice(_WRITERS)


def _path(known: Known, name: str) -> str:
    attempt = known.text("attempt_id") or f"{known.dice.getrandbits(128):032x}"
    return known.dice.choice([f"data/{attempt}/{name}", f"data/{attempt}/{name}", name])


def _random_text(dice: random.Random) -> str:
    return "".join(
        chr(dice.choice([dice.randrange(32, 127), dice.randrange(0x80, 0xD7FF)])) for _ in range(dice.randrange(20))
    )
