"""Make the test vectors of `lakelog.format.keys.bucket` with Spark's own `hash`.

Run `python -m bench.kernels.make_bucket_vectors` (needs pyspark and Java); it rewrites
tests/unit/format/bucket_vectors.json. Values are written as text that keeps them exactly: integers and decimals in
digits, bytes in hex, dates as days and timestamps as microseconds since 1970, floating-point numbers as `float.hex`.
"""

from __future__ import annotations

import json
import random
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
)

random.seed(20260101)
TARGET = Path(__file__).parents[2] / "tests" / "unit" / "format" / "bucket_vectors.json"


def integers(bits: int) -> list[int]:
    low, high = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    return [low, low + 1, -2, -1, 0, 1, 2, high - 1, high] + [random.randint(low, high) for _ in range(20)]


def decimals(precision: int, scale: int) -> list[Decimal]:
    high = 10**precision - 1
    # 2**k around byte boundaries: BigInteger.toByteArray changes its length there.
    edges = [2**k + d for k in range(7, 127, 8) for d in (-1, 0, 1)]
    numbers = [0, 1, -1, high, -high] + [n for edge in edges if edge <= high for n in (edge, -edge)]
    numbers += [random.randint(-high, high) for _ in range(20)]
    return [Decimal(f"{number}E-{scale}") for number in numbers]


def texts() -> list[str]:
    alphabet = "abcXYZ019 żółćß€漢字😀\0\n"
    return [
        *("x" * length for length in range(34)),
        *("".join(random.choices(alphabet, k=length)) for length in range(1, 34)),
        *("é" * n for n in range(1, 9)),
        "abcdef",
        "żółć",
        "😀",
        "\0",
        "\0\0\0\0",
        "a" * 1000,
    ]


def blobs() -> list[bytes]:
    return [b"", b"\x00", b"\xff", b"\x80\x80\x80\x80\x80", *(random.randbytes(n) for n in range(1, 34))]


DAYS = [-719162, -1, 0, 1, 18262, 2932896, *(random.randint(-700_000, 2_900_000) for _ in range(9))]
MICROSECONDS = [-62135596800000000, -1, 0, 1, 253402300799999999, 1577836800123456]
FLOATS = [0.0, -0.0, 1.5, -2.25, float("inf"), float("-inf"), float("nan")]
DECIMAL_TYPES = ((1, 0), (5, 2), (18, 3), (19, 0), (38, 0), (38, 10), (38, 38))

CASES: list[tuple[str, DataType, list[object], str]] = [
    ("BOOLEAN", BooleanType(), [True, False], "c"),
    ("TINYINT", ByteType(), list(integers(8)), "c"),
    ("SMALLINT", ShortType(), list(integers(16)), "c"),
    ("INT", IntegerType(), list(integers(32)), "c"),
    ("BIGINT", LongType(), list(integers(64)), "c"),
    ("FLOAT", FloatType(), [*FLOATS, 2.0**-149], "c"),
    ("DOUBLE", DoubleType(), [*FLOATS, 0.1, -1e300, 5e-324], "c"),
    ("STRING", StringType(), list(texts()), "c"),
    ("BINARY", BinaryType(), list(blobs()), "c"),
    ("DATE", IntegerType(), list(DAYS), "date_from_unix_date(c)"),
    ("TIMESTAMP", LongType(), list(MICROSECONDS), "timestamp_micros(c)"),
    ("TIMESTAMP_NTZ", LongType(), list(MICROSECONDS), "cast(timestamp_micros(c) as timestamp_ntz)"),
    *((f"DECIMAL({p},{s})", DecimalType(p, s), list[object](decimals(p, s)), "c") for p, s in DECIMAL_TYPES),
]


def to_text(value: object) -> object:
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, float):
        return value.hex()
    return value.hex() if isinstance(value, bytes) else format(value, "f") if isinstance(value, Decimal) else str(value)


def main() -> None:
    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    single = []
    columns: dict[str, list[object]] = {}
    for name, data_type, given, expression in CASES:
        values = [*given, None]
        frame = spark.createDataFrame([(v,) for v in values], StructType([StructField("c", data_type)])).coalesce(1)
        hashes = [row[0] for row in frame.select(sf.hash(sf.expr(expression))).collect()]
        single.append({"type": name, "values": [to_text(v) for v in values], "hashes": hashes})
        columns[name] = values
    combined = []
    for names in (
        ["BIGINT", "STRING"],
        ["STRING", "STRING", "INT"],
        ["BOOLEAN", "DECIMAL(38,10)", "BINARY", "SMALLINT"],
    ):
        schema = StructType(
            [StructField(f"c{i}", next(t for n, t, _, _ in CASES if n == name)) for i, name in enumerate(names)]
        )
        rows = [tuple(random.choice(columns[name]) for name in names) for _ in range(40)]
        hashes = [
            row[0] for row in spark.createDataFrame(rows, schema).coalesce(1).select(sf.hash(*schema.names)).collect()
        ]
        combined.append({"types": names, "rows": [[to_text(v) for v in row] for row in rows], "hashes": hashes})
    vectors = {"made_by": f"Spark {spark.version}", "single": single, "combined": combined}
    TARGET.write_text(json.dumps(vectors, ensure_ascii=True, indent=None, separators=(",", ":")) + "\n")
    spark.stop()


if __name__ == "__main__":
    main()
