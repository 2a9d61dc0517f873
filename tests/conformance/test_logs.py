"""Section 4 through a plain consumer of a real broker, and through subscriptions out of the log and out of files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.conformance.cases_log import CASES
from tests.conformance.language import TableSpec
from tests.conformance.log_language import FORMS, LogCase
from tests.conformance.log_stage import LogStage, PlainRecord, to_key, to_message
from tests.conformance.stream_drivers import DrivenReader
from tests.conformance.stream_language import StreamCase, compare_shown, plain_lines, to_line

TRIED = [(case, form) for case in CASES for form in case.forms]
_TIMEOUT_S = 20.0


@pytest.fixture(autouse=True)
def stage_of_spark(log_stage: LogStage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark's reader asks the metastore of the stage."""
    for module in ("source.data_source", "stream.reader"):
        monkeypatch.setattr(f"lakelog.spark.{module}.open_metastore", lambda connection: log_stage.metastore)


@pytest.mark.parametrize(("case", "form"), TRIED, ids=[f"{case.rule} {form}".replace(" ", "-") for case, form in TRIED])
def test_rule(case: LogCase, form: str, log_stage: LogStage) -> None:
    stage = log_stage
    name = stage.create(case.table, FORMS[form])
    for act in case.acts:
        stage.act(name, case.table, act)
    stage.publish(name)
    compare_held(case, form, stage.read(name), stage.find_commits(name), name)
    if form in (case.forms[0], case.forms[-1]):
        stream = StreamCase(case.rule, case.table, shows=case.shows)
        shown = {mode: read_stream(stage, name, mode) for mode in (None, "file")}
        for found in shown.values():
            compare_shown(stream, [found])
        assert shown[None] == shown["file"]
        compare_shown(stream, read_by_spark(name, stream))
    stage.end(name)


def compare_held(
    case: LogCase, form: str, records: Sequence[PlainRecord], commits: Mapping[int, tuple[str, int]], name: str
) -> None:
    """Compares what a plain consumer found, and looks at what all records have in common."""
    spec, options = case.table, FORMS[form]
    for record in records:
        uuid, _ = commits[record.snapshot]
        assert record.headers["uuid"] == uuid
        wanted = {"kind", "snapshot", "uuid", "idx", *(("sequence",) if case.sequences else ())}
        assert set(record.headers) == wanted
        if not spec.key:
            assert record.key is None
    for partition in {record.partition for record in records}:
        order = [(r.snapshot, int(r.headers["idx"])) for r in records if r.partition == partition]
        assert order == sorted(set(order)), "by snapshot and place, none twice"
    found: dict[int, list[tuple[str, str]]] = {}
    for record in records:
        key = to_key(spec, options, record) if spec.key else ""
        found.setdefault(record.snapshot, []).append((key, to_message(spec, options, record)))
    expected = {
        each: [(find_key(spec, message), message) for message in normalize(spec, messages)]
        for each, messages in case.expected(form).items()
    }
    assert {each: sorted(rows) for each, rows in found.items()} == {
        each: sorted(rows) for each, rows in expected.items()
    }, case.rule
    if spec.key:
        for each, rows in expected.items():
            for key in {key for key, _ in rows}:
                assert [m for k, m in found[each] if k == key] == [m for k, m in rows if k == key], case.rule
    if case.sequences is not None:
        sequences = {each: sorted(r.headers["sequence"] for r in records if r.snapshot == each) for each in found}
        assert sequences == {each: sorted(texts) for each, texts in case.sequences.items()}


def normalize(spec: TableSpec, messages: Sequence[str]) -> list[str]:
    """Expected rows through their types and back."""
    shown = []
    for message in messages:
        kind, text = message[:2], message[3:]
        rows = [text] if text.startswith("#") else text.split(" > ")
        shown.append(f"{kind} {' > '.join(row if row[0] == '#' else plain_lines(spec, [row])[0] for row in rows)}")
    return shown


def find_key(spec: TableSpec, message: str) -> str:
    """The key of a message as cases write it."""
    text = message[3:]
    if text.startswith("#"):
        return text[1:]
    row = dict(zip(spec.schema.names, text.split(" > ")[-1].split("|"), strict=True))
    return "|".join(row[name] for name in spec.key)


def read_stream(stage: LogStage, name: str, mode: str | None) -> list[tuple[int, str]]:
    """What a subscription shows of all snapshots, as cases write it."""
    table = stage.table(name)
    newest = max(stage.find_commits(name))
    options = {"scan.snapshot-id": "1", **({} if mode is None else {"streaming-read-mode": mode})}
    found: list[tuple[int, str]] = []
    with table.subscribe("from-snapshot", options=options) as stream:
        while (stream.position or 0) < newest:
            batch = stream.read(_TIMEOUT_S if stream.position is None else 0.05)
            if batch is not None:
                found += [(batch.snapshot_id, to_line(row)) for row in batch.data.to_pylist()]
    return found


def read_by_spark(name: str, case: StreamCase) -> list[list[tuple[int, str]]]:
    """The same through Spark's stream reader, task by task; the rows of a task are those of some buckets."""
    driven = DrivenReader("nowhere:1", name, case, {"scan.snapshot-id": "1"})
    found = driven.take()
    driven.close()
    for task in found:
        newest: dict[tuple[str, ...], int] = {}
        for snapshot_id, line in task if case.table.key else ():
            key = tuple(line[3:].split("|")[: len(case.table.key)])
            assert newest.get(key, 0) <= snapshot_id, f"{case.rule}: {key} comes in another order"
            newest[key] = snapshot_id
    return [sorted(task, key=lambda row: row[0]) for task in found]
