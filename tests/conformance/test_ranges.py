"""Section 5.1, `incremental`: what two snapshots have between them, read once, through the SDK and through Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from lakelog.embedded.stack import EmbeddedStack
from lakelog.errors import LakelogError
from lakelog.sdk.catalog import Catalog
from tests.conformance.language import TableSpec, append, delete, overwrite, upsert, write
from tests.conformance.stream_drivers import SubscriptionDriver
from tests.conformance.stream_language import Act, Compact, Forget, plain_lines, to_line
from tests.support.spark.driven_stream import read_driven

COLUMNS = "k INT NOT NULL, v STRING"
KV = TableSpec(COLUMNS, key=("k",), options={"bucket": "2"})
LOOKUP = TableSpec(COLUMNS, key=("k",), options={"changelog-producer": "lookup"})
INPUT = TableSpec(COLUMNS, key=("k",), options={"changelog-producer": "input"})
FIRST = TableSpec(COLUMNS, key=("k",), options={"merge-engine": "first-row"})
LOG = TableSpec("k INT, v STRING")

HISTORY = (
    upsert("1|a", "2|b"),
    write("+U 1|A", "-D 2|b", "+I 3|c"),
    Compact(),
    upsert("1|x", "3|c"),
    delete("1", columns=("k",)),
    overwrite("3|z", "4|d"),
    upsert("4|D"),
)
"""Seven snapshots, of which the third compacts and the sixth replaces all rows."""

APPENDED = (append("1|a"), append("1|a", "2|b"), Compact(), append("3|c"), overwrite("9|z"))
MODE = "incremental-between-scan-mode"


@dataclass(frozen=True)
class RangeCase:
    """What a read of `incremental-between` returns, in any order, or says."""

    rule: str
    table: TableSpec
    between: str
    mode: str | None
    rows: tuple[str, ...] = ()
    history: tuple[Act, ...] = HISTORY
    more: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None


CASES = (
    # Rows as they were written, deletes left out; kinds are not shown.
    RangeCase("delta", KV, "1,2", "delta", ("1|A", "3|c")),
    RangeCase("delta is the default", KV, "1,2", None, ("1|A", "3|c")),
    RangeCase("delta over a compaction", KV, "2,4", "delta", ("1|x", "3|c")),
    RangeCase("delta of several commits", KV, "0,5", "delta", ("1|a", "2|b", "1|A", "3|c", "1|x", "3|c")),
    RangeCase("delta shows no overwrite", KV, "5,7", "delta", ("4|D",)),
    RangeCase("delta of lookup", LOOKUP, "1,2", "delta", ("1|A", "3|c")),
    RangeCase("delta of a compaction", KV, "2,3", "delta"),
    RangeCase("nothing between a snapshot and itself", KV, "2,2", "delta"),
    RangeCase("nothing between a snapshot and itself, diff", KV, "2,2", "diff"),
    RangeCase("delta of an append table", LOG, "0,4", "delta", ("1|a", "1|a", "2|b", "3|c"), APPENDED),
    RangeCase("delta of an append table without its overwrite", LOG, "3,5", "delta", ("3|c",), APPENDED),
    RangeCase("auto of an append table", LOG, "1,4", "auto", ("1|a", "2|b", "3|c"), APPENDED),
    # What each snapshot changed.
    RangeCase("changelog of none", KV, "1,2", "changelog", ("-U 1|a", "+U 1|A", "-D 2|b", "+I 3|c")),
    RangeCase("changelog of lookup", LOOKUP, "1,2", "changelog", ("-U 1|a", "+U 1|A", "-D 2|b", "+I 3|c")),
    RangeCase("changelog of input", INPUT, "1,2", "changelog", ("+U 1|A", "-D 2|b", "+I 3|c")),
    RangeCase("changelog over a compaction", KV, "2,5", "changelog", ("-U 1|A", "+U 1|x", "-D 1|x")),
    RangeCase("changelog shows no overwrite", KV, "5,7", "changelog", ("-U 4|d", "+U 4|D")),
    RangeCase(
        "changelog of first-row",
        FIRST,
        "0,2",
        "changelog",
        ("+I 1|a", "+I 2|b"),
        (upsert("1|a"), upsert("1|b", "2|b")),
    ),
    # What two states differ in.
    RangeCase("diff", KV, "1,5", "diff", ("-D 1|a", "-D 2|b", "+I 3|c")),
    RangeCase("diff shows overwrites", KV, "5,7", "diff", ("-U 3|c", "+U 3|z", "+I 4|D")),
    RangeCase("diff from nothing", KV, "0,4", "diff", ("+I 1|x", "+I 3|c")),
    RangeCase("diff over a compaction alone", KV, "2,3", "diff"),
    RangeCase("diff of lookup", LOOKUP, "1,5", "diff", ("-D 1|a", "-D 2|b", "+I 3|c")),
    RangeCase("diff of input", INPUT, "1,4", "diff", ("-U 1|a", "+U 1|x", "-D 2|b", "+I 3|c")),
    # `auto`: a changelog where there is a producer.
    RangeCase("auto of none is delta", KV, "1,2", "auto", ("1|A", "3|c")),
    RangeCase("auto of lookup is changelog", LOOKUP, "1,2", "auto", ("-U 1|a", "+U 1|A", "-D 2|b", "+I 3|c")),
    RangeCase("auto of input is changelog", INPUT, "1,2", "auto", ("+U 1|A", "-D 2|b", "+I 3|c")),
    # What cannot be.
    RangeCase(
        "refused: changelog of an append table",
        LOG,
        "0,1",
        "changelog",
        (),
        APPENDED,
        error="'changelog' needs a table with a primary key",
    ),
    RangeCase(
        "refused: diff of an append table",
        LOG,
        "0,1",
        "diff",
        (),
        APPENDED,
        error="'diff' needs a table with a primary key",
    ),
    RangeCase("refused: an unknown mode", KV, "0,1", "all", error=f"'{MODE}' = 'all' is not possible"),
    RangeCase("refused: beyond the newest", KV, "1,9", "delta", error="has no snapshot 9; it has the snapshots 1 to 7"),
    RangeCase(
        "refused: beyond the newest, diff", KV, "1,9", "diff", error="has no snapshot 9; it has the snapshots 1 to 7"
    ),
    RangeCase(
        "refused: the wrong way round", KV, "5,2", "delta", error="'incremental-between' = '5,2' is not possible"
    ),
    RangeCase("refused: one id", KV, "5", "delta", error="'incremental-between' = '5' is not possible"),
    RangeCase(
        "refused: expired",
        KV,
        "1,5",
        "changelog",
        (),
        (*HISTORY, Forget(4)),
        error="at snapshot 1 of .*, but snapshots 4 to 7 are all",
    ),
    RangeCase(
        "refused: expired, diff", KV, "1,5", "diff", (), (*HISTORY, Forget(4)), error="Snapshot 1 of .* has expired"
    ),
    RangeCase(
        "refused: a state, too",
        KV,
        "1,2",
        "delta",
        more={"scan.snapshot-id": "2"},
        error="'scan.snapshot-id' and 'incremental-between' both say which state to read",
    ),
    RangeCase("the oldest that is kept", KV, "3,5", "changelog", ("-U 1|A", "+U 1|x", "-D 1|x"), (*HISTORY, Forget(4))),
)


@pytest.mark.parametrize("how", ["sdk", "reader"])
@pytest.mark.parametrize("case", CASES, ids=[case.rule.replace(" ", "-") for case in CASES])
def test_range(how: str, case: RangeCase, catalog: Catalog, stack: EmbeddedStack) -> None:
    driver = SubscriptionDriver(catalog, stack)
    name = driver.create(case.table)
    for act in case.history:
        driver.act(name, case.table, act)
    options = {"incremental-between": case.between, **case.more} | ({} if case.mode is None else {MODE: case.mode})

    def read() -> list[str]:
        if how == "reader":
            return [to_line(row) for row in read_driven(stack.target, name, options)]
        return [to_line(row) for row in catalog.table(name).scan(options=options).to_arrow().to_pylist()]

    if case.error is not None:
        with pytest.raises(LakelogError, match=case.error):
            read()
        return
    assert sorted(read()) == sorted(plain_lines(case.table, case.rows))


def test_a_mode_without_a_range(catalog: Catalog, stack: EmbeddedStack) -> None:
    name = SubscriptionDriver(catalog, stack).create(KV)
    with pytest.raises(LakelogError, match=f"Option '{MODE}' has no effect without 'incremental-between'"):
        catalog.table(name).scan(options={MODE: "diff"})
