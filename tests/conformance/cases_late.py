"""Section 3.5 once more, where a compactor makes the changelog after the commit: it is the same one."""

from __future__ import annotations

from dataclasses import replace

from tests.conformance import cases_producers, cases_touched_buckets

CASES = tuple(
    replace(
        case,
        rule=f"3.5 after the commit: {case.rule}",
        table=replace(case.table, options={**case.table.options, "lookup-wait": "false"}),
    )
    for case in (*cases_producers.CASES, *cases_touched_buckets.CASES)
    if case.table.options.get("changelog-producer") == "lookup" and case.changes
)
