"""`lakelog changes`, `tail` and `jobs` where changelogs are made after the commit."""

from __future__ import annotations

import json
import re

import pytest

from lakelog.sdk.catalog import Catalog
from metastore.testing import InProcessMetastore
from tests.support.command import Command
from tests.support.tables.attaching import attach_all
from tests.support.tables.keyed import make, rows


@pytest.fixture
def command(catalog: Catalog, capsys: pytest.CaptureFixture[str]) -> Command:
    table = make(catalog, "lookup", lookup_wait="false")
    table.write(rows("+I 1|1|1"))
    table.write(rows("+U 1|1|2"))
    return Command(catalog, capsys)


def kinds(out: str) -> list[str]:
    return [json.loads(line)["_row_kind"] for line in out.splitlines()]


def test_a_bounded_command_waits_and_then_says_which_snapshot_waits(
    command: Command, metastore: InProcessMetastore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakelog.cli.commands.rows.tail.DEFAULT_TIMEOUT_S", 0.3)
    from_first = ("tail", "shop.t", "--mode", "from-snapshot", "-O", "scan.snapshot-id=1", "-o", "json")
    for arguments in (("changes", "shop.t", "--timeout", "0.3"), from_first):
        code, _, err = command(*arguments)
        assert code == 5
        assert re.search(r"Snapshot 1 of shop\.t still waits for a compactor", err)
    assert kinds(command("changes", "shop.t", "--raw", "-o", "json")[1]) == ["+I", "+U"]
    attach_all(metastore)
    # What the compactor logged is no part of what the command says.
    command.capture.readouterr()
    for arguments in (("changes", "shop.t", "-o", "json"), from_first):
        code, out, _ = command(*arguments)
        assert (code, kinds(out)) == (0, ["+I", "-U", "+U"])


def test_jobs_show_what_is_due_and_what_was_done(command: Command, metastore: InProcessMetastore) -> None:
    (due,) = json.loads(command("jobs", "-o", "json")[1])
    assert (due["table"], due["kind"], due["state"], due["outcome"]) == ("shop.t", "changelog", "due", None)
    attach_all(metastore)
    # What the compactor logged is no part of what the command says.
    command.capture.readouterr()
    code, out, _ = command("jobs", "list", "shop.t")
    assert code == 0
    assert "attached the changelogs of snapshots 1 to 2 (3 rows)" in out
    code, _, err = command("jobs", "retry", str(due["job_id"]))
    assert (code, "is done, and nothing is left to do" in err) == (2, True)


def test_expire_reports_what_goes_and_who_needs_the_rest(command: Command, metastore: InProcessMetastore) -> None:
    code, out, _ = command(
        "table", "expire", "shop.t", "--older-than", "2200-01-01", "--retain-last", "1", "-o", "json"
    )
    (found,) = [json.loads(out)]
    # Both snapshots wait for their changelogs.
    assert (code, found["snapshots"], found["first_kept"]) == (0, 0, 1)
    assert [(lease["kind"], lease["snapshot_id"]) for lease in found["held_by"]] == [("changelog", 0)]
    attach_all(metastore)
    command.capture.readouterr()
    arguments = ("table", "expire", "shop.t", "--older-than", "2200-01-01", "--retain-last", "1")
    code, out, err = command(*arguments, "--dry-run")
    assert code == 0
    assert re.search(r"Snapshots expired\s+1\n", out)
    assert "Nothing was changed (--dry-run)." in out + err
    assert json.loads(command(*arguments, "-o", "json")[1])["first_kept"] == 2
    code, _, err = command("table", "expire", "shop.t", "--older-than", "soon")
    assert (code, "The time 'soon' cannot be read" in err) == (2, True)
